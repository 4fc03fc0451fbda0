"""Quantiles of a histogram metric, each with its error bound and the number of values behind it (pure)."""

from collections.abc import Mapping

from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.contract.telemetry import QuantilePoint, QuantilesAnswer, QuantileSeries
from controlplane.telemetry.catalogue import Asked
from controlplane.telemetry.parameters import SeriesQuery
from controlplane.telemetry.reader import SketchSeries, TelemetryReader
from controlplane.telemetry.sketch import Sketch


def quantiles(
    reader: TelemetryReader, metric: Asked, asked: SeriesQuery, wanted: Mapping[str, float]
) -> QuantilesAnswer:
    """`wanted`: the answer's keys, as asked, and their values. No data: an empty list of series."""
    span = asked.span
    found = reader.histograms(asked.metric, span.start, span.end, by=asked.by, where=asked.where, step_s=asked.step_s)
    return QuantilesAnswer(
        metric=metric.short,
        unit=metric.unit,
        start=span.start,
        end=span.end,
        relative_error=max((one.total.relative_error for one in found), default=RELATIVE_ERROR),
        series=[_series(one, wanted, stepped=asked.step_s is not None) for one in found],
    )


def _series(one: SketchSeries, wanted: Mapping[str, float], *, stepped: bool) -> QuantileSeries:
    points = [QuantilePoint(time=time, count=sketch.count, quantiles=_of(sketch, wanted)) for time, sketch in one.steps]
    count = one.total.count
    return QuantileSeries(
        labels=one.labels,
        count=count,
        mean=one.total.total / count if count else None,
        relative_error=one.total.relative_error,
        quantiles=_of(one.total, wanted),
        points=points if stepped else None,
    )


def _of(sketch: Sketch, wanted: Mapping[str, float]) -> dict[str, float]:
    return dict(zip(wanted, sketch.quantiles(list(wanted.values())), strict=True))
