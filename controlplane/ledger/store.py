"""Append to the ledger and read it, inside the caller's transaction."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, select

from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.db.rows import newest
from controlplane.ledger import sealing
from controlplane.ledger.actor import Actor
from controlplane.ledger.chain import Content, plain
from controlplane.ledger.tables import LedgerRow


def append(session: Session, now: datetime, actor: str, kind: str, subject: str, message: str, **evidence: Any) -> None:
    """Record one deed, in the order of a row's columns. It is durable exactly when the deed is: one transaction.

    `entries` and `since` have it in the same transaction too, unless they are asked within a savepoint.
    An actor's token or person, where one is known, is named in the evidence.
    """
    if isinstance(actor, Actor):
        evidence = {**evidence, **actor.evidence}
    sealing.add(session, Content(now, str(actor), kind, subject, message, plain(evidence)))


def entries(
    session: Session, *, before_id: int | None, limit: int, kind: str | None = None, subject: str | None = None
) -> list[LedgerEntry]:
    """Newest first. `kind` matches exactly or as the part before a dot ("rollout" matches "rollout.promoted")."""
    sealing.seal(session)
    query = newest(LedgerRow, before_id, limit)
    if kind is not None:
        query = query.where(of_kind(kind))
    if subject is not None:
        query = query.where(col(LedgerRow.subject) == subject)
    return [LedgerEntry.model_validate(row, from_attributes=True) for row in session.exec(query)]


def since(session: Session, kind: str, start: datetime) -> list[LedgerEntry]:
    """All from `start` on, oldest first; `kind` as in `entries`."""
    sealing.seal(session)
    query = select(LedgerRow).where(of_kind(kind), col(LedgerRow.time) >= start).order_by(col(LedgerRow.id))
    return [LedgerEntry.model_validate(row, from_attributes=True) for row in session.exec(query)]


def of_kind(kind: str) -> ColumnElement[bool]:
    """That an entry is of this kind, exactly or as the part before a dot."""
    return (col(LedgerRow.kind) == kind) | col(LedgerRow.kind).startswith(kind + ".", autoescape=True)
