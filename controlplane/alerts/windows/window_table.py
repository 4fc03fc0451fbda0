"""A metric of all nodes as a table, a row a series and a column a step: what rules add up over windows of any length.

Guarantee: each step is read from telemetry once, however many rules and pools look at it; what is absent is NaN, never
zero. A table that a rule wants more of the past of is read anew.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.windows.histories import SKETCHES_AT_ONCE, shareable
from controlplane.alerts.windows.history import instant
from controlplane.contract.metrics import BY_SHORT, NODE, POOL, WINDOW_S, MetricKind
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span, TelemetryReader, Where

log = logging.getLogger(__name__)

Values = NDArray[np.float64]
Reduced = Callable[[Sketch], Sequence[float]]
READ_STEPS = 360
"""So many steps are asked for at once."""
SPARE_STEPS = 64
"""Room on the right, so that a table is not copied at every tick."""


@dataclass(frozen=True)
class Source:
    """What one table holds. by: labels beside pool and node; by_node: false where a pool is one series.

    A histogram is `reduced` to figures that add up, such as its count and its sum, or only `counted`; any other metric
    has one figure.
    """

    metric: str
    step_s: float
    by: tuple[str, ...] = ()
    by_node: bool = True
    figures: int = 1
    reduced: Reduced | None = None
    counted: bool = False


Key = tuple[str, ...]
"""Pool, node where they are told apart, and a value for each label of `by`."""
Wheres = Mapping[str, Where]
"""Pool to the filter of its serving nodes."""


@dataclass
class WindowTable:
    """Steps `first` .. `last` - 1, counted from the epoch. rows: the series; values: float64[rows, steps, figures]."""

    source: Source
    width_s: float = WINDOW_S
    first: int = 0
    last: int = 0
    rows: dict[Key, int] = field(default_factory=dict)
    _values: Values = field(default_factory=lambda: np.empty((0, 0, 1)))
    _pools: frozenset[str] = frozenset()

    def cover(self, telemetry: TelemetryReader, wheres: Wheres, first: int, last: int) -> None:
        """Hold [first, last) of these pools: what is not yet there is read, what lies before is forgotten."""
        pools = frozenset(wheres)
        if first < self.first or first > self.last or not pools <= self._pools:
            self.first = self.last = first
            self.rows, self._values = {}, np.empty((0, 0, self.source.figures))
        self._pools = pools
        self._make_room(first, last)
        while self.last < last:
            stop = min(self.last + self._steps_at_once(), last)
            for where in self._asked(wheres):
                self._read(telemetry, where, self.last, stop)
            if self.width_s > self.source.step_s and BY_SHORT[self.source.metric].kind is MetricKind.GAUGE:
                self._repeat(self.last, stop)
            self.last = stop

    def of(self, pool: str, nodes: Collection[str] | None, first: int, last: int) -> dict[Key, Values]:
        """The series of a pool: key without the pool to float64[last - first, figures]. nodes: None lets in all."""
        start, end = first - self.first, last - self.first
        return {
            key[1:]: self._values[row, start:end]
            for key, row in self.rows.items()
            if key[0] == pool and (nodes is None or not self.source.by_node or key[1] in nodes)
        }

    def _make_room(self, first: int, last: int) -> None:
        """Drop the columns before `first`, and make place for those up to `last`."""
        kept = self._values[:, first - self.first : self.last - self.first]
        if last - self.first <= self._values.shape[1] and first - self.first < SPARE_STEPS:
            return
        held = np.asarray(np.isfinite(kept).any(axis=(1, 2)))
        wider = np.full((int(held.sum()), last - first + SPARE_STEPS, self.source.figures), np.nan)
        wider[:, : kept.shape[1]] = kept[held]
        names = [key for key, row in sorted(self.rows.items(), key=lambda item: item[1]) if held[row]]
        self.rows = {key: row for row, key in enumerate(names)}
        self._values, self.first = wider, first

    def _repeat(self, first: int, last: int) -> None:
        """A gauge of a window that is wider than a step holds until that window's end."""
        width = round(self.width_s / self.source.step_s)
        for step in range(max(first, self.first + 1), last):
            if step % width:
                column, before = self._values[:, step - self.first], self._values[:, step - self.first - 1]
                np.copyto(column, before, where=np.isnan(column))

    def _steps_at_once(self) -> int:
        if self.source.by_node or self.source.reduced is None:
            return READ_STEPS
        return max(SKETCHES_AT_ONCE // max(len(self._pools), 1), 1)

    def _asked(self, wheres: Wheres) -> list[Where]:
        """All pools at once; where nodes are not told apart, each of which some do not count by itself."""
        if self.source.by_node:
            return [{POOL.label: sorted(wheres)}]
        together = sorted(pool for pool, where in wheres.items() if shareable(where))
        alone = [where for where in wheres.values() if not shareable(where)]
        return [{POOL.label: together}, *alone] if together else alone

    def _read(self, telemetry: TelemetryReader, where: Where, first: int, last: int) -> None:
        source = self.source
        span = Span(instant(first * source.step_s), instant(last * source.step_s))
        by = (POOL.label, *((NODE.label,) if source.by_node else ()), *source.by)
        question = Question(source.metric, span, by, where, source.step_s)
        if source.reduced is None:
            for series in telemetry.counts(question) if source.counted else telemetry.scalars(question):
                self._put(series.labels, by, [(time.timestamp(), (value,)) for time, value in series.steps])
            return
        for one in telemetry.histograms(question):
            self._put(one.labels, by, [(time.timestamp(), source.reduced(sketch)) for time, sketch in one.steps])

    def _put(
        self, labels: Mapping[str, str], by: Sequence[str], steps: Sequence[tuple[float, Sequence[float]]]
    ) -> None:
        row = self._row(tuple(labels.get(label, "") for label in by))
        for at_s, figures in steps:
            self._values[row, round(at_s / self.source.step_s) - self.first] = figures

    def _row(self, key: Key) -> int:
        if key not in self.rows:
            self.rows[key] = len(self.rows)
            if len(self.rows) > len(self._values):
                more = np.full((max(8, len(self._values) // 2), *self._values.shape[1:]), np.nan)
                self._values = np.concatenate([self._values, more])
        return self.rows[key]


class WindowTables:
    """The tables of one kind of rule, by what they hold. A table that nobody wanted at a tick is dropped.

    `cover` them all first, outside of any transaction; a source that cannot be read is missing afterwards, so that it
    fails the rules that look at it and no others.
    """

    def __init__(self, telemetry: TelemetryReader, width_s: float = WINDOW_S) -> None:
        """width_s: how wide the windows are that telemetry has of the time that is judged."""
        self._telemetry = telemetry
        self._width_s = width_s
        self._tables: dict[Source, WindowTable] = {}

    def cover(self, wanted: Mapping[Source, tuple[int, int]], wheres: Wheres) -> None:
        """wanted: source to the steps [first, last) that are looked at."""
        self._tables = {source: table for source, table in self._tables.items() if source in wanted}
        for source, (first, last) in wanted.items():
            table = self._tables.setdefault(source, WindowTable(source, self._width_s))
            try:
                table.cover(self._telemetry, wheres, first, last)
            except Exception:
                del self._tables[source]
                log.exception("%s of %d pools could not be read", source.metric, len(wheres))

    def get(self, source: Source) -> WindowTable:
        """Raises KeyError where it could not be read."""
        return self._tables[source]

    def __contains__(self, source: Source) -> bool:
        return source in self._tables
