"""Rollouts that wait for somebody: held undecided, at a stage's pause or by a hook, or until another approves."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlmodel import Session

from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.fleet_wide.fleet_scope import that_matter
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Scope, Snapshot
from controlplane.contract.bodies.alerts import RolloutWaitsCondition
from controlplane.contract.bodies.rollouts import Rollout

APPROVAL = "it begins only when another than who proposed it has approved it"


class RolloutWaits(Kind[RolloutWaitsCondition]):
    condition = RolloutWaitsCondition
    scope = Scope.FLEET
    dry_run_step_s = None
    _waiting: Sequence[Rollout] = ()

    def read(self, session: Session, conditions: Sequence[RolloutWaitsCondition], now: datetime) -> None:
        """Those that wait now."""
        if conditions and self._sources.rollouts is not None:
            self._waiting = self._sources.rollouts(session)

    def judge(self, job: Job[RolloutWaitsCondition], seen: Snapshot, end: datetime) -> Findings:
        waiting = [one for one in self._waiting if job.rule.pool in (None, one.spec.pool)]
        return Findings(that_matter(job, [_finding(job.condition, one, end) for one in waiting], end))


def waits_since(rollout: Rollout) -> datetime:
    """Since when, of one that waits."""
    return rollout.held_since or rollout.started_at or rollout.created_at


def _finding(condition: RolloutWaitsCondition, rollout: Rollout, now: datetime) -> Finding:
    labels = {"kind": condition.kind, "pool": rollout.spec.pool, "rollout": str(rollout.id)}
    since = waits_since(rollout)
    if now - since < timedelta(seconds=condition.after_s):
        return Finding(labels, now, Reading.CLEAR)
    why = rollout.held or APPROVAL
    return Finding(
        labels,
        now,
        Reading.BREACH,
        since=since,
        summary=f"rollout {rollout.id} of revision {rollout.spec.revision} to pool {rollout.spec.pool} waits: {why}",
        evidence={
            "rollout": rollout.id,
            "revision": rollout.spec.revision,
            "phase": rollout.phase.value,
            "waits_since": since.isoformat(),
            "why": why,
            "next": rollout.next,
            "told_nodes": rollout.told_nodes,
            "created_by": rollout.created_by,
            "error_rate": {"statement": "told by the rollout itself: no statistics, no chance involved"},
        },
    )
