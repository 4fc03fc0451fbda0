"""Where the time of requests goes: each component's share of e2e (pure).

Guarantee: a share is an exact sum over an exact sum. Together with `unaccounted` the shares add up to 1 but for
`error`, which is stated: it is what senders' own clocks, and nodes that tell some components only, leave open. A
component that nobody told is absent, and so is a group, or a step, in which no request ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from controlplane.contract import metrics
from controlplane.contract.errors import BadRequest
from controlplane.contract.telemetry import Above, SharePoint, SharesAnswer, ShareSeries
from controlplane.telemetry import exceedance
from controlplane.telemetry.catalogue import Asked
from controlplane.telemetry.parameters import SeriesQuery
from controlplane.telemetry.reader import SketchSeries, TelemetryReader
from controlplane.telemetry.sketch import Sketch

E2E = metrics.E2E.short
UNACCOUNTED = metrics.UNACCOUNTED.short
COMPONENTS = tuple(metric.short for metric in (*metrics.REQUEST_PARTS, metrics.UNACCOUNTED))

Key = tuple[str, ...]


@dataclass(frozen=True)
class Limit:
    """`above=0.5`: the share of a metric's values above a threshold, beside the components."""

    metric: Asked
    seconds: float


@dataclass(frozen=True)
class _Found:
    """One metric's sketches by group, whole and by step."""

    whole: Mapping[Key, Sketch]
    steps: Mapping[tuple[Key, datetime], Sketch]


class Catalogue(Protocol):
    def find(self, metric: str) -> Asked: ...


def limit_of(catalogue: Catalogue, asked: SeriesQuery, above: float | None) -> Limit | None:
    """What `metric` and `above` of a query mean together. Raises `BadRequest`."""
    if above is not None:
        return Limit(catalogue.find(asked.metric), above)
    if asked.metric != E2E:
        raise BadRequest("metric: says what to compare with above; give above as well", field="metric")
    return None


def shares(reader: TelemetryReader, asked: SeriesQuery, limit: Limit | None = None) -> SharesAnswer:
    span = asked.span

    def read(metric: str) -> list[SketchSeries]:
        return reader.histograms(metric, span.start, span.end, by=asked.by, where=asked.where, step_s=asked.step_s)

    e2e = read(E2E)
    parts = {name: _found(read(name)) for name in COMPONENTS} if e2e else {}
    position = None if limit is None else exceedance.nearest_edge(limit.seconds, "above")
    limited = None
    if limit is not None:
        limited = _found(e2e if limit.metric.short == E2E else read(limit.metric.short))
    series = []
    for one in e2e:
        key = tuple(one.labels.values())
        if one.total.total <= 0:
            continue
        found = {name: part.whole[key] for name, part in parts.items() if key in part.whole}
        divided, error = _divide(one.total, found)
        series.append(
            ShareSeries(
                labels=one.labels,
                requests=one.total.count,
                e2e_s=one.total.total,
                shares=divided,
                counts={name: sketch.count for name, sketch in found.items()},
                error=error,
                above=_above(None if limited is None else limited.whole.get(key), position),
                points=None if asked.step_s is None else _points(one, key, parts, limited, position),
            )
        )
    return SharesAnswer(
        start=span.start,
        end=span.end,
        error=max((one.error for one in series), default=0.0),
        threshold=None
        if limit is None or position is None
        else exceedance.threshold(limit.metric.short, limit.seconds, position),
        series=series,
    )


def _points(
    one: SketchSeries, key: Key, parts: Mapping[str, _Found], limited: _Found | None, position: int | None
) -> list[SharePoint]:
    points = []
    for time, sketch in one.steps:
        if sketch.total <= 0:
            continue
        found = {name: part.steps[key, time] for name, part in parts.items() if (key, time) in part.steps}
        divided, error = _divide(sketch, found)
        points.append(
            SharePoint(
                time=time,
                requests=sketch.count,
                e2e_s=sketch.total,
                shares=divided,
                error=error,
                above=_above(None if limited is None else limited.steps.get((key, time)), position),
            )
        )
    return points


def _divide(e2e: Sketch, parts: Mapping[str, Sketch]) -> tuple[dict[str, float], float]:
    """The shares, and what they miss 1 by. What no component tells is unaccounted for, said so or not."""
    divided = {name: part.total / e2e.total for name, part in parts.items()}
    if UNACCOUNTED not in divided:
        divided[UNACCOUNTED] = max(0.0, 1.0 - sum(divided.values()))
    return divided, abs(1.0 - sum(divided.values()))


def _above(sketch: Sketch | None, position: int | None) -> Above | None:
    return None if sketch is None or position is None else exceedance.above(sketch, position)


def _found(series: list[SketchSeries]) -> _Found:
    whole = {tuple(one.labels.values()): one.total for one in series}
    steps = {(tuple(one.labels.values()), time): sketch for one in series for time, sketch in one.steps}
    return _Found(whole, steps)
