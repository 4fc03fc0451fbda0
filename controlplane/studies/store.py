"""Studies in the database, inside the caller's transaction.

Guarantee: a queued study is claimed by one worker only, and a pool has one running study at most, on SQLite and on
PostgreSQL with several replicas: the claim is one conditional UPDATE under a unique constraint.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from types import MappingProxyType

from sqlalchemy import func, literal, update
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.contract.bodies.studies import (
    FINALIST,
    Study,
    StudyCreate,
    StudyFinish,
    StudyHeartbeat,
    StudyState,
)
from controlplane.contract.errors import BadRequest, Conflict
from controlplane.contract.row_id import MAX_ID
from controlplane.db.column_types import UtcDateTime
from controlplane.db.rows import existing, newest
from controlplane.fleet import store as fleet
from controlplane.studies import machine
from controlplane.studies.tables import StudyRow, TrialRow
from controlplane.studies.view import study_view


def create(session: Session, spec: StudyCreate, *, actor: str, now: datetime, alert_id: int | None = None) -> Study:
    """Queue a study whose spec has been checked (`checks.check_study`)."""
    row = StudyRow(
        state=StudyState.QUEUED.value,
        pool=spec.pool,
        online=spec.online is not None,
        spec=spec.model_dump(mode="json"),
        created_by=actor,
        created_at=now,
        alert_id=alert_id,
        progress="waits for a worker" if spec.online is None else "waits for its first step",
    )
    session.add(row)
    session.flush()
    because = f": {spec.reason}" if spec.reason else ""
    record(session, row, "created", now, actor, f"study of pool {spec.pool} queued{because}", alert_id=alert_id)
    return _view(session, row)


def get(session: Session, study_id: int) -> Study:
    return _view(session, study_row(session, study_id))


def active(session: Session, pool: str) -> Study | None:
    """The oldest study of a pool that is queued or running, if any; one in production pauses while an alert fires."""
    query = (
        select(StudyRow)
        .where(StudyRow.pool == pool, col(StudyRow.state).in_([StudyState.QUEUED.value, StudyState.RUNNING.value]))
        .where(col(StudyRow.online).is_(False))
        .order_by(col(StudyRow.id))
        .limit(1)
    )
    row = session.exec(query).first()
    return None if row is None else _view(session, row)


def listing(
    session: Session, *, before_id: int | None, limit: int, pool: str | None = None, state: StudyState | None = None
) -> list[Study]:
    """Newest first."""
    query = newest(StudyRow, before_id, limit)
    if pool is not None:
        query = query.where(StudyRow.pool == pool)
    if state is not None:
        query = query.where(StudyRow.state == state.value)
    return [_view(session, row) for row in session.exec(query)]


def claim(
    session: Session,
    worker: str,
    now: datetime,
    *,
    evaluations: Collection[str] | None = None,
    busy: Mapping[str, str] = MappingProxyType({}),
) -> Study | None:
    """Give the oldest queued study, of a pool that has none running, to a worker. None when there is none.

    `evaluations`: those that the worker has; None: it does not say. A study that names another stays queued and says
    so; later ones of its pool may go before it.

    `busy`: pools that are not at rest, and what is going on there. Their studies stay queued and say so: what a canary
    runs is not the pool's configuration, and what a study measures then would be compared with nothing that lasts.
    """
    expire_leases(session, now)
    running = select(StudyRow.running_pool).where(col(StudyRow.running_pool).is_not(None))
    query = (
        select(StudyRow.id, StudyRow.pool, col(StudyRow.spec)["evaluation"].as_string())
        .where(StudyRow.state == StudyState.QUEUED.value, col(StudyRow.pool).not_in(running))
        .where(col(StudyRow.online).is_(False))
        .order_by(col(StudyRow.id))
    )
    passed: set[str] = set()
    for study_id, pool, evaluation in session.exec(query).all():
        if pool in passed:
            continue
        if pool in busy:
            _wait_for(session, study_id, f"the end of {busy[pool]}")
            continue
        if evaluation and evaluations is not None and evaluation not in evaluations:
            mend = f"start one with --evaluation {evaluation}=COMMAND"
            _wait_for(session, study_id, f"a worker that has the evaluation {evaluation}; where there is none, {mend}")
            continue
        take = (
            update(StudyRow)
            .where(col(StudyRow.id) == study_id, col(StudyRow.state) == StudyState.QUEUED.value)
            .values(
                state=StudyState.RUNNING.value,
                running_pool=pool,
                worker=worker,
                heard_at=now,
                attempt=StudyRow.attempt + 1,
                trial_node=None,
                progress="claimed",
                # One that goes on with another worker is still of the traffic and the revision that it began with.
                started_at=func.coalesce(StudyRow.started_at, literal(now, UtcDateTime)),
                default_revision=func.coalesce(StudyRow.default_revision, fleet.pool_revision(session, pool)),
            )
            .execution_options(synchronize_session=False)
        )
        try:
            with session.begin_nested():
                taken = session.connection().execute(take).rowcount == 1
        except IntegrityError:  # Another replica has just begun another study of this pool.
            taken = False
        if not taken:
            passed.add(pool)
            continue
        assert study_id is not None
        row = session.get_one(StudyRow, study_id)
        session.refresh(row)
        evidence = {"attempt": row.attempt, "default_revision": row.default_revision}
        record(session, row, "claimed", now, worker, f"claimed by worker {worker}", **evidence)
        return _view(session, row)
    return None


def _wait_for(session: Session, study_id: int | None, what: str) -> None:
    progress = f"waits for {what}"
    session.connection().execute(
        update(StudyRow)
        .where(col(StudyRow.id) == study_id, col(StudyRow.state) == StudyState.QUEUED.value)
        .where(col(StudyRow.progress) != progress)
        .values(progress=progress)
        .execution_options(synchronize_session=False)
    )


def heartbeat(session: Session, study_id: int, beat: StudyHeartbeat, now: datetime) -> Study:
    """Extend the lease. Raises `Conflict` when the study is no longer this worker's."""
    row = held_study(session, study_id, beat.worker)
    if row.trial_node is not None and row.heard_at is not None:
        row.active_s += max(0.0, (now - row.heard_at).total_seconds())
    row.heard_at = now
    if beat.progress:
        row.progress = beat.progress
    if beat.trial_node is not None:
        row.trial_node = beat.trial_node
    if beat.workload_summary is not None:
        row.workload_summary = beat.workload_summary
    session.add(row)
    return _view(session, row)


def finish(session: Session, study_id: int, outcome: StudyFinish, now: datetime) -> Study:
    """End a study with its result or its error. A repeated identical outcome is accepted as the first one was."""
    if (outcome.result is None) == (not outcome.error):
        raise BadRequest("result: give exactly one of result and error", field="result")
    if outcome.rollout_id is not None and not 1 <= outcome.rollout_id <= MAX_ID:
        raise BadRequest(f"rollout_id: no rollout {outcome.rollout_id}", field="rollout_id")
    row = study_row(session, study_id, lock=True)
    result = None if outcome.result is None else outcome.result.model_dump(mode="json")
    wanted = StudyState.FAILED if outcome.result is None else StudyState.FINISHED
    said, kept = (result, outcome.error, outcome.rollout_id), (row.result, row.error, row.rollout_id)
    if row.state == wanted.value and row.worker == outcome.worker and said == kept:
        return _view(session, row)
    row = held_study(session, study_id, outcome.worker)
    row.state = machine.move(StudyState(row.state), wanted).value
    row.running_pool = None
    row.finished_at = now
    _forget_samples(session, row.id)
    row.result = result
    row.error = outcome.error
    row.rollout_id = outcome.rollout_id
    row.progress = ""
    session.add(row)
    if outcome.result is None:
        record(session, row, "failed", now, outcome.worker, outcome.error)
    else:
        found = outcome.result
        record(
            session,
            row,
            "finished",
            now,
            outcome.worker,
            found.summary,
            verdict=found.verdict.value,
            improvement=found.improvement,
            interval=found.interval,
            repeats=found.repeats,
            winner=found.winner,
            rollout_id=outcome.rollout_id,
            pool=row.pool,
            default_revision=row.default_revision,
            pool_revision=fleet.pool_revision(session, row.pool),
        )
    return _view(session, row)


def cancel(session: Session, study_id: int, *, actor: str, now: datetime) -> Study:
    """End a queued or running study; its worker learns it from its next heartbeat, and a step in production is taken
    back with the next tick."""
    row = study_row(session, study_id, lock=True)
    row.state = machine.move(StudyState(row.state), StudyState.CANCELLED).value
    row.running_pool = None
    row.finished_at = now
    _forget_samples(session, row.id)
    row.progress = ""
    session.add(row)
    record(session, row, "cancelled", now, actor, f"cancelled by {actor}")
    return _view(session, row)


def expire_leases(session: Session, now: datetime) -> int:
    """Put the studies of silent workers back into the queue, or fail them after too many. Returns how many."""
    query = (
        select(StudyRow)
        .where(StudyRow.state == StudyState.RUNNING.value, col(StudyRow.heard_at) < machine.lease_deadline(now))
        .order_by(col(StudyRow.id))
        .with_for_update(skip_locked=True)
        .execution_options(populate_existing=True)
    )
    expired = list(session.exec(query))
    for row in expired:
        silent = f"worker {row.worker} has not been heard of for {machine.LEASE_S:.0f} s"
        row.state = machine.move(StudyState.RUNNING, machine.after_lost_lease(row.attempt)).value
        row.running_pool = None
        if row.state == StudyState.FAILED.value:
            row.finished_at = now
            row.error = f"{silent}, the {row.attempt}th time: given up"
            row.progress = ""
            record(session, row, "failed", now, ledger.SERVICE, row.error, attempt=row.attempt)
        else:
            row.progress = "waits for a worker again"
            message = f"{silent}: back into the queue"
            record(session, row, "requeued", now, ledger.SERVICE, message, attempt=row.attempt)
            row.worker = None
        session.add(row)
    session.flush()
    return len(expired)


def _forget_samples(session: Session, study_id: int | None) -> None:
    """Single values are of use while a study may still go on."""
    ran = select(TrialRow).where(TrialRow.study_id == study_id, TrialRow.kind == FINALIST)
    for trial in session.exec(ran.where(col(TrialRow.reported_at).is_not(None))):
        trial.report = {**(trial.report or {}), "samples": {}}
        session.add(trial)


def _view(session: Session, row: StudyRow) -> Study:
    measured = (col(TrialRow.study_id) == row.id, col(TrialRow.reported_at).is_not(None))
    counting = select(func.count(), func.count().filter(col(TrialRow.kind) == FINALIST)).where(*measured)
    runs, finalist_runs = session.exec(counting).one()
    in_production = fleet.pool_revision(session, row.pool)
    return study_view(row, runs=runs, finalist_runs=finalist_runs, pool_revision=in_production)


def study_row(session: Session, study_id: int, *, lock: bool = False) -> StudyRow:
    return existing(session, StudyRow, study_id, "study", field="study_id", lock=lock)


def held_study(session: Session, study_id: int, worker: str) -> StudyRow:
    """The row of a study that this worker holds, locked. Raises `Conflict`."""
    row = study_row(session, study_id, lock=True)
    if row.state != StudyState.RUNNING.value:
        raise Conflict(f"study {study_id} is {row.state}, not running", field="state", state=row.state)
    if row.worker != worker:
        raise Conflict(f"worker: study {study_id} is held by {row.worker!r}, not by {worker!r}", field="worker")
    return row


def record(
    session: Session, row: StudyRow, verb: str, now: datetime, actor: str, message: str, **evidence: object
) -> None:
    ledger.append(session, now, actor, f"study.{verb}", f"study/{row.id}", message, **evidence)
