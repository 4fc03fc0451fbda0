"""Quantiles of two sides, their difference and ratio, each with an interval: from all requests, not a sample (pure).

Guarantee: where a side has too few values for an interval, none is given, and how many it wants is said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.contract.bodies.explanation import (
    Bounded,
    CompareAnswer,
    ComparedMetric,
    ComparedQuantile,
    ComparedSide,
)
from controlplane.contract.metrics import E2E, REQUEST_PARTS, UNACCOUNTED
from controlplane.evidence.order_statistics import Estimate, difference, needed, ranks, ratio
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.question import Cost, Question
from controlplane.telemetry.reader import TelemetryReader
from controlplane.telemetry.values.catalogue import MetricRef
from controlplane.telemetry.values.timespan import Span

PARTS = tuple(metric.short for metric in (E2E, *REQUEST_PARTS, UNACCOUNTED))


@dataclass(frozen=True)
class ComparedWith:
    """One side: a span, and label to values of which any will do."""

    span: Span
    where: Mapping[str, Sequence[str]]

    def told(self) -> ComparedSide:
        labels = {label: list(values) for label, values in self.where.items()}
        return ComparedSide(start=self.span.start, end=self.span.end, labels=labels)


def compared(
    reader: TelemetryReader,
    metric: MetricRef,
    a: ComparedWith,
    b: ComparedWith,
    wanted: Mapping[str, float],
    level: float,
    cost: Cost,
) -> CompareAnswer:
    """`wanted`: keys as asked, and their quantiles. Raises `BadRequest` for a metric without quantiles."""
    names = list(dict.fromkeys([metric.short, *PARTS]))
    asked = [Question(name, side.span, where=side.where, cost=cost) for side in (a, b) for name in names]
    sums = [next(iter(groups.totals.sketches()), Sketch()) for groups in reader.sketches(asked)]
    metrics = [
        _metric(reader.find(name), ours, theirs, wanted, level)
        for name, ours, theirs in zip(names, sums[: len(names)], sums[len(names) :], strict=True)
        if name == metric.short or ours.count or theirs.count
    ]
    return CompareAnswer(level=level, a=a.told(), b=b.told(), metrics=metrics)


def estimate(sketch: Sketch, q: float, level: float) -> Estimate | None:
    """The quantile between its two order statistics, each moved outwards by what its bucket may hide; None: too few."""
    count = sketch.count
    places = ranks(count, q, level)
    if places is None:
        return None
    low, value, high = sketch.quantiles([places[0] / (count - 1), q, places[1] / (count - 1)])
    wide = 1.0 + sketch.relative_error
    return Estimate(value, min(low / wide, value), max(high * wide, value))


def _metric(metric: MetricRef, a: Sketch, b: Sketch, wanted: Mapping[str, float], level: float) -> ComparedMetric:
    return ComparedMetric(
        metric=metric.short,
        unit=metric.unit,
        a_count=a.count,
        b_count=b.count,
        a_mean=a.mean,
        b_mean=b.mean,
        relative_error=max(a.relative_error, b.relative_error),
        quantiles=[_quantile(metric, name, q, a, b, level) for name, q in wanted.items()],
    )


def _quantile(metric: MetricRef, name: str, q: float, a: Sketch, b: Sketch, level: float) -> ComparedQuantile:
    ours, theirs = estimate(a, q, level), estimate(b, q, level)
    apart = None if ours is None or theirs is None else difference(ours, theirs)
    times = None if ours is None or theirs is None else ratio(ours, theirs)
    differs = None if apart is None else apart.low > 0.0 or apart.high < 0.0
    return ComparedQuantile(
        q=name,
        needed=needed(q, level),
        a_value=a.quantile(q) if a.count else None,
        b_value=b.quantile(q) if b.count else None,
        a=_bounded(ours),
        b=_bounded(theirs),
        difference=_bounded(apart),
        ratio=_bounded(times),
        differs=differs,
        sentence=f"p{100.0 * q:g} of {metric.short}: {_said(metric.unit, a, b, ours, theirs, needed(q, level))}",
    )


def _said(unit: str, a: Sketch, b: Sketch, ours: Estimate | None, theirs: Estimate | None, wants: int) -> str:
    if ours is None or theirs is None:
        return f"{a.count:,} values against {b.count:,} are too few to say; each side wants {wants:,}."
    beside = f"{ours.value:.3g} {unit} against {theirs.value:.3g} {unit}"
    apart, times = difference(ours, theirs), ratio(ours, theirs)
    between = f"{apart.low:+.3g} to {apart.high:+.3g} {unit}"
    if not (apart.low > 0.0 or apart.high < 0.0):
        return f"{beside}: no difference beyond chance ({between})."
    if times is None:
        return f"{beside}: {apart.value:+.3g} {unit} ({between})."
    return f"{beside}: {times.value:.3g} times as much ({times.low:.3g} to {times.high:.3g})."


def _bounded(found: Estimate | None) -> Bounded | None:
    return None if found is None else Bounded(value=found.value, low=found.low, high=found.high)
