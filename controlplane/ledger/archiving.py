"""The oldest entries moved to a file: the only way out of the ledger.

Guarantee: an entry leaves the database when a file that holds it with its hash is on the disk, whole and read back.
What is left follows an anchor, the last moved entry's number and hash, signed by the service's key. The database's
refusal to remove a row is away within that one transaction alone, which nobody else sees.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection, delete, func, select, text, update
from sqlmodel import col

from controlplane import ledger
from controlplane.contract.errors import BadRequest, Conflict
from controlplane.db.database import Database
from controlplane.ledger import archive_file, inspection, sealing, signing
from controlplane.ledger.chain import Head, first_wrong
from controlplane.ledger.tables import LedgerAnchorRow, LedgerRow

KEPT = timedelta(days=30)
"""The service reads its own latest entries: what is younger stays."""


@dataclass(frozen=True)
class Archived:
    """What was moved: entries first to last."""

    first: int
    last: Head


def archive(database: Database, before: datetime, target: Path, key: bytes, now: datetime) -> Archived | None:
    """Move every entry before the first that is not older than `before`; None where there is none.

    Raises `BadRequest` (`before` too late), `Conflict` (`target` is there; the ledger is not as it was written, or
    somebody else archives at the same time), OSError. The ledger is as it was then.
    """
    if before > now - KEPT:
        raise BadRequest(f"before: entries of the last {KEPT.days} days stay in the database", field="before")
    if target.exists():
        raise Conflict(f"to: {target} is there already; give another name", field="to")
    with database.snapshot() as connection:
        anchor, _ = sealing.anchor(connection)
        last = _last_before(connection, before)
        if last is None or last.id <= anchor.id:
            return None
        signed = signing.signed(last, key)
        partial = target.with_name(target.name + ".partial")
        entries = inspection.stored_links(connection, after=anchor.id, last=last.id)
        _write(partial, archive_file.lines(anchor, entries, signed))
    wrong = first_wrong(archive_file.links([partial]), last, start=archive_file.after_of(partial))
    if wrong is not None:
        partial.unlink()
        raise Conflict(f"nothing is archived: {wrong}; `tailwright ledger verify` tells more")
    partial.rename(target)
    _sync_folder(target.parent)
    _remove(database, anchor, last, key, target.name, now)
    return Archived(anchor.id + 1, last)


def _last_before(connection: Connection, before: datetime) -> Head | None:
    """The last entry of those before the first that is not older."""
    younger = select(func.min(LedgerRow.id)).where(col(LedgerRow.time) >= before)
    first = connection.execute(younger).scalar_one()
    query = select(col(LedgerRow.id), col(LedgerRow.hash)).order_by(col(LedgerRow.id).desc()).limit(1)
    found = connection.execute(query if first is None else query.where(col(LedgerRow.id) < first)).first()
    return None if found is None or found[0] is None else Head(found[0], found[1])


def _remove(database: Database, anchor: Head, last: Head, key: bytes, name: str, now: datetime) -> None:
    with database.session() as session:
        connection = session.connection()
        sealing.head(connection, lock=True)  # Nobody appends, and nobody else archives, until the end.
        if sealing.anchor(connection)[0] != anchor:
            raise Conflict(f"somebody else has archived at the same time: {name} is not needed")
        triggers = _open(connection)
        removed = connection.execute(delete(LedgerRow).where(col(LedgerRow.id) <= last.id)).rowcount
        _close(connection, triggers)
        if removed != last.id - anchor.id:
            raise Conflict(f"nothing is archived: {removed} entries are there, {last.id - anchor.id} were written")
        signature = signing.anchor_signature(last, key)
        connection.execute(update(LedgerAnchorRow).values(entry=last.id, hash=last.hash, signature=signature))
        message = f"entries {anchor.id + 1} to {last.id} moved to the archive {name!r}"
        ledger.append(
            session, now, ledger.SERVICE, "ledger.archived", "ledger", message, first=anchor.id + 1, **vars(last)
        )


def _open(connection: Connection) -> list[str]:
    """Let rows be removed; what restores the refusal."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("ALTER TABLE ledger DISABLE TRIGGER ledger_no_change"))
        return ["ALTER TABLE ledger ENABLE TRIGGER ledger_no_change"]
    query = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = 'ledger_no_delete'"
    statements = [str(sql) for sql in connection.execute(text(query)).scalars()]
    if not statements:
        raise Conflict("nothing is archived: the ledger's triggers are gone, so somebody may have changed it")
    connection.execute(text("DROP TRIGGER ledger_no_delete"))
    return statements


def _close(connection: Connection, statements: list[str]) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement)


def _write(path: Path, lines: Iterable[str]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
