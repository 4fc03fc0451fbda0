"""Trial nodes held for studies and trials taken under them, in the database, inside the caller's transaction.

Guarantee: on SQLite and on PostgreSQL with several replicas a node is held for one study at a time (a unique column),
and a study's trials are taken and reported one after another (its row is locked); what may be is `trial_lease`'s.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.contract.bodies.studies import MEASURED, StudyState, Trial, TrialReport, TrialState
from controlplane.contract.errors import BadRequest, Conflict, NotFound
from controlplane.contract.planning.trial_leases import NodeWanted, StudyPlan, TrialLease, TrialWanted
from controlplane.contract.row_id import MAX_ID
from controlplane.db.rows import existing, newest
from controlplane.studies import machine, trial_lease
from controlplane.studies.store import held_study, study_row
from controlplane.studies.tables import StudyPlanRow, StudyRow, TrialLeaseRow, TrialRow
from controlplane.studies.trial_lease import Hold, Refusal, Taking, Task
from controlplane.studies.view import trial_view


@dataclass(frozen=True)
class Late:
    """A report that does not count."""

    why: Refusal
    message: str


def keep_plan(session: Session, study_id: int, worker: str, plan: StudyPlan) -> StudyPlan:
    """Keep the plan of a study that this worker holds, unless there is one; the one that is kept."""
    held_study(session, study_id, worker)
    if session.get(StudyPlanRow, study_id) is None:
        session.add(StudyPlanRow(study_id=study_id, plan=plan.model_dump(mode="json")))
        session.flush()
    return plan_of(session, study_id)


def plan_of(session: Session, study_id: int) -> StudyPlan:
    """Raises `NotFound` while there is none."""
    found = session.get(StudyPlanRow, study_id)
    if found is None:
        raise NotFound(f"study {study_id} has no plan yet: its worker has not captured the traffic", field="study_id")
    return StudyPlan.model_validate(found.plan)


def take_node(session: Session, study_id: int, wanted: NodeWanted, now: datetime) -> TrialLease:
    """Hold a trial node. Asked again by who holds it for this study: a new lease in place of that one, which may be of
    a process that was killed. Raises `Conflict`.
    """
    study = study_row(session, study_id, lock=True)
    _open(study)
    expire(session, now)
    held = session.exec(select(TrialLeaseRow).where(TrialLeaseRow.held_node == wanted.node)).first()
    if held is not None:
        if (held.study_id, held.worker) != (study_id, wanted.worker):
            raise Conflict(f"node: {wanted.node} is held for study {held.study_id} by {held.worker!r}", field="node")
        held.held_node, held.ended_at = None, now
        session.add(held)
        session.flush()
    row = TrialLeaseRow(
        study_id=study_id, worker=wanted.worker, node=wanted.node, held_node=wanted.node, taken_at=now, heard_at=now
    )
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:  # Another replica has just given it to somebody else.
        raise Conflict(f"node: {wanted.node} has just been taken", field="node") from None
    return _view(row, study)


def renew(session: Session, study_id: int, token: int, now: datetime) -> TrialLease:
    """Raises `Conflict` when the lease has ended. Also while the study has: its worker still tidies the node."""
    row, study = _lease(session, study_id, token)
    if not _hold(row).holds(now):
        raise Conflict(f"token: lease {token} has ended", field="token")
    row.heard_at = now
    session.add(row)
    return _view(row, study)


def release(session: Session, study_id: int, token: int, now: datetime) -> TrialLease:
    """The node is free; a trial that was not reported waits for the next worker. Of an ended lease: nothing happens."""
    row, study = _lease(session, study_id, token)
    if row.held_node is not None:
        row.held_node, row.ended_at = None, now
        session.add(row)
    return _view(row, study)


def take_trial(session: Session, study_id: int, token: int, wanted: TrialWanted, now: datetime) -> Trial:
    """Measure a trial on the node of this lease. Raises `Conflict`: the lease or the study has ended, or the trial is
    another's.
    """
    if wanted.number > MAX_ID:
        raise BadRequest(f"number: at most {MAX_ID}, got {wanted.number}", field="number")
    lease, study = _lease(session, study_id, token)
    _open(study)
    row = _trial(session, study_id, wanted.number)
    count = session.exec(select(func.count()).select_from(TrialRow).where(TrialRow.study_id == study_id)).one()
    how = trial_lease.taking(wanted.number, _task(session, row), _hold(lease), count, now)
    if how is Taking.NEW:
        row = TrialRow(
            study_id=study_id,
            number=wanted.number,
            kind=wanted.kind,
            knobs=wanted.knobs,
            order=wanted.order.model_dump(mode="json"),
            lease_id=token,
        )
    assert row is not None
    if how is Taking.OVER:
        row.lease_id, row.takings = token, row.takings + 1
    lease.number, lease.heard_at = wanted.number, now
    session.add_all([lease, row])
    session.flush()
    return trial_view(row, lease)


def report_trial(session: Session, study_id: int, token: int, report: TrialReport, now: datetime) -> Trial | Late:
    """Keep what a trial came to. The same content again is the same trial; other content is a `Conflict`."""
    lease, study = _lease(session, study_id, token)
    if report.state not in MEASURED:
        raise BadRequest(f"state: complete or failed, not {report.state.value}", field="state")
    row = _trial(session, study_id, report.number)
    content = report.model_dump(mode="json")
    if row is not None and row.report is not None and row.lease_id == token:
        if row.report != content:
            raise Conflict(
                f"number: trial {report.number} of study {study_id} was reported before with other content",
                field="number",
            )
        return trial_view(row, lease)
    ended = StudyState(study.state) in machine.ENDED
    why = trial_lease.refusal(_task(session, row), _hold(lease), study_ended=ended, now=now)
    if why is not None:
        words = {
            Refusal.LEASE_ENDED: f"token: lease {token} had ended: trial {report.number} is not counted",
            Refusal.STUDY_ENDED: f"study {study_id} is {study.state}: trial {report.number} is not counted",
            Refusal.NOT_TAKEN: f"number: trial {report.number} was not taken under lease {token}",
        }
        return Late(why, words[why])
    assert row is not None
    if (row.kind, row.knobs) != (report.kind, report.knobs):
        raise BadRequest(f"knobs: trial {report.number} was taken with other knobs or another kind", field="knobs")
    row.report, row.reported_at = content, now
    lease.number, lease.heard_at = None, now
    study.attempt = 0
    session.add_all([row, lease, study])
    session.flush()
    return trial_view(row, lease)


def trials(session: Session, study_id: int, *, before_id: int | None, limit: int, samples: bool = False) -> list[Trial]:
    """Newest first; of a study that has ended those that were measured."""
    study = study_row(session, study_id)
    query = newest(TrialRow, before_id, limit).where(TrialRow.study_id == study_id)
    if StudyState(study.state) in machine.ENDED:
        query = query.where(col(TrialRow.reported_at).is_not(None))
    rows = list(session.exec(query))
    held = select(TrialLeaseRow).where(col(TrialLeaseRow.id).in_({row.lease_id for row in rows}))
    leases = {lease.id: lease for lease in session.exec(held)}
    return [trial_view(row, leases.get(row.lease_id), samples=samples) for row in rows]


def expire(session: Session, now: datetime) -> int:
    """End the leases of silent workers; their trials wait for others, or are given up. Returns how many."""
    query = (
        select(TrialLeaseRow)
        .where(col(TrialLeaseRow.held_node).is_not(None), col(TrialLeaseRow.heard_at) < machine.lease_deadline(now))
        .order_by(col(TrialLeaseRow.id))
        .with_for_update(skip_locked=True)
        .execution_options(populate_existing=True)
    )
    lost = list(session.exec(query))
    for lease in lost:
        lease.held_node, lease.ended_at = None, now
        session.add(lease)
        row = None if lease.number is None else _trial(session, lease.study_id, lease.number)
        silent = f"worker {lease.worker} on {lease.node} has not been heard of for {machine.LEASE_S:.0f} s"
        if row is None or row.report is not None or row.lease_id != lease.id:
            continue
        if trial_lease.is_given_up(row.takings):
            _give_up(row, f"{silent}, the {row.takings}th with this trial: given up", now)
            session.add(row)
        evidence = {"node": lease.node, "token": lease.id, "takings": row.takings}
        what = f"trial {row.number}: " + ("given up" if row.report is not None else "waits for the next worker")
        message = f"{silent}; {what}"
        kind = "study.trial_lost"
        ledger.append(session, now, ledger.SERVICE, kind, f"study/{lease.study_id}", message, **evidence)
    session.flush()
    return len(lost)


def _give_up(row: TrialRow, why: str, now: datetime) -> None:
    report = TrialReport(number=row.number, kind=row.kind, knobs=row.knobs, state=TrialState.FAILED, error=why)
    row.report, row.reported_at = report.model_dump(mode="json"), now


def _open(study: StudyRow) -> None:
    if StudyState(study.state) in machine.ENDED:
        raise Conflict(f"study {study.id} is {study.state}", field="state", state=study.state)
    if study.online:
        raise Conflict(f"study {study.id} is in production (online): it has no trial node", field="study_id")


def _lease(session: Session, study_id: int, token: int) -> tuple[TrialLeaseRow, StudyRow]:
    """Both locked, the study first. Raises `NotFound`."""
    study = study_row(session, study_id, lock=True)
    row = existing(session, TrialLeaseRow, token, "lease", field="token", lock=True)
    if row.study_id != study_id:
        raise NotFound(f"study {study_id} has no lease {token}", field="token")
    return row, study


def _trial(session: Session, study_id: int, number: int) -> TrialRow | None:
    wanted = select(TrialRow).where(TrialRow.study_id == study_id, TrialRow.number == number)
    return session.exec(wanted.execution_options(populate_existing=True)).first()


def _hold(row: TrialLeaseRow) -> Hold:
    assert row.id is not None
    return Hold(row.id, row.worker, row.heard_at, row.held_node is None, row.number)


def _task(session: Session, row: TrialRow | None) -> Task | None:
    if row is None:
        return None
    return Task(row.number, _hold(session.get_one(TrialLeaseRow, row.lease_id)), row.takings, row.report is not None)


def _view(row: TrialLeaseRow, study: StudyRow) -> TrialLease:
    return TrialLease(
        token=row.id,
        study_state=StudyState(study.state),
        **row.model_dump(include={"study_id", "worker", "node", "number", "taken_at", "heard_at", "ended_at"}),
    )
