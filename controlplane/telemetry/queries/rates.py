"""What a sum, or the count of a histogram, grew by in a second (pure).

Guarantee: totals are exact, and are divided by the whole windows that they were read from, never by time of which
nothing can be known: neither what lies before the first whole window of the span, nor what lies after the newest window
that has data. A group, or a step, without data is absent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from controlplane.contract import metrics
from controlplane.contract.bodies.telemetry import RatePoint, RatesAnswer, RateSeries
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import WINDOW_S, MetricKind
from controlplane.telemetry.queries.budget import kept, left_out
from controlplane.telemetry.question import Question
from controlplane.telemetry.reader import TelemetryReader, ValueSeries
from controlplane.telemetry.values.catalogue import MetricRef
from controlplane.telemetry.values.timespan import Span, start_of, window_at, windows_in

ONE_A_REQUEST = frozenset(
    metric.short
    for metric in (
        metrics.TTFT,
        metrics.TPOT,
        metrics.E2E,
        *metrics.REQUEST_PARTS,
        metrics.UNACCOUNTED,
        metrics.REQUESTS,
    )
)
"""Metrics whose count is itself a number of requests."""


@dataclass
class _Growth:
    labels: dict[str, str]
    total: float
    steps: list[tuple[datetime, float]] = field(default_factory=list)


def rates(reader: TelemetryReader, metric: MetricRef, asked: Question) -> RatesAnswer:
    """Raises `BadRequest` for a gauge."""
    _check_kind(metric, metric.kind)
    unit = f"{'1' if metric.kind is MetricKind.HISTOGRAM else metric.unit}/s"
    first, last = _covered(reader, asked)
    if first >= last:
        return RatesAnswer(metric=metric.short, unit=unit, start=asked.span.start, end=asked.span.end, series=[])
    whole = replace(asked, span=Span(start_of(first), start_of(last)))
    growths = _growths(reader, metric, whole)
    if metric.short in ONE_A_REQUEST:
        finished = growths
    else:
        finished = _sums(reader.scalars(replace(whole, metric=metrics.REQUESTS.short)))
    requests_of = {_key(growth): growth for growth in finished}
    requests = [0.0 if (of_group := requests_of.get(_key(growth))) is None else of_group.total for growth in growths]
    stay = [growths[place] for place in kept(requests, asked.most)]
    return RatesAnswer(
        metric=metric.short,
        unit=unit,
        start=whole.span.start,
        end=whole.span.end,
        series=[_series(growth, requests_of.get(_key(growth)), asked.step_s, first, last) for growth in stay],
        left_out=left_out(len(growths), len(stay)),
    )


def _covered(reader: TelemetryReader, asked: Question) -> tuple[int, int]:
    """First and last-plus-one of the windows that a rate may be divided by."""
    first, last = windows_in(asked.span.start, asked.span.end)
    newest = reader.latest()
    return first, first if newest is None else min(last, window_at(newest))


def _growths(reader: TelemetryReader, metric: MetricRef, asked: Question) -> list[_Growth]:
    if metric.kind is MetricKind.HISTOGRAM:
        return _sums(reader.counts(asked))
    kind, found = reader.scalars_of_kind(asked)
    _check_kind(metric, kind)
    return _sums(found)


def _check_kind(metric: MetricRef, kind: MetricKind | None) -> None:
    if kind is MetricKind.GAUGE:
        raise BadRequest(f"metric: {metric.short} is a gauge, it has no rate; see /api/v1/scalars", field="metric")


def _sums(found: Sequence[ValueSeries]) -> list[_Growth]:
    return [_Growth(one.labels, one.value, one.steps) for one in found]


def _key(growth: _Growth) -> tuple[str, ...]:
    return tuple(growth.labels.values())


def _series(growth: _Growth, finished: _Growth | None, step_s: float | None, first: int, last: int) -> RateSeries:
    seconds = (last - first) * WINDOW_S
    finished_in = {} if finished is None else dict(finished.steps)
    points = None
    if step_s is not None:
        points = []
        for time, total in growth.steps:
            begin, end = windows_in(time, time + timedelta(seconds=step_s))
            covered_s = (min(end, last) - max(begin, first)) * WINDOW_S
            points.append(
                RatePoint(
                    time=time,
                    total=total,
                    seconds=covered_s,
                    per_second=total / covered_s,
                    requests=_whole(finished_in.get(time)),
                )
            )
    return RateSeries(
        labels=growth.labels,
        total=growth.total,
        seconds=seconds,
        per_second=growth.total / seconds,
        requests=_whole(None if finished is None else finished.total),
        points=points,
    )


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)
