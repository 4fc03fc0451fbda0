"""Changes of configuration, from the ledger's entries of rollouts to what they mean for a pool's baselines. Pure.

- A judged rollout that goes on to the whole pool (better, or not worse) makes a new normal: each metric moves by what
  the verdict measured between the two arms. A metric that it did not measure begins anew.
- One that was rolled back leaves a span that teaches nothing; so does one that a later rollout took back, and that
  later one moves nothing: what served before serves again.
- One that nobody judged (an emergency) changes nothing.
- While any goes on wave by wave the pool's nodes cannot be compared with each other.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.alerts.regressions.baseline import MARGIN_BUCKETS
from controlplane.alerts.windows.pool_record import Move, Span
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.rollouts import RolloutPhase, Verdict
from controlplane.contract.histogram import BASE

DOMAIN = "rollout"
ACCEPTED = frozenset({Verdict.BETTER.value, Verdict.NOT_WORSE.value})
MEASURED = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
LEAST_COUNT = 100
"""Of an arm with fewer values the quantiles are not taken for a measurement."""
_BACK = (RolloutPhase.ROLLED_BACK.value, RolloutPhase.FAILED.value)


@dataclass
class _Rollout:
    """One rollout as the ledger tells it: the times (seconds since the epoch) at which it came to its phases."""

    id: int
    pool: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    at_s: dict[str, float] = field(default_factory=dict)

    def first_s(self, *phases: str) -> float | None:
        return min((self.at_s[phase] for phase in phases if phase in self.at_s), default=None)

    @property
    def begun_s(self) -> float | None:
        """When the first node was told."""
        return self.first_s(RolloutPhase.CANARY.value, RolloutPhase.PROMOTING.value, RolloutPhase.PROMOTED.value)

    @property
    def changing(self) -> Span | None:
        """While nodes of one pool run two configurations, canaries aside."""
        begun_s = self.first_s(RolloutPhase.PROMOTING.value)
        done_s = self.first_s(RolloutPhase.PROMOTED.value, *_BACK)
        return None if begun_s is None else (begun_s, math.inf if done_s is None else done_s)

    @property
    def is_accepted(self) -> bool:
        return self.evidence.get("verdict") in ACCEPTED

    @property
    def goes_back(self) -> bool:
        return self.first_s(RolloutPhase.ROLLING_BACK.value, *_BACK) is not None

    @property
    def is_judging(self) -> bool:
        later = (RolloutPhase.PROMOTING, RolloutPhase.PROMOTED, RolloutPhase.ROLLING_BACK, *map(RolloutPhase, _BACK))
        return RolloutPhase.CANARY.value in self.at_s and self.first_s(*(phase.value for phase in later)) is None

    def takes_back(self, other: "_Rollout") -> bool:
        mine, theirs = self.evidence, other.evidence
        return mine.get("revision") == theirs.get("previous_revision") and mine.get("previous_revision") == theirs.get(
            "revision"
        )


@dataclass
class Deliberate:
    """What the rollouts of one pool mean for its baselines; as in `PoolRecord`."""

    taken_back: list[Span] = field(default_factory=list)
    moves: dict[str, list[Move]] = field(default_factory=dict)
    on_trial: frozenset[str] = frozenset()
    changing: list[Span] = field(default_factory=list)


def changes_of(entries: Iterable[LedgerEntry], metrics: Sequence[str]) -> dict[str, Deliberate]:
    """By pool. entries: of the domain `rollout`, oldest first; metrics: those whose baselines may have to move."""
    rollouts: dict[int, _Rollout] = {}
    for entry in entries:
        domain, _, verb = entry.kind.partition(".")
        number = entry.subject.removeprefix("rollout/")
        if domain != DOMAIN or not number.isdecimal():
            continue
        seen = rollouts.setdefault(int(number), _Rollout(int(number)))
        spec = entry.evidence.get("spec")
        named = entry.evidence.get("pool") or (spec.get("pool") if isinstance(spec, Mapping) else None)
        seen.pool = seen.pool or named
        if "revision" in entry.evidence:
            seen.evidence = entry.evidence
        seen.at_s.setdefault(verb, entry.time.timestamp())
    found: dict[str, Deliberate] = {}
    standing: dict[str, list[_Rollout]] = {}
    for rollout in sorted(rollouts.values(), key=lambda one: one.begun_s or math.inf):
        if rollout.pool is not None and rollout.begun_s is not None:
            _take(rollout, rollout.begun_s, found.setdefault(rollout.pool, Deliberate()), standing)
    for pool, kept in standing.items():
        for rollout in kept:
            if rollout.is_accepted:
                _move(rollout, metrics, found[pool])
    return found


def _take(rollout: _Rollout, begun_s: float, pool: Deliberate, standing: dict[str, list[_Rollout]]) -> None:
    """Sort one rollout in: on trial, gone back, taking the last one back, or standing."""
    kept = standing.setdefault(rollout.pool or "", [])
    if rollout.changing is not None:
        pool.changing.append(rollout.changing)
    if rollout.goes_back:
        pool.taken_back.append((begun_s, rollout.first_s(*_BACK) or math.inf))
    elif rollout.is_judging:
        nodes = rollout.evidence.get("canary_nodes")
        pool.on_trial |= frozenset(nodes if isinstance(nodes, list) else ())
    elif kept and rollout.takes_back(kept[-1]):
        done_s = rollout.first_s(RolloutPhase.PROMOTED.value)
        if done_s is not None:
            undone = kept.pop()
            pool.taken_back.append((undone.begun_s or begun_s, done_s))
    else:
        kept.append(rollout)


def _move(rollout: _Rollout, metrics: Sequence[str], pool: Deliberate) -> None:
    promoting_s = rollout.first_s(RolloutPhase.PROMOTING.value, RolloutPhase.PROMOTED.value)
    promoted_s = rollout.first_s(RolloutPhase.PROMOTED.value)
    if promoting_s is None:
        return
    for metric in metrics:
        shifts = measured_shifts(rollout.evidence, metric)
        if shifts is not None and all(abs(shift) <= MARGIN_BUCKETS for shift in shifts.values()):
            continue  # So little is never a regression.
        slower = shifts is None or any(shift > 0 for shift in shifts.values())
        # The pool moves wave by wave: what gets slower may do so from the first on, what gets faster has by the last.
        at_s = promoting_s if slower else promoted_s
        if at_s is not None:
            pool.moves.setdefault(metric, []).append(Move(rollout.id, at_s, shifts))


def measured_shifts(evidence: Mapping[str, Any], metric: str) -> dict[float, int] | None:
    """By how many buckets the canary differed from the control, by quantile; None where the verdict has no figures."""
    judging = evidence.get("judging")
    of = judging.get("metrics") if isinstance(judging, Mapping) else None
    arms = of.get(metric) if isinstance(of, Mapping) else None
    if not isinstance(arms, Mapping):
        return None
    control, canary = arms.get("control"), arms.get("canary")
    if not isinstance(control, Mapping) or not isinstance(canary, Mapping):
        return None
    if min(control.get("count") or 0, canary.get("count") or 0) < LEAST_COUNT:
        return None
    pairs = {q: (control.get(name), canary.get(name)) for name, q in MEASURED.items()}
    found = {q: round(math.log(after / before, BASE)) for q, (before, after) in pairs.items() if before and after}
    return found or None
