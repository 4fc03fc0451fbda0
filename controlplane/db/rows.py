"""Rows by their integer key: the one that a request names, and the newest; and the file that made one."""

from typing import TypeVar

from sqlmodel import Session, SQLModel, inspect, select
from sqlmodel.sql.expression import SelectOfScalar

from controlplane.contract.errors import NotFound

Row = TypeVar("Row", bound=SQLModel)


def existing(session: Session, table: type[Row], key: int, what: str, *, field: str, lock: bool = False) -> Row:
    """The row with this key. Raises `NotFound`, whose message says what there is none of."""
    row = session.get(table, key, with_for_update=lock or None)
    if row is None:
        raise NotFound(f"no {what} {key}", field=field)
    return row


def newest(table: type[Row], before: int | None, limit: int) -> SelectOfScalar[Row]:
    """At most `limit` rows, their keys falling; with a cursor those before it."""
    key = inspect(table).primary_key[0]
    query = select(table).order_by(key.desc()).limit(limit)
    return query if before is None else query.where(key < before)


def moved(origin: str | None, file: str | None) -> str | None:
    """The origin of a thing that a file changes, None for no file: what was not made by a file stays so."""
    return file if origin is not None and file is not None else origin
