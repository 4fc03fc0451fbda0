"""Many windows of many nodes to frames of every level at once: what a load of history writes.

Windows go by in order of time, through one level after the other, so that memory holds one window of each. What is
alone in a coarser window (points a minute apart have one window of 10 s in each minute) is the coarser window, and its
bytes are made once.

Guarantee: at every level, as far as it keeps a window and has built it, a frame is the sum of what was there and of
what is loaded, for every metric, every block of nodes and the fleet.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.frames import frame
from controlplane.telemetry.frames.block import (
    Block,
    HistogramBlock,
    collapse_histograms,
    collapse_scalars,
    merge,
)
from controlplane.telemetry.frames.frame_store import Frame, FrameKey, FrameStore, ReadPoint
from controlplane.telemetry.frames.gather import FLEET, BlocksOf, node_blocks
from controlplane.telemetry.values.columns import Columns
from controlplane.telemetry.values.levels import BASE_S, COARSER, FINER_OF


class Made:
    """A block, and its bytes once somebody wants them."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._data: bytes | None = None

    @property
    def data(self) -> bytes:
        if self._data is None:
            self._data = frame.encode(self.block)
        return self._data


Place = tuple[int, int]
"""Metric and block of nodes."""


class Window(NamedTuple):
    number: int
    blocks: Mapping[Place, Made]


def frames(
    store: FrameStore, moment: ReadPoint, columns: Columns, blocks_of: BlocksOf, fleet_of: BlocksOf
) -> Iterator[Frame]:
    """The frames to be written. columns: with the store's ids; fleet_of: the fleet sets of label sets."""
    written: list[Frame] = []
    windows = _finest(columns, blocks_of, fleet_of)
    for resolution in (BASE_S, *COARSER):
        if resolution != BASE_S:
            windows = _coarser(windows, resolution // FINER_OF[resolution])
        windows = _written(store, moment, resolution, windows, written)
    for _ in windows:
        yield from written
        written.clear()
    yield from written


def _finest(columns: Columns, blocks_of: BlocksOf, fleet_of: BlocksOf) -> Iterator[Window]:
    """The windows of the finest level, ascending, with the fleet's blocks."""
    nothing = Columns.empty()
    kinds = (
        replace(nothing, histograms=columns.histograms),
        replace(nothing, sums=columns.sums),
        replace(nothing, gauges=columns.gauges),
    )
    in_order = heapq.merge(*(node_blocks(part, blocks_of) for part in kinds), key=lambda one: one[0].window)
    for number, group in groupby(in_order, key=lambda one: one[0].window):
        found: dict[Place, Made] = {}
        of_fleet: dict[int, list[Block]] = defaultdict(list)
        for key, block in group:
            found[key.metric, key.block] = Made(block)
            if block.kind is not MetricKind.GAUGE:  # A mean over nodes needs each node's own value.
                of_fleet[key.metric].append(_over_nodes(block, fleet_of))
        found |= {(metric, FLEET): Made(merge(parts)) for metric, parts in of_fleet.items()}
        yield Window(number, found)


def _coarser(windows: Iterator[Window], ratio: int) -> Iterator[Window]:
    """Windows of the next level, of the fresh points alone."""
    for number, group in groupby(windows, key=lambda window: window.number // ratio):
        parts: dict[Place, list[Made]] = defaultdict(list)
        for window in group:
            for place, made in window.blocks.items():
                parts[place].append(made)
        yield Window(
            number,
            {
                place: found[0] if len(found) == 1 else Made(merge([made.block for made in found]))
                for place, found in parts.items()
            },
        )


def _written(
    store: FrameStore, moment: ReadPoint, resolution: int, windows: Iterator[Window], written: list[Frame]
) -> Iterator[Window]:
    """The same windows; as far as a level has them, their frames are in `written`."""
    level = moment.state.levels[resolution]
    for window in windows:
        # What a level has not built yet, it will be built of the finer one. The finest is built by being written.
        if window.number >= level.kept_from and (resolution == BASE_S or window.number < level.built_to):
            keys = {FrameKey(resolution, *place, window.number): made for place, made in window.blocks.items()}
            there = store.find(moment, keys)
            for key, made in keys.items():
                old = there.get(key)
                written.append(
                    Frame(key, made.data if old is None else frame.encode(merge([frame.decode(old), made.block])))
                )
        yield window


def _over_nodes(block: Block, fleet_of: BlocksOf) -> Block:
    """The sum over a block's nodes."""
    labels = fleet_of(block.labels)
    order = np.argsort(labels, kind="stable")
    if isinstance(block, HistogramBlock):
        columns = ("counts", "zero", "total", "minimum", "maximum", "error")
        chosen = {name: getattr(block, name)[order] for name in columns}
        return collapse_histograms(replace(block, labels=labels[order], **chosen))
    chosen = {name: getattr(block, name)[order] for name in ("value", "time_ns")}
    return collapse_scalars(replace(block, labels=labels[order], **chosen))
