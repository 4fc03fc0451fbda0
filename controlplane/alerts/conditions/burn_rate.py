"""SLO burn rates: how much faster than evenly a promise's budget is used up, in a long window and in a short one.

Guarantee: shares above a limit are exact counts of the sketches; a pair of windows speaks only where Wilson's bound of
the long one and the plain share of the short one are both above its rate, so a quiet pool does not page for one slow
request, and an alert ends soon after the burning does. A pair whose rate no share can reach (14.4 times a budget of
0.1) never speaks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from controlplane.alerts.conditions.finding import Finding, Patience, Reading
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Snapshot, Sources
from controlplane.alerts.conditions.watched_metrics import check_metrics, check_unique
from controlplane.alerts.windows.history import instant
from controlplane.alerts.windows.window_table import Source, Values, WindowTables
from controlplane.alerts.words import percentile
from controlplane.contract.bodies.alerts import BurnRateCondition, Severity
from controlplane.contract.bodies.slo import PROFILES, Limit
from controlplane.contract.duration_text import duration_text
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import axis_position
from controlplane.contract.on_call.metric_text import metric_title
from controlplane.evidence.binomial import Z_99, wilson_upper
from controlplane.evidence.sketch import Sketch

STEP_S = 60.0
USUAL_PERIOD_S = 30 * 86400.0
CLUMP = 4.0
"""Slow requests come together: so many count as one."""
OVER_AT = 0.9
RESOLVE_S = 120.0


@dataclass(frozen=True)
class Pair:
    """`rate` times the even use of the budget, in both windows. Seconds, for a period of 30 days."""

    rate: float
    long_s: float
    short_s: float

    def scaled(self, period_s: float) -> "Pair":
        """For another period; windows are whole steps."""
        factor = period_s / USUAL_PERIOD_S
        return Pair(self.rate, *(max(round(s * factor / STEP_S), 1) * STEP_S for s in (self.long_s, self.short_s)))


PAIRS: Mapping[Severity, Sequence[Pair]] = {
    Severity.PAGE: (Pair(14.4, 3600, 300), Pair(6.0, 6 * 3600, 1800)),
    Severity.TICKET: (Pair(3.0, 86400, 2 * 3600), Pair(1.0, 3 * 86400, 6 * 3600)),
}


@dataclass(frozen=True)
class Above:
    """Reduces a histogram to its count and how many values lie above a limit's bucket."""

    position: int

    def __call__(self, sketch: Sketch) -> tuple[float, float]:
        return float(sketch.count), float(sketch.above(self.position))


@dataclass(frozen=True)
class Burn:
    """What one pair of windows says of an objective at one end. since: where the short one begins to burn,
    in steps from the end."""

    pair: Pair
    count: int
    slow: int
    long_rate: float
    sure_rate: float
    short_rate: float
    is_known: bool
    since: int

    @property
    def is_breach(self) -> bool:
        return self.is_known and min(self.sure_rate, self.short_rate) > self.pair.rate

    @property
    def is_over(self) -> bool:
        return self.is_known and min(self.long_rate, self.short_rate) <= OVER_AT * self.pair.rate


class BurnRate(Kind[BurnRateCondition]):
    condition = BurnRateCondition
    seeks_causes = True

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources)
        self._tables = WindowTables(sources.telemetry, sources.width_s)

    @classmethod
    def check(cls, condition: BurnRateCondition) -> None:
        if not objectives_of(condition):
            raise BadRequest(
                "condition.objectives: give at least one, or a condition.profile that has some",
                field="condition.objectives",
            )
        check_metrics((f"condition.objectives[{n}].metric", one.metric) for n, one in enumerate(condition.objectives))
        check_unique("condition.objectives", [f"{one.metric} at {one.q:g}" for one in condition.objectives])

    def prepare(self, jobs: Sequence[Job[BurnRateCondition]], seen: Snapshot, end: datetime) -> None:
        wanted: dict[Source, tuple[int, int]] = {}
        last = math.floor(end.timestamp() / STEP_S)
        for job in jobs:
            earliest = min(_ends(job, end), default=last) - round(pairs_of(job)[-1].long_s / STEP_S)
            for one in objectives_of(job.condition):
                source = source_of(one)
                wanted[source] = (min(earliest, wanted.get(source, (earliest, last))[0]), last)
        self._tables.cover(wanted, {job.pool: seen.where(job.pool) for job in jobs})

    def judge(self, job: Job[BurnRateCondition], seen: Snapshot, end: datetime) -> Findings:
        ends = _ends(job, end)
        found = [finding for one in objectives_of(job.condition) for finding in self._of(job, one, ends)]
        return Findings(sorted(found, key=lambda finding: finding.at))

    def _of(self, job: Job[BurnRateCondition], objective: Limit, ends: Sequence[int]) -> Sequence[Finding]:
        labels = {
            "kind": job.condition.kind,
            "pool": job.pool,
            "metric": objective.metric,
            "q": f"{objective.q:g}",
        }
        if not ends:
            return []
        burns = self._burns(job, objective, ends)
        heard = [any(burn.is_breach for burn in at) for at in burns]
        first = 0 if job.alert(labels) is not None else heard.index(True) if True in heard else len(ends)
        return [_finding(labels, objective, job, ends[at], burns[at]) for at in range(first, len(ends))]

    def _burns(self, job: Job[BurnRateCondition], objective: Limit, ends: Sequence[int]) -> list[list[Burn]]:
        """Of each end what each pair says."""
        pairs, table = pairs_of(job), self._tables.get(source_of(objective))
        back = round(pairs[-1].long_s / STEP_S)
        series = table.of(job.pool, None, ends[0] - back, ends[-1])
        counted = np.nan_to_num(series[()]) if () in series else np.zeros((ends[-1] - ends[0] + back, 2))
        total = np.concatenate([np.zeros((1, 2)), np.cumsum(counted, axis=0)])
        places = [back + end - ends[0] for end in ends]
        return [[_burn(pair, total, place, objective, job.condition.min_count) for pair in pairs] for place in places]


def objectives_of(condition: BurnRateCondition) -> Sequence[Limit]:
    """The rule's own, else those of its profile."""
    return condition.objectives or (PROFILES[condition.profile] if condition.profile else ())


def pairs_of(job: Job[BurnRateCondition]) -> list[Pair]:
    """By the rule's severity, the longest windows last."""
    return [pair.scaled(job.condition.period_s) for pair in PAIRS[job.rule.severity]]


def source_of(objective: Limit) -> Source:
    reduced = Above(axis_position(objective.limit_s))
    return Source(objective.metric, STEP_S, by_node=False, figures=2, reduced=reduced)


def _ends(job: Job[BurnRateCondition], end: datetime) -> list[int]:
    """Steps at whose start it is judged and that are new."""
    first = math.floor(job.since(end).timestamp() / STEP_S) + 1
    return list(range(first, math.floor(end.timestamp() / STEP_S) + 1))


def _burn(pair: Pair, total: Values, place: int, objective: Limit, min_count: int) -> Burn:
    budget = 1.0 - objective.q
    count, slow = total[place] - total[place - round(pair.long_s / STEP_S)]
    of_short, slow_short = total[place] - total[place - round(pair.short_s / STEP_S)]
    share = slow / count if count else 0.0
    sure = 1.0 - wilson_upper((count - slow) / CLUMP, count / CLUMP, Z_99) if slow else 0.0
    short = slow_short / of_short if of_short else 0.0
    is_known = count >= min_count and of_short > 0
    steps = np.diff(total[place - round(pair.short_s / STEP_S) : place + 1], axis=0)
    burning = np.flatnonzero(steps[:, 1] > pair.rate * budget * steps[:, 0])
    quiet = int(burning[0]) if len(burning) else len(steps)
    return Burn(
        pair, int(count), int(slow), share / budget, sure / budget, short / budget, is_known, quiet - len(steps)
    )


def _finding(
    labels: dict[str, str], objective: Limit, job: Job[BurnRateCondition], end: int, burns: Sequence[Burn]
) -> Finding:
    at, patience = instant(end * STEP_S), Patience(0.0, RESOLVE_S)
    loud = next((burn for burn in burns if burn.is_breach), None)
    if loud is None:
        reading = Reading.CLEAR if all(burn.is_over for burn in burns) else Reading.HOLD
        return Finding(labels, at, reading, patience)
    left_s = job.condition.period_s / loud.long_rate
    return Finding(
        labels,
        at,
        Reading.BREACH,
        patience,
        since=instant((end + loud.since) * STEP_S),
        summary=(
            f"{metric_title(objective.metric)} {percentile(objective.q)} within {duration_text(objective.limit_s)}: "
            f"the budget is used up {loud.long_rate:.3g} times too fast over {_length(loud.pair.long_s)} "
            f"({loud.slow} of {loud.count} requests too slow); a whole one would last {_length(left_s)}"
        ),
        evidence={
            "limit_s": objective.limit_s,
            "budget": round(1.0 - objective.q, 6),
            "burns": [_told(burn) for burn in burns],
            "error_rate": {
                "statement": (
                    f"the rate is at least {loud.sure_rate:.3g} with 99 % (Wilson, {CLUMP:g} requests counting as "
                    f"one), wanted is less than {loud.pair.rate:g}; counts are exact"
                )
            },
        },
    )


def _told(burn: Burn) -> dict[str, Any]:
    return {
        "rate": burn.pair.rate,
        "long_s": burn.pair.long_s,
        "short_s": burn.pair.short_s,
        "count": burn.count,
        "slow": burn.slow,
        "burning_long": round(burn.long_rate, 3),
        "burning_short": round(burn.short_rate, 3),
    }


def _length(seconds: float) -> str:
    """Of windows: 5 min, 6 h, 3 d."""
    for unit_s, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * unit_s or (seconds >= unit_s and unit_s == 3600.0):
            return f"{seconds / unit_s:.3g} {name}"
    return duration_text(seconds)
