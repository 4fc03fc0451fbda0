"""How much of a quantile's shift each stage and each group of requests explains, from what was read (pure).

A group is *named* where chance is ruled out that the others got as much slower, and where it explains much of the shift
that the others do not share. The slow tail is mostly of long prompts whatever happens: what they add says where it is
slow, and only beside the others whether it is they who got slower.

While a slowdown is young it has too few requests for its quantile, and is taken apart at a lower one: where
`LEAST_TAIL` of its requests are slower.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.bodies.explanation import Bounded
from controlplane.contract.histogram import axis_position
from controlplane.contract.metrics import PROMPT_BUCKET, TENANT
from controlplane.contract.on_call.attribution import (
    Attribution,
    ChangedAt,
    EventBefore,
    HowMoved,
    PlaceOfShift,
    StageOfShift,
)
from controlplane.evidence.dispersion import dispersion_of
from controlplane.evidence.order_statistics import Estimate
from controlplane.evidence.shifts.anytime_quantile import anytime_ratio
from controlplane.evidence.shifts.change_point import change_point
from controlplane.evidence.shifts.quantile_shift import GroupShift, QuantileShift, quantile_shift
from controlplane.evidence.shifts.tail_parts import LEAST_TAIL, TailParts, Timed, tail_parts
from controlplane.evidence.sketch import Sketch

Counts = NDArray[np.int64]

EXPLAINS = 0.4
"""Of the shift, what a place that is named explains at least: shares of young slowdowns are known to a fifth."""
STATES = ("step_limit", "host_state")
"""Of nodes meanwhile: they say how it was there, and are no place."""
REST = "rest"
"""What the stages leave of a request's total."""
MOST_PLACES = 8
"""Told beside those that are named, and beside the mixes."""
LEAST_REST = 0.01
AFTER_S = 300.0
"""An event is looked for so long before the change, and as far after it as the change may have come later."""


@dataclass(frozen=True)
class Grouped:
    """Requests by the values of one label. Counts are int64[blocks, values, width] by blocks of time, the first column
    at place `low` of the histograms' axis; the last value may be that of all others together, then it is empty."""

    label: str
    values: Sequence[str]
    before: Counts
    during: Counts
    low: int = 0


@dataclass(frozen=True)
class ReadShift:
    """What was read of a shift. ticks: int64[ticks, width] of all requests, the first `usual` before the onset; parts:
    the stages of `before_requests` and `during_requests`, in the order of their columns."""

    metric: str
    q: float
    grouped: Sequence[Grouped] = ()
    stages: Sequence[str] = ()
    before_requests: Timed | None = None
    during_requests: Timed | None = None
    tick_times: Sequence[datetime] = ()
    ticks: Sequence[Sketch] = field(default_factory=tuple)
    usual: int = 0

    @property
    def has_grown(self) -> bool:
        """Whether the quantile is higher than before."""
        before, during = _total(self.ticks[: self.usual]), _total(self.ticks[self.usual :])
        return bool(before.count and during.count) and during.quantile(self.q) > before.quantile(self.q)


def attribution(read: ReadShift, ledger: Sequence[Mapping[str, Any]] = ()) -> Attribution | None:
    """None where a side has no requests. ledger: {"time", "kind", "subject", "message"}, times in ISO format."""
    before, during = _total(read.ticks[: read.usual]), _total(read.ticks[read.usual :])
    if not before.count or not during.count:
        return None
    q = min(read.q, max(0.5, 1.0 - LEAST_TAIL / min(before.count, during.count)))
    factor = anytime_ratio(before, during, q, _phi(read.ticks[: read.usual], before, q))
    found = [
        (one, quantile_shift(one.before, one.during, q, one.low))
        for one in read.grouped
        if one.before.any() and one.during.any()
    ]
    every = [place for one, shift in found for place in _places(one, shift)]
    traffic = [place for place in every if place.named and _is_traffic(place)]
    places = sorted(every, key=lambda place: (not place.named, -_strength(place, traffic)))
    named = [place for place in places if place.named]
    tail = None
    if read.before_requests is not None and read.during_requests is not None:
        tail = tail_parts(read.before_requests, read.during_requests, q)
    since = _since(read, before)
    return Attribution(
        metric=read.metric,
        q=q,
        before_s=before.quantile(q),
        during_s=during.quantile(q),
        effect=None if factor is None else _bounded(factor),
        tail_q=None if tail is None else tail.q,
        stages=[] if tail is None else _stages(read.stages, tail),
        places=[*named, *_told([place for place in places if not place.named])],
        place=next((place for place in named if place.label not in STATES), None),
        since=since,
        after=None if since is None else event_before(since, ledger),
    )


def _told(places: Sequence[PlaceOfShift]) -> list[PlaceOfShift]:
    """Of those that are not named the strongest, and how the mix changed by each label."""
    return [*places[:MOST_PLACES], *(place for place in places[MOST_PLACES:] if place.how is HowMoved.MIX)]


def event_before(since: ChangedAt, ledger: Sequence[Mapping[str, Any]]) -> EventBefore | None:
    """The entry nearest to the change that may have come before it."""
    fitting = []
    for entry in ledger:
        time = datetime.fromisoformat(str(entry["time"]))
        if since.low - timedelta(seconds=AFTER_S) <= time <= since.high:
            fitting.append((abs((since.at - time).total_seconds()), time, entry))
    if not fitting:
        return None
    _, time, entry = min(fitting, key=lambda one: one[:2])
    return EventBefore(
        time=time,
        kind=str(entry["kind"]),
        subject=str(entry["subject"]),
        message=str(entry["message"]),
        lag_s=(since.at - time).total_seconds(),
    )


def _places(one: Grouped, shift: QuantileShift) -> list[PlaceOfShift]:
    """The groups' own changes, and the mix as one, told as of the group that grew."""
    if shift.shift <= 0.0:
        return []
    told = [_within(one, group, shift.shift) for group in shift.groups if one.values[group.place]]
    grown = next(group for group in shift.groups if group.place == shift.grown)
    share = shift.mix.value / shift.shift
    mix = PlaceOfShift(
        label=one.label,
        value=one.values[grown.place],
        how=HowMoved.MIX,
        share=share,
        moved_s=_bounded(shift.mix),
        before=grown.before_share,
        during=grown.during_share,
        named=shift.is_mix and share >= EXPLAINS and grown.during_share > grown.before_share,
    )
    return [*told, mix]


def _is_traffic(place: PlaceOfShift) -> bool:
    """Whether others were sent: of somebody, or of another length."""
    return place.how is HowMoved.MIX and place.label in (TENANT.label, PROMPT_BUCKET.label)


def _is_sender(place: PlaceOfShift) -> bool:
    """Whether somebody sent more: that goes before what these requests are like."""
    return place.label == TENANT.label and place.how is HowMoved.MIX


def _within(one: Grouped, group: GroupShift, shift: float) -> PlaceOfShift:
    share = group.within.value / shift
    return PlaceOfShift(
        label=one.label,
        value=one.values[group.place],
        how=HowMoved.WITHIN,
        share=share,
        moved_s=_bounded(group.within),
        before=group.before_share,
        during=group.during_share,
        own_factor=group.own,
        others_factor=group.others,
        named=group.is_named and share * group.isolation >= EXPLAINS,
    )


def _strength(place: PlaceOfShift, traffic: Sequence[PlaceOfShift]) -> float:
    """What it explains that others do not share, nor a change of the traffic that is named: longer prompts are why
    cache misses take longer, and one tenant's sending more is why prompts are longer."""
    before = [one.share for one in traffic if one.label != place.label and not _is_sender(place)]
    return (place.share - max(before, default=0.0)) * alone(place)


def alone(place: PlaceOfShift) -> float:
    """0..1: how much of its growth the others do not share; 1 of a change of the mix, or where nothing tells."""
    if place.how is HowMoved.MIX or place.own_factor is None or place.others_factor is None:
        return 1.0
    own, others = math.log(max(place.own_factor, 1.0)), math.log(max(place.others_factor, 1.0))
    return 1.0 - min(others / own, 1.0) if own > 0.0 else 0.0


def _stages(names: Sequence[str], tail: TailParts) -> list[StageOfShift]:
    shares = [part.grown.value / tail.grown if tail.grown else 0.0 for part in tail.parts]
    told = [
        StageOfShift(stage=name, before_s=part.before, during_s=part.during, grown_s=_bounded(part.grown), share=share)
        for name, part, share in zip([*names, REST], tail.parts, shares, strict=True)
        if name != REST or abs(share) >= LEAST_REST
    ]
    return sorted(told, key=lambda stage: -stage.share)


def _since(read: ReadShift, before: Sketch) -> ChangedAt | None:
    """By the counts between the usual median, p90 and quantile. What it was when an earlier slowdown ended is none: the
    change is looked for after that."""
    edges = [before.quantile(q) for q in sorted({0.5, 0.9, read.q})]
    rows = np.array([_classes(sketch, edges) for sketch in read.ticks])
    times, start = read.tick_times, 0
    while start < len(rows) and (found := change_point(rows[start:], max(read.usual - start, 0))) is not None:
        changed = start + found.tick
        if not _is_faster(_total(read.ticks[changed:]), _total(read.ticks[start:changed]), read.q):
            at, low, high = (times[min(start + tick, len(times) - 1)] for tick in (found.tick, found.low, found.high))
            return ChangedAt(at=at, low=low, high=high)
        start = changed
    return None


def _is_faster(after: Sketch, before: Sketch, q: float) -> bool:
    """Whether requests took less time after, on the average and at the quantile."""
    if not after.count or not before.count:
        return False
    return (after.mean or 0.0) < (before.mean or 0.0) and after.quantile(q) <= before.quantile(q)


def _classes(sketch: Sketch, edges: Sequence[float]) -> list[int]:
    above = [sketch.above(axis_position(edge)) for edge in edges]
    upto = [sketch.count, *above]
    return [*(more - less for more, less in zip(upto, above, strict=False)), above[-1]]


def _phi(ticks: Sequence[Sketch], before: Sketch, q: float) -> float:
    """Of the counts above the quantile before."""
    place = axis_position(before.quantile(q))
    above = np.array([float(sketch.above(place)) for sketch in ticks])
    count = np.array([float(sketch.count) for sketch in ticks])
    share = above.sum() / count.sum()
    if not 0.0 < share < 1.0:
        return 1.0
    return dispersion_of(above - count * share, count * share * (1.0 - share), 1)


def _total(sketches: Sequence[Sketch]) -> Sketch:
    total = Sketch()
    for sketch in sketches:
        total.merge(sketch)
    return total


def _bounded(found: Estimate) -> Bounded:
    return Bounded(value=found.value, low=found.low, high=found.high)
