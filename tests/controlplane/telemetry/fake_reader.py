"""A TelemetryReader over plain lists, held by the conformance suite that holds the store (test_reader_conformance)."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import (
    AXIS_LENGTH,
    AXIS_MAX,
    AXIS_MIN,
    RELATIVE_ERROR,
    SCALE,
    ZERO_THRESHOLD_S,
)
from controlplane.contract.metrics import BY_SHORT, WINDOW_S, MetricKind
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, SketchSeries, Span, TimedRequests, ValueSeries, Where
from controlplane.telemetry.reader import SketchGroups
from controlplane.telemetry.values import catalogue
from controlplane.telemetry.values.catalogue import MetricRef
from controlplane.telemetry.values.sketch_table import SketchTable
from controlplane.telemetry.values.timespan import EPOCH, start_of, to_ns, window_at

T = TypeVar("T")
Answer = tuple[dict[str, str], T, list[tuple[datetime, T]]]


def axis_positions(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.int64]:
    """As `axis_position`, of each."""
    at_least = np.maximum(np.asarray(values, dtype=float), ZERO_THRESHOLD_S)
    index = np.ceil(np.log2(at_least) * 2**SCALE).astype(np.int64) - 1
    return np.clip(index, AXIS_MIN, AXIS_MAX) - AXIS_MIN


def sketch_of(values: Sequence[float], relative_error: float = RELATIVE_ERROR) -> Sketch:
    found = Sketch(relative_error=relative_error)
    if len(values):
        given = np.asarray(values, dtype=float)
        above = given[given > ZERO_THRESHOLD_S]
        found.counts = np.bincount(axis_positions(above), minlength=AXIS_LENGTH)
        found.zero_count = len(given) - len(above)
        found.total, found.minimum, found.maximum = sum(values), float(given.min()), float(given.max())
    return found


class Point(NamedTuple):
    """time: of its window's start; value: a `Sketch`, or a number."""

    time: datetime
    labels: dict[str, str]
    value: Any


@dataclass
class FakeReader:
    """points: by metric (short name), in the order of windows; finished: request records; asked: every question put.

    most_rows: answers of more groups times steps are refused.
    """

    points: dict[str, list[Point]] = field(default_factory=dict)
    finished: list[RequestRecord] = field(default_factory=list)
    most_rows: int | None = None
    asked: list[Question] = field(default_factory=list)

    def add(
        self,
        metric: str,
        time: datetime,
        value: Sketch | float | Sequence[float],
        error: float = RELATIVE_ERROR,
        **labels: str,
    ) -> None:
        """A histogram's values, or a number of a sum or gauge."""
        if _kind(metric) is MetricKind.HISTOGRAM and not isinstance(value, Sketch):
            value = sketch_of([value] if isinstance(value, float) else value, error)  # type: ignore[arg-type]
        rows, point = self.points.setdefault(metric, []), Point(start_of(window_at(time)), labels, value)
        if rows and rows[-1].time > point.time:
            insort(rows, point, key=_time)
        else:
            rows.append(point)

    def find(self, metric: str) -> MetricRef:
        return catalogue.find(metric, self.points)

    def latest(self) -> datetime | None:
        ends = [rows[-1].time + timedelta(seconds=WINDOW_S) for rows in self.points.values() if rows]
        return max(ends, default=None)

    def histograms(self, question: Question) -> list[SketchSeries]:
        return [SketchSeries(*answer) for answer in self._of_histogram(question, _merged)]

    def sketches(self, questions: Sequence[Question]) -> list[SketchGroups]:
        return [groups_of(self.histograms(question)) for question in questions]

    def counts(self, question: Question) -> list[ValueSeries]:
        return [ValueSeries(*answer) for answer in self._of_histogram(question, _count)]

    def scalars(self, question: Question) -> list[ValueSeries]:
        return self.scalars_of_kind(question)[1]

    def scalars_of_kind(self, question: Question) -> tuple[MetricKind, list[ValueSeries]]:
        kind = self.find(question.metric).kind or MetricKind.SUM
        if kind is MetricKind.HISTOGRAM:
            raise BadRequest("metric: is a histogram", field="metric")
        reduced = _gauge if kind is MetricKind.GAUGE else _sum
        return kind, [ValueSeries(*answer) for answer in self._answers(question, reduced)]

    def workload(self, pool: str, start: datetime, end: datetime) -> Any:
        raise NotImplementedError

    def requests(
        self,
        *,
        start: datetime,
        end: datetime,
        pool: str | None = None,
        node: str | None = None,
        order: str = "newest",
        limit: int = 50,
    ) -> list[RequestRecord]:
        assert order == "newest"
        found = [one for one in self.finished if start <= one.arrival < end]
        found = [one for one in found if pool in (None, one.pool) and node in (None, one.node)]
        return sorted(found, key=lambda one: (one.arrival, one.request_id), reverse=True)[:limit]

    def timed_requests(self, metric: str, span: Span, where: Where) -> TimedRequests:
        """Without states of nodes."""
        ends = {one.request_id: one.parts.get("ttft" if metric == "ttft" else "e2e", 0.0) for one in self.finished}
        found = [
            one
            for one in sorted(self.finished, key=lambda one: one.arrival)
            if metric in one.parts
            and span.start <= one.arrival + timedelta(seconds=ends[one.request_id]) < span.end
            and _matches({"pool": one.pool, "node": one.node, "tenant": one.tenant}, where)
        ]
        names = {name for one in found for name in one.parts}
        parts = {name: np.array([one.parts.get(name, np.nan) for one in found]) for name in names}
        arrival_ns = np.array([to_ns(one.arrival) for one in found], np.int64)
        return TimedRequests(len(found), arrival_ns, parts, {})

    def _of_histogram(self, question: Question, reduced: Callable[[Sequence[Point]], T]) -> Iterator[Answer[T]]:
        if self.find(question.metric).kind is not MetricKind.HISTOGRAM:
            raise BadRequest("metric: is no histogram", field="metric")
        return self._answers(question, reduced)

    def _answers(self, question: Question, reduced: Callable[[Sequence[Point]], T]) -> Iterator[Answer[T]]:
        self.asked.append(question)
        groups: dict[tuple[str, ...], list[Point]] = {}
        for point in self._within(question):
            if _matches(point.labels, question.where):
                groups.setdefault(tuple(point.labels.get(label, "") for label in question.by), []).append(point)
        rows = 0
        for key, points in sorted(groups.items()):
            steps = []
            if question.step_s is not None:
                stepped = groupby(points, partial(_step, timedelta(seconds=question.step_s)))
                steps = [(time, reduced(list(some))) for time, some in stepped]
            rows += max(len(steps), 1)
            if self.most_rows is not None and rows > self.most_rows:
                raise BadRequest("step: too many", field="step")
            yield dict(zip(question.by, key, strict=True)), reduced(points), steps

    def _within(self, question: Question) -> list[Point]:
        rows, span = self.points.get(question.metric, []), question.span
        return rows[bisect_left(rows, span.start, key=_time) : bisect_left(rows, span.end, key=_time)]


def groups_of(series: Sequence[SketchSeries]) -> SketchGroups:
    """The same as tables."""
    steps = [step for one in series for step in one.steps]
    return SketchGroups(
        [one.labels for one in series],
        table_of([one.total for one in series]),
        [time for time, _ in steps],
        table_of([sketch for _, sketch in steps]),
        np.cumsum([0, *(len(one.steps) for one in series)]).tolist(),
    )


def table_of(sketches: Sequence[Sketch]) -> SketchTable:
    if not sketches:
        return SketchTable.empty()
    return SketchTable(
        0,
        np.array([one.counts for one in sketches]),
        np.array([one.zero_count for one in sketches]),
        *(
            np.array([getattr(one, name) for one in sketches])
            for name in ("total", "minimum", "maximum", "relative_error")
        ),
    )


def _time(point: Point) -> datetime:
    return point.time


def _step(length: timedelta, point: Point) -> datetime:
    return point.time - (point.time - EPOCH) % length


def _kind(metric: str) -> MetricKind | None:
    known = BY_SHORT.get(metric)
    return None if known is None else known.kind


def _matches(labels: Mapping[str, str], where: Where) -> bool:
    return all(
        labels.get(label, "") in ([wanted] if isinstance(wanted, str) else wanted) for label, wanted in where.items()
    )


def _merged(points: Sequence[Point]) -> Sketch:
    total = Sketch()
    for point in points:
        total.merge(point.value)
    return total


def _count(points: Sequence[Point]) -> float:
    return float(sum(point.value.count for point in points))


def _sum(points: Sequence[Point]) -> float:
    return float(sum(point.value for point in points))


def _gauge(points: Sequence[Point]) -> float:
    last = {frozenset(point.labels.items()): float(point.value) for point in points}
    return sum(last.values()) / len(last)
