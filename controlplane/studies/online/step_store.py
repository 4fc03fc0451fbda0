"""Studies in production and their steps in the database, inside the caller's transaction.

Guarantee: a step's number is given once (a unique column beside its study's), and its row is written in the transaction
that makes its rollout: of both there is one, wherever the service was killed and however many replicas step.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import or_
from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.contract.bodies.studies import STEP, StudyResult, StudyState, StudyVerdict, TrialState
from controlplane.contract.planning.online_mode import TAKEN_BACK, OnlineStep, StepOutcome
from controlplane.fleet import store as fleet
from controlplane.studies import machine
from controlplane.studies.online.walk import Move, Taken, Walk
from controlplane.studies.store import record
from controlplane.studies.tables import StudyRow, TrialRow

OPEN = (StudyState.QUEUED.value, StudyState.RUNNING.value)


def to_be_stepped(session: Session) -> list[int]:
    """Ids of studies in production that are open, of each pool the oldest; and those that were ended over a step."""
    unended = select(TrialRow.study_id).where(TrialRow.kind == STEP, col(TrialRow.reported_at).is_(None))
    query = (
        select(StudyRow.id, StudyRow.pool, StudyRow.state)
        .where(col(StudyRow.online), or_(col(StudyRow.state).in_(OPEN), col(StudyRow.id).in_(unended)))
        .order_by(col(StudyRow.id))
    )
    found: list[int] = []
    pools: set[str] = set()
    for study_id, pool, state in session.exec(query):
        if state in OPEN and pool in pools:
            continue
        if state in OPEN:
            pools.add(pool)
        found.append(study_id or 0)
    return found


def measured_beside(session: Session, pool: str) -> int | None:
    """The study that measures the pool's traffic on a trial node now, which wants what it is compared with to stay."""
    return session.exec(select(StudyRow.id).where(StudyRow.running_pool == pool)).first()


def steps_of(session: Session, study_id: int) -> list[TrialRow]:
    """In their order."""
    query = select(TrialRow).where(TrialRow.study_id == study_id).order_by(col(TrialRow.number))
    return list(session.exec(query.execution_options(populate_existing=True)))


def taken(steps: list[TrialRow]) -> list[Taken]:
    """Those that have ended."""
    ended = [OnlineStep.model_validate(row.step) for row in steps if row.reported_at is not None]
    return [Taken(Move(one.knob, one.before, one.value), one.outcome) for one in ended if one.outcome is not None]


def begin(session: Session, row: StudyRow, now: datetime) -> bool:
    """Whether its first step may be looked for: its pool has a revision to begin with."""
    row.default_revision = fleet.pool_revision(session, row.pool)
    if row.default_revision is None:
        say(session, row, f"waits until pool {row.pool} has a revision in production")
        return False
    row.state = machine.move(StudyState(row.state), StudyState.RUNNING).value
    row.started_at = now
    message = f"careful tuning of pool {row.pool} in production begins with revision {row.default_revision}"
    record(session, row, "started", now, ledger.SERVICE, message, default_revision=row.default_revision)
    return True


def say(session: Session, row: StudyRow, progress: str) -> None:
    """How far it is, for people."""
    row.progress = progress
    session.add(row)


def keep_step(
    session: Session, row: StudyRow, number: int, step: OnlineStep, knobs: dict[str, Any], now: datetime
) -> TrialRow:
    """Write down a step with the rollout that it is."""
    assert row.id is not None
    trial = TrialRow(
        study_id=row.id, number=number, kind=STEP, knobs=knobs, order={}, step=step.model_dump(mode="json")
    )
    session.add(trial)
    session.flush()
    _note(session, row, "step", f"step {number}: {step.title}", step, now)
    return trial


def end_step(
    session: Session, row: StudyRow, trial: TrialRow, step: OnlineStep, now: datetime, *, objective_s: float | None
) -> None:
    """Write down what came of a step."""
    trial.step, trial.reported_at = step.model_dump(mode="json"), now
    trial.report = {
        "number": trial.number,
        "kind": STEP,
        "knobs": trial.knobs,
        "state": (TrialState.FAILED if step.rollout_id is None else TrialState.COMPLETE).value,
        "feasible": step.outcome not in TAKEN_BACK,
        "objective_s": objective_s,
        "error": step.message if step.rollout_id is None else "",
    }
    session.add(trial)
    session.flush()
    _note(session, row, "step_ended", f"step {trial.number}, {step.title}: {_words(step.outcome)}", step, now)


def fail(session: Session, row: StudyRow, why: str, now: datetime) -> None:
    """End it without a result."""
    _end(session, row, StudyState.FAILED, now)
    row.error = why
    record(session, row, "failed", now, ledger.SERVICE, why)


def finish(session: Session, row: StudyRow, walk: Walk, why: str, now: datetime) -> None:
    """End it with what it has found; why: in words."""
    _end(session, row, StudyState.FINISHED, now)
    steps = [OnlineStep.model_validate(one.step) for one in steps_of(session, row.id or 0)]
    better = [step for step in steps if step.outcome is StepOutcome.BETTER]
    row.rollout_id = better[-1].rollout_id if better else None
    result = StudyResult(
        verdict=StudyVerdict.BETTER if better else StudyVerdict.NOT_BETTER,
        winner=walk.centre if better else None,
        default=dict(walk.start),
        default_revision=row.default_revision,
        design=STEP,
        summary=summary_of(walk, why),
    )
    row.result = result.model_dump(mode="json")
    record(
        session,
        row,
        "finished",
        now,
        ledger.SERVICE,
        result.summary,
        verdict=result.verdict.value,
        winner=result.winner,
        rollout_id=row.rollout_id,
        pool=row.pool,
        default_revision=row.default_revision,
        pool_revision=fleet.pool_revision(session, row.pool),
    )


def summary_of(walk: Walk, why: str) -> str:
    """What was found, in two sentences."""
    steps, better = len(walk.taken), sum(one.outcome is StepOutcome.BETTER for one in walk.taken)
    back = f", {walk.taken_back} went back for harm or doubt" if walk.taken_back else ""
    ended = f"It has ended: {why}."
    if not better:
        return f"Keep what runs now: none of {steps} steps was better{back}. {ended}"
    moved = {knob: (walk.start[knob], value) for knob, value in walk.centre.items() if value != walk.start[knob]}
    told = ", ".join(f"{knob} from {before} to {value}" for knob, (before, value) in moved.items())
    return f"{better} of {steps} steps were better{back}: the pool runs {told or 'what it began with'}. {ended}"


def _note(session: Session, row: StudyRow, verb: str, message: str, step: OnlineStep, now: datetime) -> None:
    record(session, row, verb, now, ledger.SERVICE, message, pool=row.pool, step=step.model_dump(mode="json"))


def _words(outcome: StepOutcome | None) -> str:
    told = {
        StepOutcome.BETTER: "better, so it stays",
        StepOutcome.SAFE: "not worse, but not better, so it went back",
        StepOutcome.WORSE: "worse, so it went back",
        StepOutcome.INCONCLUSIVE: "undecided, so it went back",
        StepOutcome.STOPPED: "stopped, so it went back",
    }
    return "under way" if outcome is None else told[outcome]


def _end(session: Session, row: StudyRow, state: StudyState, now: datetime) -> None:
    row.state = machine.move(StudyState(row.state), state).value
    row.finished_at, row.progress = now, ""
    session.add(row)
