"""A copy of the whole database while the service runs, and the way back.

Guarantee: a backup is one moment's state in one file (mode 600), looked through by `verify` before it gets its name: a
file of that name is sound. A restore looks through the file first, refuses while anybody has the database open, and
sets the present database aside instead of writing over it; whatever fails leaves the present one as it was. A token
that was revoked stays revoked, whatever the file says.

PostgreSQL has tools of its own for both: `advice` says which. They restore into an empty database: over a present one
`pg_restore --clean` fails at the frames' partitions, and would leave nothing to go back to.
"""

import os
import shlex
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import DBAPIError

from controlplane.auth import browser_sessions
from controlplane.auth import store as tokens
from controlplane.contract.errors import BadRequest, Conflict, NotFound
from controlplane.db.database import Database
from controlplane.telemetry.folding.verify import Report, verify
from controlplane.telemetry.frames.sql_frames import SqlFrames

ALL_PAGES = -1
_SIDE_FILES = ("-wal", "-shm", "-journal")


class Unsound(Conflict):
    """What was copied is not as it must be; `report` tells all of it. The copy is left where it was made."""

    code = "unsound"

    def __init__(self, report: Report, copy: Path) -> None:
        found = report.findings.all
        super().__init__(f"{copy} is not sound: {found[0]}{f', and {len(found) - 1} more' if found[1:] else ''}")
        self.report = report


def backup(database_file: Path, target: Path) -> Report:
    """Copy the database to `target`, which must not be there yet. Raises `Conflict`, `NotFound` or `Unsound`."""
    if not database_file.is_file():
        raise NotFound(f"{database_file}: there is no database")
    if target.exists():
        raise Conflict(f"{target} is there already; give another name, or remove it")
    return _sound_copy(database_file, target.with_name(target.name + ".partial"), target)


@dataclass(frozen=True)
class Restored:
    """What was looked at, and where the old database is now. revoked: names of the tokens that live in the backup and
    had been revoked since, which stay revoked; None: the old database could not say."""

    report: Report
    aside: Path | None
    revoked: list[str] | None


def restore(source: Path, database_file: Path, now: datetime) -> Restored:
    """Put a backup in the place of the database; what was revoked since stays so, and browsers' sessions end.

    Raises `Conflict` when the database is in use, `NotFound` or `Unsound`.
    """
    if not source.is_file():
        raise NotFound(f"{source}: there is no such file")
    _refuse_while_open(database_file)
    database_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    ready = database_file.with_name(database_file.name + ".restored")
    report = _sound_copy(source, database_file.with_name(database_file.name + ".restoring"), ready)
    _refuse_while_open(database_file)
    revoked = _keep_revocations(database_file, ready, now)
    aside = None
    if database_file.exists():
        aside = database_file.with_name(f"{database_file.name}.before-{now:%Y%m%dT%H%M%SZ}")
        os.replace(database_file, aside)
    os.replace(ready, database_file)
    _sync_folder(database_file.parent)
    return Restored(report, aside, revoked)


def advice(url: str, target: Path, *, restoring: bool) -> str:
    """The commands that do it on PostgreSQL."""
    address = make_url(url).set(drivername="postgresql")
    if not restoring:
        command = shlex.join(["pg_dump", "--format=custom", "--file", str(target), _shown(address)])
        return f"the database is PostgreSQL, whose own tools do this while it runs:\n  {command}"
    beside = f"{address.database}_restored"
    make = shlex.join(["createdb", "--maintenance-db", _shown(address), beside])
    filled = _shown(address.set(database=beside))
    fill = shlex.join(["pg_restore", "--single-transaction", "--dbname", filled, str(target)])
    named = [_shown(make_url(url)), "--database-url", _shown(make_url(url).set(database=beside))]
    keep = shlex.join(["tailwright", "store", "keep-revocations", *named])
    return (
        "the database is PostgreSQL, whose own tools do this, into a database of its own beside the present one; there "
        "end the tokens that were revoked after the backup, then start the services with it:\n"
        f"  {make}\n  {fill}\n  {keep}"
    )


def carry_revocations(old: Database | None, restored: Database, now: datetime) -> list[str] | None:
    """End in the restored database all sessions, and the tokens that are revoked in the old one: their names, or None
    where the old one cannot be read. Whoever has signed out since the backup must not be signed in again by it."""
    ended: dict[str, datetime] | None = {}
    if old is not None:
        try:
            with old.read_session() as session:
                ended = tokens.revoked(session)
        except (DBAPIError, sqlite3.DatabaseError):
            ended = None
    with restored.session() as session:
        browser_sessions.end_all(session)
        return None if ended is None else tokens.revoke_again(session, ended, now)


def _shown(address: URL) -> str:
    return address.render_as_string(hide_password=True)


def _sound_copy(source: Path, copy: Path, target: Path) -> Report:
    """Copy a database, look it through, and give it its name."""
    for side in ("", *_SIDE_FILES):
        Path(f"{copy}{side}").unlink(missing_ok=True)
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        # All pages in one step: a step takes one snapshot, and several would begin anew whenever somebody writes.
        with closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as origin:
            with closing(sqlite3.connect(copy)) as destination:
                origin.backup(destination, pages=ALL_PAGES)
        report = _looked_through(copy)
        if not report.sound:
            raise Unsound(report, copy)
        _make_one_file(copy)
    except sqlite3.DatabaseError as error:
        raise BadRequest(f"{source} is no database that can be read: {error}", field="file") from error
    os.replace(copy, target)
    _sync_folder(target.parent)
    return report


def _looked_through(file: Path) -> Report:
    database = Database(f"sqlite:///{file}")
    try:
        return verify(database, SqlFrames(database))
    finally:
        database.close()


def _make_one_file(database_file: Path) -> None:
    """Without side files, on the disk."""
    with closing(sqlite3.connect(database_file)) as whole:
        whole.execute("PRAGMA journal_mode=DELETE")
    with database_file.open("rb") as written:
        os.fsync(written.fileno())


def _keep_revocations(old: Path, ready: Path, now: datetime) -> list[str] | None:
    """End in `ready` all sessions, and the tokens that are revoked in `old`: their names, or None where `old` cannot be
    read."""
    after = Database(f"sqlite:///{ready}")
    before = Database(f"sqlite:///{old}") if old.exists() else None
    try:
        return carry_revocations(before, after, now)
    finally:
        if before is not None:
            before.close()
        after.close()
        _make_one_file(ready)


def _refuse_while_open(database_file: Path) -> None:
    """Raises `Conflict` when another process has the database open."""
    if not database_file.exists():
        return
    with closing(sqlite3.connect(database_file, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise Conflict(f"{database_file} is in use ({error}); stop the service first") from None
        # What its log holds goes into the file itself: it is to be moved by itself.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
