"""The part of `verify` that looks at frames: each by itself, against the finer level, and the fleet's against all."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.folding.store_finding import Findings
from controlplane.telemetry.frames import frame
from controlplane.telemetry.frames.block import (
    Block,
    HistogramBlock,
    ScalarBlock,
    collapse_histograms,
    collapse_scalars,
    merge,
)
from controlplane.telemetry.frames.frame_store import FrameKey, FrameStore, ReadPoint
from controlplane.telemetry.frames.gather import FLEET
from controlplane.telemetry.values.columns import Floats, Ids, Ints
from controlplane.telemetry.values.levels import BASE_S, FINER_OF
from controlplane.telemetry.values.timespan import EPOCH

WINDOWS_AT_ONCE = 12
"""A metric's windows, and those of the finer level that they are made of, in memory at one time."""
SUM_TOLERANCE = 1e-9
"""Floating-point sums depend on their order a little; relative to the sum of what was added."""
EXTREME_TOLERANCE = 1e-6
Blocks = dict[FrameKey, Block | None]
"""None: it is there, and damaged."""


@dataclass(frozen=True)
class Known:
    """Metrics by id with their kinds, and label sets, ascending: their ids, fleet sets and blocks of nodes."""

    metrics: Mapping[int, MetricKind]
    labels: Ints
    fleet: Ints
    blocks: Ints

    def problems(self, kind: MetricKind, metrics: Sequence[int], labels: Ids) -> list[str]:
        """What rows of a kind speak of that is not known."""
        unknown = labels[~np.isin(labels, self.labels)]
        problems = [f"label set {unknown[0]} is not known"] if len(unknown) else []
        for metric in metrics:
            if self.metrics.get(metric) is not kind:
                problems.append(f"metric {metric} is {self.metrics.get(metric, 'not known')}, not {kind}")
        return problems

    def of(self, column: Ints, labels: Ids) -> Ints:
        """`fleet` or `blocks` of known label sets."""
        return column[np.searchsorted(self.labels, labels)]


def check(moment: ReadPoint, frames: FrameStore, known: Known, findings: Findings) -> int:
    """Every frame. Returns how many there are."""
    return sum(_Level(moment, frames, known, findings, resolution).check() for resolution in moment.state.levels)


class _Level:
    def __init__(
        self, moment: ReadPoint, frames: FrameStore, known: Known, findings: Findings, resolution: int
    ) -> None:
        self._moment = moment
        self._frames = frames
        self._known = known
        self._findings = findings
        self._level = moment.state.levels[resolution]

    def check(self) -> int:
        resolution = self._level.resolution
        first = self._frames.oldest(self._moment, resolution)
        newest = self._frames.newest(self._moment, resolution, 1 << 60)
        count = 0
        if first is None or newest is None:
            return 0
        for metric in self._frames.metrics(self._moment, resolution, first, newest + 1):
            for start in range(first, newest + 1, WINDOWS_AT_ONCE):
                end = min(start + WINDOWS_AT_ONCE, newest + 1)
                found = self._read(resolution, metric, start, end)
                count += len(found)
                for key, block in found.items():
                    self._check_alone(key, block)
                self._check_fleet(found)
                if resolution != BASE_S:
                    self._check_children(metric, start, end, found)
        return count

    def _check_alone(self, key: FrameKey, block: Block | None) -> None:
        if block is None:
            self._say(key, "damaged: it does not decode, or its checksum is wrong")
            return
        if key.window < self._level.kept_from:
            return  # Nobody reads it: retention has it still to drop.
        if key.resolution != BASE_S and key.window >= self._level.built_to:
            self._say(key, f"is beyond what is built, which is up to window {self._level.built_to}")
        problems = self._known.problems(block.kind, [key.metric], block.labels)
        if (np.diff(block.labels) <= 0).any():
            problems.append("its label sets are not ascending")
        if (
            not problems
            and key.block != FLEET
            and (self._known.of(self._known.blocks, block.labels) != key.block).any()
        ):
            problems.append("holds label sets of another block of nodes")
        for problem in problems:
            self._say(key, problem)

    def _check_fleet(self, found: Blocks) -> None:
        windows: dict[int, list[FrameKey]] = defaultdict(list)
        for key in found:
            windows[key.window].append(key)
        for keys in windows.values():
            blocks = [(key, found[key]) for key in keys]
            if any(block is None for _, block in blocks) or not self._all_known(block for _, block in blocks):
                continue
            nodes = [block for key, block in blocks if key.block != FLEET and block is not None]
            fleet_key = keys[0]._replace(block=FLEET)
            fleet = found.get(fleet_key)
            if not nodes or nodes[0].kind is MetricKind.GAUGE:
                if fleet is not None:
                    self._say(fleet_key, "there are no nodes' frames that it could be the sum of")
                continue
            summed = merge([self._of_fleet(block) for block in nodes])
            self._compare(fleet_key, fleet, summed, "the sum of its nodes' frames")

    def _check_children(self, metric: int, start: int, end: int, found: Blocks) -> None:
        """Windows start .. end - 1 against the finer level, as far as that is kept."""
        finer = self._moment.state.levels[FINER_OF[self._level.resolution]]
        ratio = self._level.resolution // finer.resolution
        start = max(start, -(-finer.kept_from // ratio), self._level.kept_from)
        end = min(end, self._level.built_to)
        parts: dict[FrameKey, list[Block | None]] = defaultdict(list)
        for key, block in self._read(finer.resolution, metric, start * ratio, end * ratio).items():
            parts[FrameKey(self._level.resolution, metric, key.block, key.window // ratio)].append(block)
        here = {key for key in found if start <= key.window < end}
        for key in sorted(here | set(parts)):
            blocks = [block for block in parts.get(key, []) if block is not None]
            if len(blocks) < len(parts.get(key, [])) or (key in found and found[key] is None):
                continue  # Said already.
            expected = merge(blocks) if blocks else None
            self._compare(key, found.get(key), expected, f"the sum of its {finer.resolution} s frames")

    def _compare(self, key: FrameKey, there: Block | None, expected: Block | None, name: str) -> None:
        if key.window < self._level.kept_from:
            return
        if there is None or expected is None:
            self._say(key, f"is missing, {name} is not" if there is None else f"is there, {name} is missing")
        elif (problem := _difference(there, expected)) is not None:
            self._say(key, f"{problem} than {name}")

    def _of_fleet(self, block: Block) -> Block:
        """A block of nodes summed over its nodes."""
        labels = self._known.of(self._known.fleet, block.labels).astype(np.int32)
        order = np.argsort(labels, kind="stable")
        if isinstance(block, ScalarBlock):
            value, time_ns = block.value[order], block.time_ns[order]
            return collapse_scalars(replace(block, labels=labels[order], value=value, time_ns=time_ns))
        columns = {
            name: getattr(block, name)[order] for name in ("counts", "zero", "total", "minimum", "maximum", "error")
        }
        return collapse_histograms(replace(block, labels=labels[order], **columns))

    def _all_known(self, blocks: Iterator[Block | None]) -> bool:
        return all(block is not None and bool(np.isin(block.labels, self._known.labels).all()) for block in blocks)

    def _read(self, resolution: int, metric: int, first: int, last: int) -> Blocks:
        found: Blocks = {}
        for key, data in self._frames.read(self._moment, resolution, metric, None, first, last):
            try:
                found[key] = frame.decode(data)
            except frame.Damaged:
                found[key] = None
        return found

    def _say(self, key: FrameKey, problem: str) -> None:
        at = EPOCH.fromtimestamp(key.window * key.resolution, EPOCH.tzinfo).strftime("%Y-%m-%dT%H:%M:%SZ")
        whose = "fleet" if key.block == FLEET else f"block {key.block}"
        self._findings.add(f"frame of metric {key.metric}, {key.resolution} s at {at}, {whose}", problem)


def _difference(there: Block, expected: Block) -> str | None:
    """What differs: the first thing."""
    if there.kind is not expected.kind:
        return "is of another kind"
    if not np.array_equal(there.labels, expected.labels):
        return "has other label sets"
    if isinstance(there, HistogramBlock) and isinstance(expected, HistogramBlock):
        if not np.array_equal(_axis(there, expected), _axis(expected, there)):
            return "has other counts"
        if not np.array_equal(there.zero, expected.zero):
            return "has other zero counts"
        count = there.counts.sum(axis=1, dtype=np.float64) + there.zero
        largest = np.maximum(_finite(there.minimum), _finite(there.maximum))
        if not _close(there.total, expected.total, count * largest):
            return "has another sum"
        for name in ("minimum", "maximum", "error"):
            if not np.allclose(getattr(there, name), getattr(expected, name), rtol=EXTREME_TOLERANCE, atol=0.0):
                return f"has another {name}"
        return None
    assert isinstance(there, ScalarBlock) and isinstance(expected, ScalarBlock)
    if not np.array_equal(there.time_ns, expected.time_ns):
        return "has other times"
    return None if _close(there.value, expected.value, np.abs(expected.value)) else "has other values"


def _axis(block: HistogramBlock, other: HistogramBlock) -> NDArray[np.uint64]:
    """The counts on an axis that holds both blocks."""
    low = min(block.low, other.low)
    high = max(block.low + block.counts.shape[1], other.low + other.counts.shape[1])
    counts = np.zeros((len(block), high - low), np.uint64)
    counts[:, block.low - low : block.low - low + block.counts.shape[1]] = block.counts
    return counts


def _finite(column: Floats) -> Floats:
    return np.where(np.isfinite(column), np.abs(column), 0.0)


def _close(there: Floats, expected: Floats, added: Floats) -> bool:
    scale = np.maximum(np.maximum(np.abs(there), np.abs(expected)), added)
    return bool((np.abs(there - expected) <= SUM_TOLERANCE * scale).all())
