"""Looks a stored ledger through, and tells the first row that is not as it was written. Changes nothing."""

from collections.abc import Iterator

from sqlalchemy import Connection, select
from sqlmodel import col

from controlplane.db.database import Database
from controlplane.ledger import sealing
from controlplane.ledger.chain import Content, Head, Link, Wrong, first_wrong
from controlplane.ledger.tables import LedgerRow

ROWS_AT_ONCE = 1_000


def verify(database: Database, known: Head | None = None) -> tuple[Head, Wrong | None]:
    """The head, and what is wrong, in one snapshot. `known`: a head that was told earlier."""
    with database.snapshot() as connection:
        head = sealing.head(connection)
        return head, first_wrong(_links(connection), head, known)


def newest(database: Database) -> Head:
    """The newest row's number and hash."""
    with database.read_session() as session:
        return sealing.head(session.connection())


def _links(connection: Connection) -> Iterator[Link]:
    query = select(
        col(LedgerRow.id),
        col(LedgerRow.time),
        col(LedgerRow.actor),
        col(LedgerRow.kind),
        col(LedgerRow.subject),
        col(LedgerRow.message),
        col(LedgerRow.evidence),
        col(LedgerRow.hash),
    ).order_by(col(LedgerRow.id))
    for number, *content, sha in connection.execute(query.execution_options(yield_per=ROWS_AT_ONCE)):
        yield Link(number, Content(*content), sha)
