"""A TelemetryReader over plain lists, for what is computed from a reader's answers."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from controlplane.contract.histogram import RELATIVE_ERROR, ZERO_THRESHOLD_S, axis_position
from controlplane.contract.metrics import BY_SHORT, WINDOW_S, MetricKind
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.queries.histogram_sums import SketchGroups
from controlplane.telemetry.reader import SketchSeries, ValueSeries
from controlplane.telemetry.values import catalogue
from controlplane.telemetry.values.catalogue import MetricRef
from controlplane.telemetry.values.sketch_table import SketchTable
from controlplane.telemetry.values.timespan import EPOCH, start_of, window_at, windows_in


def sketch_of(values: Sequence[float], relative_error: float = RELATIVE_ERROR) -> Sketch:
    found = Sketch(relative_error=relative_error)
    for value in values:
        if value <= ZERO_THRESHOLD_S:
            found.zero_count += 1
        else:
            found.counts[axis_position(value)] += 1
        found.total += value
        found.minimum, found.maximum = min(found.minimum, value), max(found.maximum, value)
    return found


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


class FakeReader:
    """`add` values of a metric at an instant, with labels; histograms by their values, sums by their amount."""

    def __init__(self) -> None:
        self._sketches: list[tuple[str, dict[str, str], int, Sketch]] = []
        self._amounts: list[tuple[str, dict[str, str], int, float]] = []

    def add(
        self, metric: str, time: datetime, values: Sequence[float], error: float = RELATIVE_ERROR, **labels: str
    ) -> None:
        self._sketches.append((metric, labels, window_at(time), sketch_of(values, error)))

    def count(self, metric: str, time: datetime, amount: float, **labels: str) -> None:
        self._amounts.append((metric, labels, window_at(time), amount))

    def find(self, metric: str) -> MetricRef:
        return catalogue.find(metric, ["tailwright.own"])

    def latest(self) -> datetime | None:
        windows = [row[2] for row in (*self._sketches, *self._amounts)]
        return start_of(max(windows) + 1) if windows else None

    def histograms(
        self,
        metric: str,
        start: datetime,
        end: datetime,
        *,
        by: Sequence[str] = (),
        where: Mapping[str, str | Sequence[str]] = {},
        step_s: float | None = None,
    ) -> list[SketchSeries]:
        found: dict[tuple[str, ...], SketchSeries] = {}
        for _, labels, window, sketch in _chosen(self._sketches, metric, start, end, where):
            key = tuple(labels.get(label, "") for label in by)
            series = found.setdefault(key, SketchSeries(dict(zip(by, key, strict=True)), Sketch()))
            series.total.merge(sketch)
            if step_s is not None:
                time = _step(window, step_s)
                if not series.steps or series.steps[-1][0] != time:
                    series.steps.append((time, Sketch()))
                series.steps[-1][1].merge(sketch)
        return [found[key] for key in sorted(found)]

    def sketches(self, metrics: Sequence[str], start: datetime, end: datetime, **asked: Any) -> list[SketchGroups]:
        return [groups_of(self.histograms(metric, start, end, **asked)) for metric in metrics]

    def counts(self, metric: str, start: datetime, end: datetime, **asked: Any) -> list[ValueSeries]:
        return [
            ValueSeries(one.labels, float(one.total.count), [(time, float(sketch.count)) for time, sketch in one.steps])
            for one in self.histograms(metric, start, end, **asked)
        ]

    def scalars(self, metric: str, start: datetime, end: datetime, **asked: Any) -> list[ValueSeries]:
        return self.scalars_of_kind(metric, start, end, **asked)[1]

    def scalars_of_kind(
        self,
        metric: str,
        start: datetime,
        end: datetime,
        *,
        by: Sequence[str] = (),
        where: Mapping[str, str | Sequence[str]] = {},
        step_s: float | None = None,
    ) -> tuple[MetricKind, list[ValueSeries]]:
        found: dict[tuple[str, ...], ValueSeries] = {}
        for _, labels, window, amount in _chosen(self._amounts, metric, start, end, where):
            key = tuple(labels.get(label, "") for label in by)
            series = found.setdefault(key, ValueSeries(dict(zip(by, key, strict=True)), 0.0))
            series.value += amount
            if step_s is not None:
                time = _step(window, step_s)
                if not series.steps or series.steps[-1][0] != time:
                    series.steps.append((time, 0.0))
                series.steps[-1] = (time, series.steps[-1][1] + amount)
        known = BY_SHORT.get(metric)
        kind = MetricKind.SUM if known is None else known.kind
        return kind, [found[key] for key in sorted(found)]

    def workload(self, pool: str, start: datetime, end: datetime) -> Any:
        raise NotImplementedError

    def requests(self, **asked: Any) -> Any:
        raise NotImplementedError


def _chosen(
    rows: list[Any], metric: str, start: datetime, end: datetime, where: Mapping[str, str | Sequence[str]]
) -> list[Any]:
    first, last = windows_in(start, end)
    return sorted(
        (
            row
            for row in rows
            if row[0] == metric
            and first <= row[2] < last
            and all(
                row[1].get(label, "") in ([wanted] if isinstance(wanted, str) else wanted)
                for label, wanted in where.items()
            )
        ),
        key=lambda row: row[2],
    )


def _step(window: int, step_s: float) -> datetime:
    return EPOCH + timedelta(seconds=window * WINDOW_S // step_s * step_s)
