"""Where the time of requests goes: each component's share of e2e (pure).

Guarantee: a share is an exact sum over an exact sum. Together with `unaccounted` the shares add up to 1 but for
`error`, which is stated: it is what senders' own clocks, and nodes that tell some components only, leave open. A
component that nobody told is absent, and so is a group, or a step, in which no request ended.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from controlplane.contract import metrics
from controlplane.contract.bodies.telemetry import Above, SharePoint, SharesAnswer, ShareSeries
from controlplane.contract.errors import BadRequest
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.queries import share_above
from controlplane.telemetry.queries.budget import kept, left_out
from controlplane.telemetry.question import Question
from controlplane.telemetry.reader import SketchGroups, TelemetryReader
from controlplane.telemetry.values.catalogue import MetricRef
from controlplane.telemetry.values.sketch_table import SketchTable

E2E = metrics.E2E.short
UNACCOUNTED = metrics.UNACCOUNTED.short
COMPONENTS = tuple(metric.short for metric in (*metrics.REQUEST_PARTS, metrics.UNACCOUNTED))

Key = tuple[str, ...]


@dataclass(frozen=True)
class Limit:
    """`above=0.5`: the share of a metric's values above a threshold, beside the components."""

    metric: MetricRef
    seconds: float


class _Sum(NamedTuple):
    """What a share needs of a sketch: the sum of its values, and how many there are."""

    total: float
    values: int


@dataclass(frozen=True)
class _Found:
    """One metric's sums by group, whole and by step."""

    whole: Mapping[Key, _Sum]
    steps: Mapping[tuple[Key, datetime], _Sum]


@dataclass(frozen=True)
class _Limited:
    """The sketches of the metric that has a limit, in the same way, and the edge that the limit is."""

    whole: Mapping[Key, Sketch]
    steps: Mapping[tuple[Key, datetime], Sketch]
    position: int


def limit_of(reader: TelemetryReader, asked: Question, above: float | None) -> Limit | None:
    """What `metric` and `above` of a query mean together. Raises `BadRequest`."""
    if above is not None:
        return Limit(reader.find(asked.metric), above)
    if asked.metric != E2E:
        raise BadRequest("metric: says what to compare with above; give above as well", field="metric")
    return None


def shares(reader: TelemetryReader, asked: Question, limit: Limit | None = None) -> SharesAnswer:
    """All metrics are read from one snapshot: none of them knows more of the newest requests than another."""
    span = asked.span
    position = None if limit is None else share_above.nearest_edge(limit.seconds, "above")
    names = list(dict.fromkeys([E2E, *COMPONENTS, *([] if limit is None else [limit.metric.short])]))
    tables = reader.sketches([replace(asked, metric=name) for name in names])
    read = dict(zip(names, tables, strict=True))
    e2e, parts = read[E2E], {name: _found(read[name]) for name in COMPONENTS}
    limited = None if limit is None or position is None else _limited(read[limit.metric.short], position)
    groups = [one for one in zip(e2e.labels, _sums(e2e.totals), _times(e2e), strict=True) if one[1].total > 0]
    series = []
    for place in kept([whole.values for _, whole, _ in groups], asked.most):
        labels, whole, steps = groups[place]
        key = tuple(labels.values())
        found = {name: part.whole[key] for name, part in parts.items() if key in part.whole}
        divided, error = _divide(whole, found)
        series.append(
            ShareSeries(
                labels=labels,
                requests=whole.values,
                e2e_s=whole.total,
                shares=divided,
                counts={name: one.values for name, one in found.items()},
                error=error,
                above=None if limited is None else _above(limited.whole.get(key), limited.position),
                points=None if asked.step_s is None else _points(key, steps, parts, limited),
            )
        )
    return SharesAnswer(
        start=span.start,
        end=span.end,
        error=max((one.error for one in series), default=0.0),
        threshold=None
        if limit is None or position is None
        else share_above.threshold(limit.metric.short, limit.seconds, position),
        series=series,
        left_out=left_out(len(groups), len(series)),
    )


def _points(
    key: Key, steps: Sequence[tuple[datetime, _Sum]], parts: Mapping[str, _Found], limited: _Limited | None
) -> list[SharePoint]:
    points = []
    for time, e2e in steps:
        if e2e.total <= 0:
            continue
        found = {name: part.steps[key, time] for name, part in parts.items() if (key, time) in part.steps}
        divided, error = _divide(e2e, found)
        points.append(
            SharePoint(
                time=time,
                requests=e2e.values,
                e2e_s=e2e.total,
                shares=divided,
                error=error,
                above=None if limited is None else _above(limited.steps.get((key, time)), limited.position),
            )
        )
    return points


def _divide(e2e: _Sum, parts: Mapping[str, _Sum]) -> tuple[dict[str, float], float]:
    """The shares, and what they miss 1 by. What no component tells is unaccounted for, said so or not."""
    divided = {name: part.total / e2e.total for name, part in parts.items()}
    if UNACCOUNTED not in divided:
        divided[UNACCOUNTED] = max(0.0, 1.0 - sum(divided.values()))
    return divided, abs(1.0 - sum(divided.values()))


def _above(sketch: Sketch | None, position: int) -> Above | None:
    return None if sketch is None else share_above.above(sketch, position)


def _found(groups: SketchGroups) -> _Found:
    keys = [tuple(labels.values()) for labels in groups.labels]
    whole = dict(zip(keys, _sums(groups.totals), strict=True))
    steps = {(key, time): one for key, found in zip(keys, _times(groups), strict=True) for time, one in found}
    return _Found(whole, steps)


def _limited(groups: SketchGroups, position: int) -> _Limited:
    series = groups.series()
    whole = {tuple(one.labels.values()): one.total for one in series}
    steps = {(tuple(one.labels.values()), time): sketch for one in series for time, sketch in one.steps}
    return _Limited(whole, steps, position)


def _times(groups: SketchGroups) -> list[list[tuple[datetime, _Sum]]]:
    """Of each group the steps that have data."""
    steps = list(zip(groups.times, _sums(groups.by_step), strict=True))
    return [steps[start:end] for start, end in zip(groups.starts, groups.starts[1:], strict=False)]


def _sums(table: SketchTable) -> Iterator[_Sum]:
    return map(_Sum, table.total.tolist(), table.count().tolist())
