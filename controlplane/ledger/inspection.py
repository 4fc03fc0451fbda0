"""Looks a stored ledger through, and tells the first row that is not as it was written. Changes nothing."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from sqlalchemy import Connection, select
from sqlmodel import col

from controlplane.db.database import Database
from controlplane.ledger import archive_file, sealing
from controlplane.ledger.chain import START, Content, Head, Link, Wrong, first_wrong
from controlplane.ledger.signing import is_anchor_signed
from controlplane.ledger.tables import LedgerRow

ROWS_AT_ONCE = 1_000


def verify(
    database: Database, known: Collection[Head] = (), archives: Sequence[Path] = (), key: bytes | None = None
) -> tuple[Head, Wrong | None]:
    """The head, and what is wrong, in one snapshot. Raises `BadRequest` for a file that is no archive.

    `known`: heads that were told earlier. `archives`: what is looked through with it, from the first row on; without
    them the rows after the last archived one are. `key`: whose signature that one's number and hash must bear.
    """
    with database.snapshot() as connection:
        head, (anchor, signature) = sealing.head(connection), sealing.anchor(connection)
        if key is not None and anchor != START and not is_anchor_signed(anchor, signature, key):
            return head, Wrong(anchor.id, "is told to be the last archived one, by another key than this service's")
        links = stored_links(connection)
        if not archives:
            return head, first_wrong(links, head, known, anchor)
        # One that was written, but not removed from the database, goes beyond the anchor.
        archived = takewhile(lambda link: link.id <= anchor.id, archive_file.links(archives))
        return head, first_wrong(_joined(archived, links, anchor), head, known)


def verify_newest(database: Database, count: int) -> tuple[Head, int, Wrong | None]:
    """The head, the number of the first entry looked at, and what is wrong with the newest `count` entries that are in
    the database, in one snapshot. What is before them is taken as its hash says.
    """
    with database.snapshot() as connection:
        head, (anchor, _) = sealing.head(connection), sealing.anchor(connection)
        before = max(anchor.id, head.id - count)
        start = anchor
        if before > anchor.id:
            known = connection.execute(select(col(LedgerRow.hash)).where(col(LedgerRow.id) == before)).scalar()
            if known is None:
                return head, before, Wrong(before, "is missing")
            start = Head(before, known)
        links = stored_links(connection, after=before, last=max(head.id, before))
        return head, min(before + 1, head.id), first_wrong(links, head, start=start)


def newest(database: Database) -> Head:
    """The newest row's number and hash."""
    with database.read_session() as session:
        return sealing.head(session.connection())


def archived(database: Database) -> Head:
    """The number and the hash of the last archived row."""
    with database.snapshot() as connection:
        return sealing.anchor(connection)[0]


def _joined(archived: Iterable[Link], rest: Iterable[Link], anchor: Head) -> Iterator[Link]:
    """Both; the last archived one with the hash that the anchor has for it, so that a difference is found there."""
    for link in archived:
        yield replace(link, hash=anchor.hash) if link.id == anchor.id else link
    yield from rest


def stored_links(connection: Connection, *, after: int = 0, last: int | None = None) -> Iterator[Link]:
    """The rows in the database, in order; with `last` those after `after` and up to it."""
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
    query = query if last is None else query.where(col(LedgerRow.id) > after, col(LedgerRow.id) <= last)
    for number, *content, sha in connection.execute(query.execution_options(yield_per=ROWS_AT_ONCE)):
        yield Link(number, Content(*content), sha)
