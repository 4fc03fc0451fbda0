"""Rows that are made or found, and locked until the transaction ends.

Guarantee: two replicas that want some of the same rows wait for one another in one direction only, whichever of the
rows were there before: each locks its rows in the order it is given, and everybody gives the order of the key.
"""

from sqlalchemy import Table
from sqlmodel import Session

from controlplane.telemetry.reports import many_rows
from controlplane.telemetry.reports.many_rows import Rows


def has_locks(session: Session) -> bool:
    """Whether rows must be locked at all: on SQLite a writing transaction has the whole database to itself."""
    return session.get_bind().dialect.name != "sqlite"


def make_and_lock(session: Session, table: Table, rows: Rows) -> None:
    """Insert the rows that are not there; those that are stay as they are. All are locked, in this order."""
    if has_locks(session):
        many_rows.insert_or_lock(session, table, rows)
    else:
        many_rows.insert_missing(session, table, rows)
