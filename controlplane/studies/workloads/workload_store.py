"""Kept workloads in the database, inside the caller's transaction."""

from datetime import datetime

from sqlmodel import Session

from controlplane import ledger
from controlplane.contract.bodies.workload import KeptTraffic, KeptWorkload, Workload, WorkloadCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.replayed_traffic_name import profile_of
from controlplane.contract.planning.traffic_figures import figures_of
from controlplane.db.rows import newest
from controlplane.studies import kept_by_name
from controlplane.studies.tables import WorkloadRow
from controlplane.studies.view import workload_view

MOST_KEPT = 100
"""Of 900,000 characters each at most."""


def listing(session: Session, *, before_id: int | None, limit: int) -> list[KeptWorkload]:
    """Newest first."""
    return [workload_view(row) for row in session.exec(newest(WorkloadRow, before_id, limit))]


def get(session: Session, name: str) -> KeptWorkload:
    return workload_view(_row(session, name))


def traffic(session: Session, name: str) -> KeptTraffic:
    return KeptTraffic(name=name, traffic=_row(session, name).traffic)


def add(session: Session, wanted: WorkloadCreate, found: Workload, *, actor: str, now: datetime) -> KeptWorkload:
    """`found`: what `wanted` packs (`workload_checks.checked_workload`). Raises `Conflict`."""
    row = WorkloadRow(
        name=wanted.name,
        format=wanted.format.value,
        traffic=wanted.traffic,
        figures=figures_of(found).model_dump(mode="json"),
        created_by=actor,
        created_at=now,
    )
    taken = f"a workload {wanted.name!r} is kept already; take another name, or remove it"
    kept_by_name.insert(session, row, most=MOST_KEPT, many="workloads", taken=taken)
    said = {"name": row.name, "format": row.format, **row.figures}
    message = f"workload {row.name} of {len(found.requests):,} requests added"
    ledger.append(session, now, actor, "workload.added", f"workload/{row.id}", message, **said)
    return workload_view(row)


def remove(session: Session, name: str, *, actor: str, now: datetime) -> None:
    """Studies that have begun keep their traffic."""
    row = _row(session, name)
    session.delete(row)
    ledger.append(session, now, actor, "workload.removed", f"workload/{row.id}", f"workload {name} removed", name=name)


def check_kept(session: Session, name: str) -> None:
    """Whether a study can replay what it names. Raises `BadRequest`."""
    if not name or profile_of(name) is not None:
        return
    if not kept_by_name.is_kept(session, WorkloadRow, name):
        raise BadRequest(
            f"workload: no workload {name[:64]!r} is kept; add it by tailwright workloads add", field="workload"
        )


def _row(session: Session, name: str) -> WorkloadRow:
    return kept_by_name.named(session, WorkloadRow, name, "workload")
