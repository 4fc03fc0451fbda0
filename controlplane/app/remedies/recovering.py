"""Pools that have just got their good revision back: a study of theirs waits until the alert is over, or has had time.

What waited under the bad configuration ends for some time yet. A study that began at once would capture that backlog
as the pool's traffic, and where the trial node shares a host with those that serve, its replays would add to it.
"""

from datetime import datetime, timedelta

from sqlmodel import Session

from controlplane.alerts import store as alerts
from controlplane.contract.bodies.remedies import RemedyAction
from controlplane.contract.bodies.rollouts import Rollout, RolloutPhase
from controlplane.rollouts import store as rollouts

SETTLE = timedelta(seconds=60)
"""An alert that lasts for longer after a take-back has another cause, which a study may find a way round."""


def not_at_rest(session: Session, now: datetime) -> dict[str, str]:
    """Pools whose studies wait, and for the end of what: a rollout, or an alert whose cause was taken back just now."""
    return recovering(session, now) | rollouts.busy_pools(session)


def recovering(session: Session, now: datetime) -> dict[str, str]:
    """Pools with a firing alert whose take-back was promoted within `SETTLE`, and which alert that is."""
    taken: dict[tuple[int, int | None], int] = {}  # Rollout and what it takes back; many alerts name the same ones.
    for alert_id, steps in alerts.steps_of_firing(session).items():
        for step in steps:
            if step.action is RemedyAction.ROLL_BACK and step.rollout_id is not None:
                taken[step.rollout_id, step.revision] = alert_id
    found: dict[str, str] = {}
    for (rollout_id, revision), alert_id in taken.items():
        rollout = rollouts.get(session, rollout_id)
        if _has_just_taken_back(rollout, revision, now):
            what = f"alert {alert_id}, whose cause rollout {rollout.id} took back"
            found[rollout.spec.pool] = f"{what}, or for {SETTLE.seconds} s"
    return found


def _has_just_taken_back(rollout: Rollout, revision: int | None, now: datetime) -> bool:
    done = rollout.phase is RolloutPhase.PROMOTED and rollout.spec.takes_back == revision
    return done and rollout.ended_at is not None and now < rollout.ended_at + SETTLE
