"""How each node of a pool has done over hours against the others, tick by tick: what all of a moment share cancels.

A node's requests of one prompt bucket take as long as the pool's of that moment, times what this node usually takes
more or less (its offset: other hardware, other neighbours), times chance. A node's line is its own level less that of
the others, each less its offset, bucket by bucket, so that neither a common wave, the load of the day, a changed mix,
nor a node that joins or leaves moves it. How it wanders is fitted to its past, and whether it has risen is asked anew
at each tick, as in a `course`. All in natural logarithms of seconds.

A line alone does not say who moved: where another node got quicker, it rises too. So what the node did itself since
the onset, and whether it got more of the requests, is kept beside it.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.regressions.course import (
    FACTORS,
    FLOOR_FACTOR,
    FLOOR_SPAN_S,
    MATURE_S,
    RISE_WEIGHTS,
    RISES,
    Line,
    Sought,
    line_of,
)
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.node_levels import NodeLevels
from controlplane.contract.metrics import WINDOW_S
from controlplane.evidence.arm_difference import Differences, Offsets

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

APART = "node_apart"
"""The line's name."""
LEAST_TICKS = 360
"""In which a node must have served beside another before it is compared: half an hour."""
SPARE_TICKS = 12
"""By which the span that makes a node's past old enough may be short."""
LEAST_COUNT = 50
"""Requests of the past without which nothing is known of a node's prompt bucket."""
LEAST_SD = 0.065
"""Of ln of a request's latency: where requests hardly differ, a drift by one bucket of the axis is no news."""
ROUNDS = 3
"""Levels and offsets are fitted in turn."""
TICKS_AT_ONCE = 60
"""What a node did itself is made of so many ticks together: they cost little more than one."""
BEFORE_S, KEPT_S = 3600.0, 9000.0
"""What a node did itself is told against so long before the onset, which is looked for over 85 minutes."""
SOUGHT = Sought(
    APART,
    tuple(math.log(one.factor) for one in RISES),
    RISE_WEIGHTS,
    0.0,
    math.log1p(FLOOR_FACTOR),
    tuple(math.log(factor) for factor in FACTORS),
)


class Itself(NamedTuple):
    """What a node did since an onset, against before it. rise: of ln of its latency, mix held fixed; before_s,
    during_s: its typical latency; load: of its part of the requests, as a factor."""

    rise: float
    before_s: float
    during_s: float
    load: float


@dataclass(frozen=True)
class Grid:
    """float64[nodes, buckets, ticks]: requests, and the mean of ln of their seconds, 0 where there are none."""

    counts: Floats
    means: Floats

    @classmethod
    def of(cls, sums: Floats) -> "Grid":
        """sums: float64[2 or more, nodes, buckets, ticks], as `NodeLevels.figures`."""
        return cls(sums[0], sums[1] / np.maximum(sums[0], 1.0))


@dataclass(frozen=True)
class Usual:
    """What is usual. offsets: float64[nodes, buckets], nan of those of which nothing is known; variances, levels:
    float64[buckets], of ln of one request's seconds, and where the pool's lie."""

    nodes: Sequence[str]
    buckets: Sequence[str]
    offsets: Floats
    variances: Floats
    levels: Floats

    @cached_property
    def _known(self) -> Flags:
        """bool[nodes, buckets, 1], whose offsets are known."""
        return np.isfinite(self.offsets)[:, :, None]

    @cached_property
    def _offsets(self) -> Floats:
        """float64[nodes, buckets, 1], 0 where nothing is known."""
        return np.nan_to_num(self.offsets)[:, :, None]

    @cached_property
    def _variances(self) -> Floats:
        return self.variances[None, :, None]

    @cached_property
    def _cells(self) -> dict[tuple[str, str], int]:
        """By node and bucket its place among all."""
        return {key: place for place, key in enumerate(itertools.product(self.nodes, self.buckets))}

    def offset(self, node: str) -> float:
        """By how much of ln of its latency a node is usually slower than the pool, its prompt buckets alike."""
        return float(np.nanmean(self.offsets[self.nodes.index(node)]))

    def grid(self, found: Sequence[NodeLevels | None]) -> Grid:
        return Grid.of(_sums(found, self.nodes, self.buckets))

    def grid_of_one(self, found: NodeLevels | None) -> Grid:
        """As `grid` of one tick, which comes every few seconds of every pool."""
        counts, means = np.zeros((2, len(self.nodes), len(self.buckets), 1))
        if found is not None:
            known = [place for place, key in enumerate(found.keys) if key in self._cells]
            mine, figures = [self._cells[found.keys[place]] for place in known], found.figures[:, known]
            counts.reshape(-1)[mine] = figures[0]
            means.reshape(-1)[mine] = figures[1] / np.maximum(figures[0], 1.0)
        return Grid(counts, means)

    def lines(self, grid: Grid) -> tuple[Floats, Floats]:
        """Of each node its value and sampling variance, float64[nodes, ticks] each; nan where there is none."""
        counts, own = self._own(grid)
        others = counts.sum(axis=0) - counts
        others_sum = (counts * own).sum(axis=0) - counts * own
        both = (counts > 0.0) & (others > 0.0)
        divisor = np.where(both, others, 1.0)
        value = np.where(both, own - others_sum / divisor, 0.0)
        weight = np.where(both, counts * others / (counts + divisor), 0.0) / self._variances
        return _weighed(value, weight)

    def itself(self, grid: Grid) -> Floats:
        """Of each node at each tick, float64[3, nodes, ticks]: its own level against the usual, the weight of that, and
        its requests for each of an average node."""
        counts, own = self._own(grid)
        weight = counts / self._variances
        value, variance = _weighed(own - self.levels[None, :, None], weight)
        requests = grid.counts.sum(axis=1)
        there = (requests > 0.0).sum(axis=0)
        average = requests.sum(axis=0) / np.maximum(there, 1)
        load = requests / np.maximum(average, 1e-9)
        some = np.isfinite(value)
        return np.stack([np.where(some, value, 0.0), np.where(some, 1.0 / variance, 0.0), load])

    def _own(self, grid: Grid) -> tuple[Floats, Floats]:
        """Requests that are compared, and the level of each less its offset."""
        return np.where(self._known, grid.counts, 0.0), grid.means - self._offsets


@dataclass
class NodeCourse:
    """The lines of a pool's nodes from `start_s` on, a tick each `width_s`; `take` what comes.

    itself: as `Usual.itself`, from the tick `first` on; that of the newest ticks is made where it is asked for.
    """

    start_s: float
    width_s: float
    usual: Usual
    lines: dict[str, Line[Sought]]
    metric: str
    itself: Floats = field(repr=False)
    first: int = 0
    ticks: int = field(init=False)
    _fresh: list[Grid] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.ticks = self.first + int(self.itself.shape[2])

    def take(self, window: Window, *, judged: bool = True) -> None:
        """judged: whether the window says anything; ticks between that are missing say nothing."""
        place = self.tick(window.start_s)
        if place < self.ticks:
            return
        while self.ticks < place:
            self._push(None)
        self._push(window.nodes.get(self.metric) if judged else None)

    def extend(self, grid: Grid) -> None:
        """As `take` of each tick of a grid."""
        values, sampling = self.usual.lines(grid)
        for row, node in enumerate(self.usual.nodes):
            if node in self.lines:
                self.lines[node].sums = self.lines[node].sums.extended(values[row], sampling[row])
        self._fresh.append(grid)
        self.ticks += int(grid.counts.shape[2])

    def of_itself(self, node: str, onset_s: float) -> Itself | None:
        """None where too little is known of it before or since."""
        self._gather()
        at, first = (max(0, self.tick(since_s) - self.first) for since_s in (onset_s, onset_s - BEFORE_S))
        row = self.usual.nodes.index(node)
        found = []
        for begin, end in ((first, at), (at, self.itself.shape[2])):
            value, weight, load = self.itself[:, row, begin:end]
            if not weight.any():
                return None
            found.append((float(np.average(value, weights=weight)), float(load.mean())))
        (before, load_before), (during, load_during) = found
        level = float(np.nanmean(self.usual.levels + self.usual.offsets[row]))
        load = load_during / load_before if load_before else math.inf
        return Itself(during - before, math.exp(level + before), math.exp(level + during), load)

    def tick(self, at_s: float) -> int:
        return round((at_s - self.start_s) / self.width_s)

    def _push(self, found: NodeLevels | None) -> None:
        grid = self.usual.grid_of_one(found)
        values, sampling = self.usual.lines(grid)
        for node, value, variance in zip(self.usual.nodes, values[:, 0].tolist(), sampling[:, 0].tolist(), strict=True):
            if node in self.lines:
                self.lines[node].sums.push(value, variance)
        self._fresh.append(grid)
        self.ticks += 1
        if len(self._fresh) >= TICKS_AT_ONCE:
            self._gather()

    def _gather(self) -> None:
        if self._fresh:
            counts, means = (np.concatenate(some, axis=2) for some in zip(*map(_both, self._fresh), strict=True))
            self.itself = np.concatenate([self.itself, self.usual.itself(Grid(counts, means))], axis=2)
            self._fresh = []


def _both(grid: Grid) -> tuple[Floats, Floats]:
    return grid.counts, grid.means


def node_course(
    windows: Sequence[Window], metric: str, usual_until_s: float, is_closed: Callable[[Floats], Flags]
) -> NodeCourse | None:
    """Of all nodes that were there for long enough; None where there are not two. windows: in order; is_closed: of
    seconds, which of them say nothing."""
    windows = [window for window in windows if metric in window.nodes]
    if len(windows) < LEAST_TICKS:
        return None
    starts = np.array([window.start_s for window in windows])
    start_s, width_s = float(starts[0]), max(WINDOW_S, float(np.diff(starts).min()))
    places = np.round((starts - start_s) / width_s).astype(int)
    found: list[NodeLevels | None] = [None] * (int(places[-1]) + 1)
    for place, window, closed in zip(places, windows, is_closed(starts), strict=True):
        found[place] = None if closed else window.nodes[metric]
    keys = {key for levels in found if levels is not None for key in levels.keys}
    nodes, buckets = sorted({node for node, _ in keys}), sorted({bucket for _, bucket in keys})
    sums = _sums(found, nodes, buckets)
    until = max(0, round((usual_until_s - start_s) / width_s))
    usual = _usual(nodes, buckets, sums[..., :until], MATURE_S / width_s)
    if usual is None:
        return None
    grid = usual.grid(found)
    values, sampling = usual.lines(grid)
    span_s = min(usual_until_s - start_s, FLOOR_SPAN_S)
    lines = {
        node: line_of(SOUGHT, values[row], sampling[row], until, span_s)
        for row, node in enumerate(usual.nodes)
        if np.isfinite(values[row, :until]).sum() >= LEAST_TICKS
    }
    if not lines:
        return None
    kept = min(grid.counts.shape[2], round(KEPT_S / width_s))
    recent = Grid(grid.counts[..., -kept:], grid.means[..., -kept:])
    return NodeCourse(start_s, width_s, usual, lines, metric, usual.itself(recent), grid.counts.shape[2] - kept)


def _usual(nodes: Sequence[str], buckets: Sequence[str], sums: Floats, mature_ticks: float) -> Usual | None:
    """sums: float64[3, nodes, buckets, ticks]."""
    served = sums[0].sum(axis=1) > 0.0
    is_old = [
        bool(one.sum() >= LEAST_TICKS and np.ptp(np.flatnonzero(one)) >= mature_ticks - SPARE_TICKS) for one in served
    ]
    if sum(is_old) < 2:
        return None
    sums = sums[:, is_old]
    nodes = [node for node, old in zip(nodes, is_old, strict=True) if old]
    grid = Grid.of(sums)
    known = grid.counts.sum(axis=2) >= LEAST_COUNT
    variances = _variances(sums)
    offsets, level = np.zeros(known.shape), np.zeros(grid.counts.shape[1:])
    counts = np.where(known[:, :, None], grid.counts, 0.0)
    total = counts.sum(axis=0)
    for _ in range(ROUNDS):
        level = (counts * (grid.means - offsets[:, :, None])).sum(axis=0) / np.maximum(total, 1.0)
        for row in range(len(nodes)):
            there = counts[row] > 0.0
            value = np.where(there, grid.means[row] - level, 0.0).T
            offsets[row] = Offsets.learn(Differences(value, (counts[row] / variances[:, None]).T)).value
    weight = total.sum(axis=1)
    levels = (level * total).sum(axis=1) / np.maximum(weight, 1.0)
    return Usual(nodes, buckets, np.where(known, offsets, np.nan), variances, levels)


def _variances(sums: Floats) -> Floats:
    """Within one node, prompt bucket and tick, all together; of what the moments of a bucket tell, float64[buckets]."""
    counts, total, square = sums
    within = np.maximum(square - total**2 / np.maximum(counts, 1.0), 0.0)
    free = np.maximum(counts - 1.0, 0.0).sum(axis=(0, 2))
    found = within.sum(axis=(0, 2)) / np.maximum(free, 1.0)
    usual = within.sum() / max(float(free.sum()), 1.0)
    return np.asarray(np.maximum(np.where(free >= LEAST_COUNT, found, usual), LEAST_SD**2))


def _weighed(value: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """All prompt buckets together: float64[nodes, buckets, ticks] to mean and variance, nan where there was nothing."""
    whole = weight.sum(axis=1)
    some = whole > 0.0
    divisor = np.where(some, whole, 1.0)
    return np.where(some, (value * weight).sum(axis=1) / divisor, np.nan), 1.0 / divisor


def _sums(found: Sequence[NodeLevels | None], nodes: Sequence[str], buckets: Sequence[str]) -> Floats:
    """float64[3, nodes, buckets, ticks]; what is of no node or bucket that is asked for is left out."""
    row_of = {node: row for row, node in enumerate(nodes)}
    place_of = {bucket: place for place, bucket in enumerate(buckets)}
    sums = np.zeros((3, len(nodes), len(buckets), len(found)))
    alike: dict[int, list[tuple[int, NodeLevels]]] = {}
    for tick, levels in enumerate(found):
        if levels is not None:
            alike.setdefault(id(levels.keys), []).append((tick, levels))
    for ticks in alike.values():
        keys = ticks[0][1].keys
        mine = [place for place, (node, bucket) in enumerate(keys) if node in row_of and bucket in place_of]
        rows = [row_of[keys[place][0]] for place in mine]
        places = [place_of[keys[place][1]] for place in mine]
        figures = np.stack([levels.figures[:, mine] for _, levels in ticks], axis=2)
        sums[:, np.array(rows)[:, None], np.array(places)[:, None], [tick for tick, _ in ticks]] = figures
    return sums
