"""Builds the windows of a level from those of the finer one.

Guarantee: what is built is exactly the sum of what the finer level holds of those windows, for every metric, every
block of nodes and the fleet; memory holds one block's windows at a time, and the answer's bytes.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from controlplane.telemetry.frames import frame
from controlplane.telemetry.frames.block import Block, merge
from controlplane.telemetry.frames.frame_store import Frame, FrameKey, FrameStore, ReadPoint
from controlplane.telemetry.values.levels import FINER_OF

Parent = tuple[int, int]
"""Block and window."""


def build(
    frames: FrameStore,
    moment: ReadPoint,
    resolution: int,
    first: int,
    last: int,
    given: Mapping[FrameKey, Block] | None = None,
) -> Iterator[Frame]:
    """The frames of windows first .. last - 1. `given`: blocks of the finer level that are newer than the store's."""
    finer = FINER_OF[resolution]
    ratio = resolution // finer
    by_metric: dict[int, dict[Parent, list[FrameKey]]] = defaultdict(lambda: defaultdict(list))
    for key in given or {}:
        if first <= key.window // ratio < last:
            by_metric[key.metric][key.block, key.window // ratio].append(key)
    stored = frames.metrics(moment, finer, first * ratio, last * ratio)
    for metric in sorted({*stored, *by_metric}):
        mine = by_metric[metric]
        for (block, window), children in _stored(frames, moment, finer, metric, first * ratio, last * ratio, ratio):
            keys = mine.pop((block, window), [])
            parts = [frame.decode(child.data) for child in children if child.key not in keys]
            yield _frame(resolution, metric, block, window, parts + [given[key] for key in keys if given])
        for (block, window), keys in mine.items():
            yield _frame(resolution, metric, block, window, [given[key] for key in keys if given])


def _stored(
    frames: FrameStore, moment: ReadPoint, finer: int, metric: int, first: int, last: int, ratio: int
) -> Iterator[tuple[Parent, list[Frame]]]:
    """The stored frames of a metric by what they are part of; they come by block and window."""
    parent: Parent | None = None
    children: list[Frame] = []
    for child in frames.read(moment, finer, metric, None, first, last):
        belongs = (child.key.block, child.key.window // ratio)
        if belongs != parent:
            if parent is not None:
                yield parent, children
            parent, children = belongs, []
        children.append(child)
    if parent is not None:
        yield parent, children


def _frame(resolution: int, metric: int, block: int, window: int, parts: list[Block]) -> Frame:
    return Frame(FrameKey(resolution, metric, block, window), frame.encode(merge(parts)))
