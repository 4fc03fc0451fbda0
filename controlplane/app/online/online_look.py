"""A study in production and all that a decision about it rests on, read in one transaction."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlmodel import Session

from controlplane.app.online.permission import wants_approval
from controlplane.app.remedies import not_at_rest
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.bodies.rollouts import ENDED, Rollout, RolloutPhase
from controlplane.contract.bodies.studies import StudyCreate, StudyState
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import canonical_json
from controlplane.contract.on_call.incidents import Incident
from controlplane.contract.planning.online_mode import OnlineStep
from controlplane.fleet import store as fleet
from controlplane.incidents import store as incidents
from controlplane.rollouts import store as rollouts
from controlplane.rollouts.policies import store as policies
from controlplane.studies.online import step_store
from controlplane.studies.online.live_knobs import bounds_of, held_to
from controlplane.studies.online.walk import Over, Seen, TakeBack, Wait, Walk
from controlplane.studies.store import study_row
from controlplane.studies.tables import StudyRow, TrialRow

BETWEEN = timedelta(seconds=15)
"""Between a step and the next, so that another study or a person's rollout finds the pool at rest."""


@dataclass
class OnlineLook:
    """trial: the step under way, and rollout what it is; walk, seen: None before the study has begun, or once it has
    ended."""

    row: StudyRow
    spec: StudyCreate
    trial: TrialRow | None = None
    rollout: Rollout | None = None
    walk: Walk | None = None
    seen: Seen | None = None
    incident: Incident | None = None

    @property
    def is_open(self) -> bool:
        """Whether the study has not ended."""
        return StudyState(self.row.state) in (StudyState.QUEUED, StudyState.RUNNING)

    @property
    def step(self) -> OnlineStep:
        """What is under way."""
        assert self.trial is not None
        return OnlineStep.model_validate(self.trial.step)

    @property
    def goes_on(self) -> bool:
        """Whether the step under way could still be taken back."""
        return self.rollout is not None and self.rollout.phase not in ENDED | {RolloutPhase.ROLLING_BACK}

    @property
    def progress(self) -> str:
        """How far it is while it waits, for people."""
        if self.trial is not None:
            phase = "" if self.rollout is None else f", rollout {self.rollout.id} is {self.rollout.phase.value}"
            return f"step {self.trial.number}: {self.step.title}{phase.replace('_', ' ')}"
        decided = self.decided
        return f"waits: {decided.why}" if isinstance(decided, Wait) else self.row.progress

    @property
    def decided(self) -> Wait | TakeBack | Over | None:
        """What the walk says; None: a step is to begin."""
        assert self.walk is not None and self.seen is not None
        return self.walk.advance(self.seen)

    @property
    def is_to_do(self) -> bool:
        """Whether anything is to be written."""
        if self.rollout is not None and self.rollout.phase in ENDED:
            return True
        if not self.is_open:
            return self.goes_on
        if self.walk is None:
            return True
        match self.decided:
            case Wait():
                return self.progress != self.row.progress
            case TakeBack():
                return self.goes_on
        return True


def look_at(session: Session, study_id: int, now: datetime, *, lock: bool = False) -> OnlineLook:
    row = study_row(session, study_id, lock=lock)
    steps = step_store.steps_of(session, study_id)
    look = OnlineLook(row, StudyCreate.model_validate(row.spec))
    look.trial = next((one for one in steps if one.reported_at is None), None)
    if look.trial is not None and look.step.rollout_id is not None:
        look.rollout = rollouts.get(session, look.step.rollout_id)
    if row.state != StudyState.RUNNING.value:
        return look
    assert row.default_revision is not None and row.started_at is not None  # As it has begun.
    bounds, cannot = held_to(look.spec), None
    if look.trial is None:  # Else nothing is looked for.
        try:
            bounds = bounds_of(look.spec, fleet.nodes(session, pool=row.pool, role=NodeRole.SERVING))
        except BadRequest as error:  # Nodes have come that cannot change live.
            cannot = error.message
    start = fleet.revision(session, row.default_revision).knobs.knobs()
    look.walk = Walk(start, bounds, step_store.taken(steps))
    found = incidents.incidents(session, before_id=None, limit=1, now=now, pool=row.pool, is_open=True)
    look.incident = found[0] if found else None
    ended = [one.reported_at for one in steps if one.reported_at is not None]
    look.seen = Seen(
        under_way=look.trial is not None,
        age_s=(now - row.started_at).total_seconds(),
        moved=None if look.trial is not None else _moved(session, row.pool, look.walk),
        incident=None if look.incident is None else f"incident {look.incident.id} of pool {row.pool} is open",
        closed=cannot or _closed(session, look.spec, now),
        busy=None if look.trial is not None else _busy(session, row.pool, max(ended, default=None), now),
    )
    return look


def _moved(session: Session, pool: str, walk: Walk) -> str | None:
    """Why what was proven is not what runs any more."""
    number = fleet.pool_revision(session, pool)
    if number is None:
        return f"pool {pool} has no revision in production any more"
    runs = fleet.revision(session, number).knobs.knobs()
    if canonical_json(runs) == canonical_json(walk.centre):
        return None
    return f"somebody else has put revision {number} in production in pool {pool}"


def _closed(session: Session, spec: StudyCreate, now: datetime) -> str | None:
    hours = None if spec.online is None else spec.online.hours
    if hours is not None and not hours.is_open(now):
        days = ", ".join(day.value for day in hours.days)
        return f"steps begin {days} from {hours.opens} to {hours.closes} ({hours.zone}) only"
    return policies.closed(session, spec.pool, now) or wants_approval(session, spec.pool)


def _busy(session: Session, pool: str, ended_at: datetime | None, now: datetime) -> str | None:
    beside = step_store.measured_beside(session, pool)
    what = f"study {beside} on a trial node" if beside is not None else not_at_rest(session, now).get(pool)
    if what is not None:
        return f"for the end of {what}"
    if ended_at is not None and now < ended_at + BETWEEN:
        return f"for {BETWEEN.seconds} s after the step before"
    return None
