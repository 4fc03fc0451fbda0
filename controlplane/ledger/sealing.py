"""What a transaction appends, numbered and chained when it commits.

Guarantee: rows are in the order of their transactions' commits, without a gap, in however many replicas: the head's row
is locked from there to the end of the transaction. It is the last lock that a transaction takes, so nobody waits for
it in a circle, but for one that reads its own entries before it commits: it has them sealed there. What is
rolled back, a savepoint's too, was never appended.
"""

from typing import NamedTuple

from sqlalchemy import Connection, event, insert, select, update
from sqlalchemy.orm import SessionTransaction
from sqlmodel import Session, col

from controlplane.ledger.chain import Content, Head, extended
from controlplane.ledger.tables import LedgerAnchorRow, LedgerHeadRow, LedgerRow

_KEY = "ledger"


class _Draft(NamedTuple):
    content: Content
    within: tuple[SessionTransaction, ...]
    """The savepoints it was written in."""


def add(session: Session, content: Content) -> None:
    """Append at the end of the session's transaction."""
    if _KEY not in session.info:
        session.info[_KEY] = []
        event.listen(session, "before_commit", seal)
        event.listen(session, "after_soft_rollback", _forget)
    session.info[_KEY].append(_Draft(content, _savepoints(session)))


def head(connection: Connection, *, lock: bool = False) -> Head:
    """The newest row's number and hash."""
    query = select(col(LedgerHeadRow.entry), col(LedgerHeadRow.hash))
    entry, sha = connection.execute(query.with_for_update() if lock else query).one()
    return Head(entry, sha)


def anchor(connection: Connection) -> tuple[Head, str]:
    """The last archived row's number and hash, and their signature."""
    query = select(col(LedgerAnchorRow.entry), col(LedgerAnchorRow.hash), col(LedgerAnchorRow.signature))
    entry, sha, signature = connection.execute(query).one()
    return Head(entry, sha), signature


def _savepoints(session: Session) -> tuple[SessionTransaction, ...]:
    found, transaction = [], session.get_nested_transaction()
    while transaction is not None and transaction.nested:
        found.append(transaction)
        transaction = transaction.parent
    return tuple(found)


def seal(session: Session) -> None:
    """Number and chain what was added so far; within a savepoint it waits for the savepoint's end."""
    drafts: list[_Draft] = session.info.get(_KEY, [])
    if session.in_nested_transaction() or not drafts:
        return
    session.flush()  # Whatever else the transaction locks, it locks before the head.
    connection = session.connection()
    newest = head(connection, lock=True)
    rows = []
    for draft in drafts:
        link = extended(newest, draft.content)
        rows.append({"id": link.id, **vars(link.content), "hash": link.hash})
        newest = Head(link.id, link.hash)
    connection.execute(insert(LedgerRow), rows)
    connection.execute(update(LedgerHeadRow).values(entry=newest.id, hash=newest.hash))
    drafts.clear()


def _forget(session: Session, ended: SessionTransaction) -> None:
    drafts: list[_Draft] = session.info[_KEY]
    drafts[:] = [draft for draft in drafts if ended.nested and ended not in draft.within]
