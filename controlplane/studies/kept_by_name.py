"""Rows that are kept under a name of their own, few enough: workloads and prompt sets."""

from typing import TypeVar

from sqlalchemy import func
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from controlplane.contract.errors import Conflict, NotFound
from controlplane.studies.tables import PromptSetRow, WorkloadRow

Kept = TypeVar("Kept", WorkloadRow, PromptSetRow)


def insert(session: Session, row: Kept, *, most: int, many: str, taken: str) -> None:
    """Gives it its number. `many`: what `most` of are kept; `taken`: what is told of a name that is. Raises
    `Conflict`."""
    if session.exec(select(func.count()).select_from(type(row))).one() >= most:
        raise Conflict(f"name: {most} {many} are kept already; remove one", field="name")
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        raise Conflict(f"name: {taken}", field="name") from None


def named(session: Session, table: type[Kept], name: str, what: str) -> Kept:
    """Raises `NotFound`."""
    row = session.exec(select(table).where(col(table.name) == name)).first()
    if row is None:
        raise NotFound(f"no {what} {name[:64]!r}", field="name")
    return row


def is_kept(session: Session, table: type[Kept], name: str) -> bool:
    return session.exec(select(table.id).where(col(table.name) == name)).first() is not None
