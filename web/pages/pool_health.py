"""How one pool is: its tail against what is usual and against its objectives, in a state, a sentence and figures.

Pure. Guarantee: what is compared with is named in the sentence; a quantile of too few requests is told as that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles

from controlplane.contract.bodies.alerts import AbsoluteCondition, Alert, AlertRule, AlertState, Severity
from controlplane.contract.bodies.slo import PROFILES, Limit
from controlplane.contract.bodies.telemetry import QuantileSeries, RateSeries
from controlplane.contract.metrics import FINISH_REASON
from controlplane.contract.on_call.metric_text import metric_name
from controlplane.contract.reports.finish_reasons import CLIENT, FAILED
from web.drawing.curves import Points
from web.drawing.sparkline import Baseline
from web.frame.format import percent, seconds
from web.frame.states import Kind

TAIL = "0.99"
FEWEST = 100
"""Requests below which p99 is little more than the slowest of them."""
FEWEST_POINTS = 5
"""Steps of the past that make a band of what is usual."""
NOTICED = 1.25
"""Times what is usual, above which a pool is worth a look."""
WORST_FIRST = (Kind.BAD, Kind.WARN, Kind.STALE, Kind.UNKNOWN, Kind.GOOD)


@dataclass(frozen=True)
class Objective:
    """A limit of a rule: `met` is None where there was nothing to measure."""

    limit: Limit
    value_s: float | None

    @property
    def met(self) -> bool | None:
        return None if self.value_s is None else self.value_s <= self.limit.limit_s

    @property
    def words(self) -> str:
        return f"{metric_name(self.limit.metric)} p{100 * self.limit.q:g} at most {seconds(self.limit.limit_s)}"


@dataclass(frozen=True)
class Traffic:
    """Of the last minutes: rates a second, and shares of the requests that were offered to the end."""

    requests: float | None = None
    tokens: float | None = None
    failed: float | None = None

    @property
    def served(self) -> float | None:
        return None if self.failed is None else 1 - self.failed


@dataclass(frozen=True)
class Health:
    """One pool. `tail_s`: p99 of ttft; `points`: the same over the page's span; `other`: p99 by metric."""

    pool: str
    kind: Kind
    word: str
    sentence: str
    tail_s: float | None
    requests: int
    usual: Baseline | None
    usual_when: str
    points: Points
    other: Mapping[str, float | None]
    traffic: Traffic
    objectives: Sequence[Objective]

    @property
    def times_usual(self) -> float | None:
        if self.tail_s is None or self.usual is None or not self.usual.middle:
            return None
        return self.tail_s / self.usual.middle


def usual_of(points: Points) -> Baseline | None:
    """The middle of the past's p99s, a step each, and where eight of ten lie; None of too few."""
    if len(points) < FEWEST_POINTS:
        return None
    tenths = quantiles([value for _, value in points], n=10, method="inclusive")
    return Baseline(tenths[0], tenths[4], tenths[8])


def points_of(series: QuantileSeries | None, q: str = TAIL) -> Points:
    if series is None:
        return []
    return [(at.time.timestamp(), at.quantiles[q]) for at in series.points or [] if q in at.quantiles]


def traffic_of(requests: Sequence[RateSeries], tokens: RateSeries | None) -> Traffic:
    """`requests`: the pool's rates by finish reason. Those whose clients went away were not offered to the end."""
    by_reason = {series.labels.get(FINISH_REASON.label, ""): series for series in requests}
    if not by_reason:
        return Traffic(tokens=tokens.per_second if tokens else None)
    failed = sum(series.total for reason, series in by_reason.items() if reason in FAILED)
    offered = sum(series.total for reason, series in by_reason.items() if reason not in CLIENT)
    return Traffic(
        requests=sum(series.per_second for series in by_reason.values()),
        tokens=tokens.per_second if tokens else None,
        failed=failed / offered if offered else None,
    )


def limits_of(pool: str, rules: Sequence[AlertRule]) -> list[Limit]:
    """What rules hold the pool to: its objectives, each once, the strictest of a quantile."""
    found: dict[tuple[str, float], Limit] = {}
    for rule in rules:
        if not rule.enabled or rule.pool not in (None, pool) or not isinstance(rule.condition, AbsoluteCondition):
            continue
        condition = rule.condition
        for limit in condition.limits or (PROFILES[condition.profile] if condition.profile else ()):
            key = (limit.metric, limit.q)
            if key not in found or limit.limit_s < found[key].limit_s:
                found[key] = limit
    return list(found.values())


def health_of(
    pool: str,
    *,
    now: QuantileSeries | None,
    points: Points,
    usual: Baseline | None,
    usual_when: str,
    other: Mapping[str, float | None],
    traffic: Traffic,
    objectives: Sequence[Objective],
    alerts: Sequence[Alert],
) -> Health:
    """`now`: ttft of the last minutes. `alerts`: the pool's open ones."""
    tail_s = None if now is None else now.quantiles.get(TAIL)
    requests = 0 if now is None else now.count
    firing = [one for one in alerts if one.state is AlertState.FIRING and not one.silenced]
    missed = [one for one in objectives if one.met is False]
    times = tail_s / usual.middle if tail_s is not None and usual is not None and usual.middle else None
    slower = times is not None and usual is not None and times > NOTICED and (tail_s or 0.0) > usual.high
    if any(one.severity is Severity.PAGE for one in firing) or missed:
        kind, word = Kind.BAD, "burning"
    elif firing or slower or any(one.state is AlertState.PENDING for one in alerts):
        kind, word = Kind.WARN, "worth a look"
    elif tail_s is None:
        kind, word = (Kind.STALE, "quiet") if points else (Kind.UNKNOWN, "nothing heard")
    elif usual is None and not objectives:
        kind, word = Kind.UNKNOWN, "new here"
    else:
        kind, word = Kind.GOOD, "healthy"
    sentence = _sentence(tail_s, requests, times, usual, usual_when, missed, len(firing))
    return Health(pool, kind, word, sentence, tail_s, requests, usual, usual_when, points, other, traffic, objectives)


def _sentence(
    tail_s: float | None,
    requests: int,
    times: float | None,
    usual: Baseline | None,
    usual_when: str,
    missed: Sequence[Objective],
    firing: int,
) -> str:
    """Such as "TTFT p99 1.65 s, 2.1 times the 780 ms of a day earlier; 1 alert firing." """
    if tail_s is None:
        told = ["no request in the last five minutes"]
    else:
        figure = f"TTFT p99 {seconds(tail_s)}" + (f" of only {requests} requests" if requests < FEWEST else "")
        if times is None or usual is None:
            told = [f"{figure}; nothing older to compare with"]
        elif abs(times - 1) < 0.1:
            told = [f"{figure}, as {usual_when} ({seconds(usual.middle)})"]
        else:
            told = [f"{figure}, {times:.2g} times the {seconds(usual.middle)} of {usual_when}"]
    if missed:
        told.append("over its objective: " + ", ".join(f"{one.words} (is {seconds(one.value_s)})" for one in missed))
    if firing:
        told.append(f"{firing} alert{'s' if firing > 1 else ''} firing")
    return "; ".join(told) + "."


def worst_first(pools: Sequence[Health]) -> list[Health]:
    """By state, then by how many times what is usual its tail is."""
    return sorted(pools, key=lambda one: (WORST_FIRST.index(one.kind), -(one.times_usual or 0.0), one.pool))


def is_new(pool: Health) -> bool:
    """Whether it serves, and there is nothing to call that good or bad by."""
    return pool.kind is Kind.UNKNOWN and pool.tail_s is not None


def fleet_sentence(pools: Sequence[Health]) -> str:
    """Such as "chat is burning; 2 pools are healthy." for `pools` in the order of `worst_first`."""
    if not pools:
        return "No pool serves yet."
    told = [f"{one.pool} is burning: {one.sentence[:-1]}" for one in pools if one.kind is Kind.BAD]
    told += [f"{one.pool} is {one.word}: {one.sentence[:-1]}" for one in pools if one.kind is Kind.WARN]
    told += [f"{one.pool} is {one.word}: {one.sentence[:-1]}" for one in pools if is_new(one)]
    silent = [one.pool for one in pools if one.kind in (Kind.STALE, Kind.UNKNOWN) and not is_new(one)]
    if silent:
        told.append(f"nothing was heard of {', '.join(silent)} in the last five minutes")
    good = [one.pool for one in pools if one.kind is Kind.GOOD]
    if len(good) == len(pools):
        return f"{good[0]} is healthy: {pools[0].sentence}" if len(good) == 1 else f"All {len(good)} pools are healthy."
    if good:
        told.append(f"{good[0]} is healthy" if len(good) == 1 else f"{len(good)} pools are healthy")
    return ". ".join(one[0].upper() + one[1:] if place else one for place, one in enumerate(told)) + "."


def share_words(share: float | None) -> str:
    """A share of requests with the digits that tell 99.9 from 100 %."""
    return "–" if share is None else percent(share, 2 if share > 0.99 and share < 1 else 1)
