"""Rows that are made or found, and locked until the transaction ends.

Guarantee: two replicas that want some of the same rows wait for one another in one direction only, whichever of the
rows were there before: each locks its rows in the order it is given, and everybody gives the order of the key.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table, false
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session


def has_locks(session: Session) -> bool:
    """Whether rows must be locked at all: on SQLite a writing transaction has the whole database to itself."""
    return session.get_bind().dialect.name != "sqlite"


def make_and_lock(session: Session, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert the rows that are not there; those that are stay as they are. All are locked, in this order."""
    if not has_locks(session):
        session.execute(sqlite_insert(table).on_conflict_do_nothing(), rows)
        return
    key = [column.name for column in table.primary_key]
    # An update that applies to no row still locks the row that it was tried on; a plain look-up could not lock rows
    # that are still to be made.
    statement = postgresql_insert(table).on_conflict_do_update(
        index_elements=key, set_={key[0]: table.c[key[0]]}, where=false()
    )
    session.execute(statement, rows)
