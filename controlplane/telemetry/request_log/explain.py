"""Select to explain: the requests inside a box of time and seconds against others, as an answer (pure)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from controlplane.contract.bodies.explanation import (
    Against,
    ExplainAnswer,
    ExplainedFactor,
    ExplainedPart,
    ExplainedValue,
    LookedAt,
)
from controlplane.contract.metrics import E2E, REQUEST_PARTS, TPOT, TTFT, UNACCOUNTED
from controlplane.contract.share_text import share_text
from controlplane.telemetry.request_log.contrast import ALPHA, FactorContrast, ValueContrast, among_alike, contrasts
from controlplane.telemetry.request_log.factors import factors, phrase
from controlplane.telemetry.request_log.request_columns import Coded, Floats, Mask, RequestColumns, joined
from controlplane.telemetry.request_log.request_filter import FACETS, RequestFilter
from controlplane.telemetry.values.timespan import Span

VALUES_SHOWN = 10
Z_95 = 1.96
WATERFALL = tuple(metric.short for metric in (TTFT, TPOT, *REQUEST_PARTS, UNACCOUNTED, E2E))


@dataclass(frozen=True)
class Side:
    """Requests of a span."""

    requests: RequestColumns
    span: Span

    def looked_at(self) -> LookedAt:
        return LookedAt(
            found=self.requests.found, looked_at=len(self.requests), start=self.span.start, end=self.span.end
        )


def explain(
    inside: Side,
    outside: Side,
    box: RequestFilter,
    against: Against,
    log_from: datetime,
    states: Callable[[RequestColumns], Mapping[str, Coded]] = lambda _: {},
) -> ExplainAnswer:
    """`box`: the filter that inside passes. `states`: factors of all requests that are not in the log."""
    every = joined(inside.requests, outside.requests)
    is_inside = np.arange(len(every)) < len(inside.requests)
    columns = {**factors(every), **states(every)}
    found = contrasts(columns, is_inside)
    shown = [_factor(one, found[0], columns, is_inside) for one in found]
    return ExplainAnswer(
        metric=box.metric,
        low=box.low,
        high=box.high,
        against=against,
        sentence=_sentence(inside, outside, shown, log_from),
        alpha=ALPHA,
        inside=inside.looked_at(),
        outside=outside.looked_at(),
        log_from=log_from,
        factors=shown,
        parts=_parts(inside.requests, outside.requests),
    )


def _factor(one: FactorContrast, first: FactorContrast, columns: dict[str, Coded], is_inside: Mask) -> ExplainedFactor:
    alike = None
    sentence = _factor_sentence(one)
    if one.is_named and one is not first:
        alike = among_alike(columns[one.factor], one.leading.value, columns[first.factor], is_inside)
        if alike is not None:
            sentence += f" Among requests alike in {first.factor.replace('_', ' ')}: {_points(alike)}."
    return ExplainedFactor(
        factor=one.factor,
        label=one.factor in FACETS,
        score=one.score,
        p_value=one.p_value,
        named=one.is_named,
        sentence=sentence,
        inside=one.inside,
        outside=one.outside,
        values=[_value(value, one) for value in one.values[:VALUES_SHOWN]],
        others=len(one.values[VALUES_SHOWN:]),
        among_alike=alike,
    )


def _value(one: ValueContrast, of: FactorContrast) -> ExplainedValue:
    return ExplainedValue(
        value=one.value,
        inside=one.inside,
        outside=one.outside,
        share_inside=one.inside / of.inside,
        share_outside=one.outside / of.outside,
        difference=one.difference,
        low=one.interval.low,
        high=one.interval.high,
        p_value=one.p_value,
        named=one.is_named,
    )


def _factor_sentence(one: FactorContrast) -> str:
    if not one.is_named:
        return f"{one.factor.replace('_', ' ').capitalize()}: no difference beyond chance."
    value = one.leading
    sign = 1.0 if value.difference > 0.0 else -1.0
    low, high = sorted((sign * value.interval.low, sign * value.interval.high))
    return (
        f"{share_text(value.inside / one.inside)} of the requests inside {phrase(one.factor, value.value)}, "
        f"{share_text(value.outside / one.outside)} of those outside: {_points(value.difference)} "
        f"({100.0 * low:.0f} to {100.0 * high:.0f})."
    )


def _points(difference: float) -> str:
    points = f"{abs(100.0 * difference):.0f}"
    if points == "0":
        return "no difference"
    return f"{points} point{'' if points == '1' else 's'} {'more' if difference > 0.0 else 'fewer'}"


def _sentence(inside: Side, outside: Side, shown: list[ExplainedFactor], log_from: datetime) -> str:
    here, there = inside.requests.found, outside.requests.found
    if not here:
        old = inside.span.start < log_from
        return "No request of the log lies in this box" + ("; it reaches less far back." if old else ".")
    if not there:
        return f"{_requests(here)} inside, and none outside to compare with."
    counts = f"{_requests(here)} inside, {there:,} outside"
    if len(inside.requests) < here or len(outside.requests) < there:
        counts += f" (a uniform sample of {len(inside.requests):,} and {len(outside.requests):,} was looked at)"
    named = [one for one in shown if one.named]
    if not named:
        return f"{counts}: nothing tells them apart beyond chance."
    return f"{counts}. {named[0].sentence}"


def _requests(count: int) -> str:
    return f"{count:,} request{'' if count == 1 else 's'}"


def _parts(inside: RequestColumns, outside: RequestColumns) -> list[ExplainedPart]:
    found = []
    for part in WATERFALL:
        ours, theirs = (side.parts[part][np.isfinite(side.parts[part])] for side in (inside, outside))
        if len(ours) and len(theirs):
            found.append(_part(part, ours, theirs))
    return sorted(found, key=lambda one: -abs(one.difference_s))


def _part(part: str, ours: Floats, theirs: Floats) -> ExplainedPart:
    difference = float(ours.mean() - theirs.mean())
    error = math.sqrt(sum(float(side.var(ddof=1)) / len(side) if len(side) > 1 else 0.0 for side in (ours, theirs)))
    return ExplainedPart(
        part=part,
        inside_s=float(ours.mean()),
        outside_s=float(theirs.mean()),
        difference_s=difference,
        low_s=difference - Z_95 * error,
        high_s=difference + Z_95 * error,
    )
