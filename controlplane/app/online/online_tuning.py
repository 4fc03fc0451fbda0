"""Carries studies in production on: begins their steps as rollouts, and writes down what came of each.

Guarantees: a step's row, its revision and its rollout are one transaction, so wherever the service is killed there are
all of them or none; with several replicas a step begins once, for the study's row is locked and looked at anew. What is
under way when an incident opens, or the study is cancelled, goes back with the next tick. Agents are poked afterwards.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sqlmodel import Session

from controlplane import ledger
from controlplane.advice.pool_reading import PoolFiguresReader
from controlplane.app.online.first_ways import first_ways
from controlplane.app.online.online_look import OnlineLook, look_at
from controlplane.app.online.step_rollout import step_rollout
from controlplane.app.pool_limits import pool_limits
from controlplane.contract.bodies.rollouts import ENDED
from controlplane.contract.errors import TailwrightError
from controlplane.contract.planning.online_mode import OnlineStep, StepOutcome
from controlplane.contract.reports.declared_knobs import kept_config
from controlplane.db.database import Database
from controlplane.fleet import revisions
from controlplane.rollouts import steering
from controlplane.rollouts import store as rollouts
from controlplane.rollouts.judging.judging_plan import with_limits
from controlplane.rollouts.reach.reach_endpoints import ReachDesk
from controlplane.studies.online import step_store
from controlplane.studies.online.step_outcome import canary_s, ended_step, is_stranded
from controlplane.studies.online.walk import Direction, Over, TakeBack, Wait, Walk
from controlplane.telemetry import Span, TelemetryReader
from controlplane.telemetry.question import Free

logger = logging.getLogger(__name__)

BOUND_LATELY = timedelta(seconds=600)
"""What bound the steps of so long says which way to look first."""
AGAIN = timedelta(seconds=15)
"""A step that could not begin is tried again no sooner."""


class OnlineTuning:
    """One per service process; several replicas may run one each. `poke` tells the agents' hub to look again."""

    def __init__(self, database: Database, telemetry: TelemetryReader, poke: Callable[[], None]) -> None:
        self._database, self._telemetry, self._poke = database, telemetry, poke
        self._reach = ReachDesk(telemetry)
        self._refused_at: dict[int, datetime] = {}  # By study, when its pool could not take a step.

    def tick(self, now: datetime) -> None:
        """Carry every study in production one step on. One that fails is logged and does not stop the others."""
        with self._database.read_session() as session:
            found = step_store.to_be_stepped(session)
        for study_id in found:
            try:
                acted = self._tick_one(study_id, now)
            except Exception:
                logger.exception("study %d: this tick failed, the next one tries again", study_id)
                continue
            if acted:
                self._poke()

    def _tick_one(self, study_id: int, now: datetime) -> bool:
        """Whether agents have something new to run."""
        with self._database.read_session() as session:
            look = look_at(session, study_id, now)
            if not look.is_to_do:
                return False
        ways: Sequence[Direction] = ()
        if look.walk is not None and look.trial is None and look.decided is None:
            if now < self._refused_at.get(study_id, now - AGAIN) + AGAIN:
                return False
            ways = self._first_ways(look.row.pool, now)
        with self._database.session() as session:
            return self._act(session, look_at(session, study_id, now, lock=True), ways, now)

    def _first_ways(self, pool: str, now: datetime) -> list[Direction]:
        reader = PoolFiguresReader(self._telemetry, pool, Free())
        return first_ways(reader.limits(Span(now - BOUND_LATELY, now)))

    def _act(self, session: Session, look: OnlineLook, ways: Sequence[Direction], now: datetime) -> bool:
        row = look.row
        if look.rollout is not None and look.rollout.phase in ENDED:
            _end_step(session, look, now)
            return False
        if not look.is_open:
            return _take_back(session, look, f"study {row.id} is {row.state}", now)
        if look.walk is None:
            step_store.begin(session, row, now)
            return False
        match look.decided:
            case None:
                return self._begin_step(session, look, look.walk, ways, now)
            case TakeBack(why):
                return _take_back(session, look, why, now)
            case Over(why):
                step_store.finish(session, row, look.walk, why, now)
            case Wait():
                step_store.say(session, row, look.progress)
        return False

    def _begin_step(
        self, session: Session, look: OnlineLook, walk: Walk, ways: Sequence[Direction], now: datetime
    ) -> bool:
        row, move, number = look.row, walk.moves(ways)[0], len(walk.taken) + 1
        assert row.id is not None
        knobs = {**walk.centre, move.knob: move.value}
        step = OnlineStep(knob=move.knob, before=move.before, value=move.value)
        note = f"study {row.id}, step {number}: {step.title}"
        try:
            with session.begin_nested():
                made, _ = revisions.keep(session, kept_config(knobs), note=note, actor=ledger.SERVICE, now=now)
                spec = step_rollout(
                    look.spec, made.number, study_id=row.id, number=number, title=step.title, asked_by=row.created_by
                )
                spec = with_limits(spec, pool_limits(session, row.pool))
                self._reach.check(session, spec, now)
                begun = rollouts.create(session, spec, actor=ledger.SERVICE, now=now, validates=True)
                step = step.model_copy(update={"rollout_id": begun.id})
                step_store.keep_step(session, row, number, step, knobs, now)
        except TailwrightError as error:
            if error.detail.get("field") == "pool":  # Not now: nobody is there to be the canary, say.
                self._refused_at[row.id] = now
                step_store.say(session, row, f"waits: {error.message}")
                return False
            trial = step_store.keep_step(session, row, number, step, knobs, now)
            refused = step.model_copy(update={"outcome": StepOutcome.STOPPED, "message": error.message})
            step_store.end_step(session, row, trial, refused, now, objective_s=None)
            return False
        step_store.say(session, row, f"step {number}: {step.title}, rollout {begun.id} is {begun.phase.value}")
        return True


def _end_step(session: Session, look: OnlineLook, now: datetime) -> None:
    rollout, trial = look.rollout, look.trial
    assert rollout is not None and trial is not None
    step_store.end_step(session, look.row, trial, ended_step(look.step, rollout), now, objective_s=canary_s(rollout))
    if is_stranded(rollout) and look.is_open:
        step_store.fail(session, look.row, f"step {trial.number}: {rollout.message}", now)


def _take_back(session: Session, look: OnlineLook, why: str, now: datetime) -> bool:
    """Whether there was something to take back."""
    rollout, trial = look.rollout, look.trial
    if not look.goes_on or rollout is None or trial is None:
        return False
    steering.cancel(session, rollout.id, actor=ledger.SERVICE, now=now)
    subject = f"study/{look.row.id}" if look.incident is None else f"incident/{look.incident.id}"
    message = f"study {look.row.id}, step {trial.number} in production ({look.step.title}) is taken back: {why}"
    ledger.append(
        session,
        now,
        ledger.SERVICE,
        "study.step_taken_back",
        subject,
        message,
        rollout_id=rollout.id,
        pool=look.row.pool,
    )
    return True
