"""Configuration revisions in the database, inside the caller's transaction."""

from datetime import datetime

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, select

from controlplane import ledger
from controlplane.contract.bodies.configs import Revision, RevisionCreate
from controlplane.contract.errors import NotFound
from controlplane.contract.knobs import EngineConfig, config_hash
from controlplane.contract.reports.declared_knobs import DeclaredBySome, parse_declared
from controlplane.db.rows import newest
from controlplane.fleet.declared_by_nodes import declared_for
from controlplane.fleet.tables import RevisionRow
from controlplane.fleet.view import revision_view


def revision(session: Session, number: int, *, field: str = "revision") -> Revision:
    """The revision with this number. Raises `NotFound`, whose detail names `field`."""
    row = session.get(RevisionRow, number) if 0 < number < 2**31 else None
    if row is None:
        raise NotFound(f"{field}: no revision {number}; GET /api/v1/configs lists them", field=field)
    return revision_view(row)


def revisions(session: Session, *, before_number: int | None, limit: int) -> list[Revision]:
    """Newest first."""
    return [revision_view(row) for row in session.exec(newest(RevisionRow, before_number, limit))]


def find_or_create(
    session: Session, wanted: RevisionCreate, *, actor: str, now: datetime, declared: DeclaredBySome | None = None
) -> tuple[Revision, bool]:
    """The revision with these knobs, and whether it is new. `declared`: by whom it may run; None: by any node.

    Raises `UnknownKnob` or `KnobOutOfRange` (the field is "knobs.NAME"), `NotFound` for an unknown `base`.
    """
    base = None if wanted.base is None else revision(session, wanted.base, field="base").knobs
    if declared is None:
        declared = declared_for(session, wanted.knobs)
    config = parse_declared(wanted.knobs, declared, base=base, prefix="knobs.")
    return keep(session, config, note=wanted.note, actor=actor, now=now)


def keep(session: Session, config: EngineConfig, *, note: str, actor: str, now: datetime) -> tuple[Revision, bool]:
    """The revision of a checked configuration, and whether it is new. A new one gets a ledger entry."""
    sha = config_hash(config)
    existing = _by_hash(session, sha)
    if existing is not None:
        return existing, False
    row = RevisionRow(hash=sha, knobs=config.knobs(), note=note, created_by=actor, created_at=now)
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        # Somebody else made the equal revision between our look and our insert (PostgreSQL only).
        found = _by_hash(session, sha)
        if found is None:
            raise
        return found, False
    made = revision_view(row)
    message, evidence = f"revision {made.number} created" + (f": {note}" if note else ""), config.knobs()
    ledger.append(session, now, actor, "revision.created", f"revision/{made.number}", message, hash=sha, knobs=evidence)
    return made, True


def _by_hash(session: Session, sha: str) -> Revision | None:
    row = session.exec(select(RevisionRow).where(RevisionRow.hash == sha)).first()
    return None if row is None else revision_view(row)
