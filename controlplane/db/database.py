"""Connections and transactions.

Guarantee: a transaction that `Database.session` has committed is on the disk (SQLite: WAL with synchronous=FULL;
PostgreSQL: synchronous_commit as the server has it). The edge commits, nothing inside does: one request or one
background tick is one `with database.session()` block. SQLite has one writer at a time: those of this process take
turns in the order in which they came (a FIFO lock), whatever each of them writes next.
"""

import sqlite3
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DataError, OperationalError
from sqlmodel import Session

from controlplane.contract.errors import BadSettings
from controlplane.db import binary_transfer

BUSY_TIMEOUT_MS = 30_000
POOL_SIZE = 10
MAX_OVERFLOW = 50
"""Connections beyond the pool: as many as the worker threads that may each want one at once."""


NO_URL = (
    "database_url: is no URL of a database, as in postgresql+psycopg://USER:PASSWORD@HOST/NAME, or of one there is no "
    "driver for; in a password @ is written %40, / %2F and : %3A"
)


class Database:
    """One database. `url` is an SQLAlchemy URL: sqlite:///path, postgresql+psycopg://user@host/name."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_sqlite = url.startswith("sqlite")
        self.turns: _WriteTurns | None = None
        options: dict[str, Any] = {
            "hide_parameters": True,  # Errors go to the log, and values are not for it.
            "pool_pre_ping": not self.is_sqlite,
            "pool_size": POOL_SIZE,
            "max_overflow": MAX_OVERFLOW,
            **({"connect_args": {"factory": _InTurn}} if self.is_sqlite else {}),
        }
        try:
            self.engine: Engine = create_engine(url, **options)
        except (ArgumentError, ValueError):
            raise BadSettings(NO_URL, field="database_url") from None  # Their words may hold a part of a password.
        event.listen(self.engine, "handle_error", _as_data_error)
        if self.is_sqlite:
            turns = self.turns = _WriteTurns(BUSY_TIMEOUT_MS / 1000)
            event.listen(self.engine, "connect", lambda connection, _: _prepare_sqlite(connection, turns))
            event.listen(self.engine, "begin", _begin_sqlite)
        elif self.engine.dialect.driver == "psycopg":
            binary_transfer.install(self.engine)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """One transaction: committed at the end of the block, rolled back on an exception."""
        with Session(self.engine, expire_on_commit=False) as session:
            try:
                yield session
                session.commit()
            except BaseException:
                session.rollback()
                raise

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection in a read transaction of its own: everything read over it is of one committed state."""
        with self.engine.connect() as connection:
            if self.is_sqlite:
                yield connection.execution_options(begin="BEGIN")
            else:
                yield connection.execution_options(isolation_level="REPEATABLE READ")

    @contextmanager
    def read_session(self) -> Iterator[Session]:
        """One consistent look that takes no write lock; nothing is committed."""
        with self.engine.connect().execution_options(begin="BEGIN") as connection:
            with Session(connection, expire_on_commit=False) as session:
                yield session

    def close(self) -> None:
        self.engine.dispose()


class _WriteTurns:
    """SQLite's own waiting is a lottery: whoever waits looks again every so often, at last ten times a second, and who
    writes many transactions one after the other wins it nearly each time."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Event] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def take(self) -> bool:
        """False: not within the limit."""
        with self._guard:
            if not self._taken:
                self._taken = True
                return True
            mine = threading.Event()
            self._waiting.append(mine)
        if mine.wait(self._limit_s):
            return True
        with self._guard:
            if mine.is_set():
                return True
            self._waiting.remove(mine)
            return False

    def give(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().set()  # The turn is handed over: nobody comes between.
            else:
                self._taken = False


class _InTurn(sqlite3.Connection):
    """A connection that writes in its turn, and gives that away at the end of its transaction."""

    turns: _WriteTurns
    _has_turn = False

    def take_turn(self) -> None:
        """Raises `sqlite3.OperationalError` where the database is not to be had in time."""
        if not self._has_turn:
            if not self.turns.take():
                raise sqlite3.OperationalError("database is locked")
            self._has_turn = True

    def commit(self) -> None:
        try:
            super().commit()
        finally:
            self.give_turn()

    def rollback(self) -> None:
        try:
            super().rollback()
        finally:
            self.give_turn()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.give_turn()

    def give_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self.turns.give()


def _prepare_sqlite(connection: _InTurn, turns: _WriteTurns) -> None:
    connection.turns = turns
    # SQLAlchemy emits BEGIN itself (below): the driver's own lazy BEGIN would leave reads outside the transaction.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    # Debian's SQLite overwrites deleted pages with zeros, which doubles what telemetry writes; FAST does it where it
    # costs no further writing.
    cursor.execute("PRAGMA secure_delete=FAST")
    cursor.close()


_WRITING = "BEGIN IMMEDIATE"


def _begin_sqlite(connection: Connection) -> None:
    # IMMEDIATE takes the write lock at once: a deferred transaction that upgrades later can fail with SQLITE_BUSY
    # whatever the time-out. Readers that must not wait use `read_session` or raw connections of their own.
    how = connection.get_execution_options().get("begin", _WRITING)
    driven = connection.connection.driver_connection
    if how != _WRITING or not isinstance(driven, _InTurn):
        connection.exec_driver_sql(how)
        return
    try:
        driven.take_turn()
    except sqlite3.OperationalError as error:
        raise OperationalError(_WRITING, None, error) from error
    try:
        connection.exec_driver_sql(how)
    except BaseException:
        driven.give_turn()
        raise


def _as_data_error(context: ExceptionContext) -> None:
    """A value that a driver cannot even hand to its database is as wrong as one that the database refuses: SQLite's
    knows no integer beyond 64 bits, and neither writes text that has no UTF-8 form; both raise errors of Python."""
    error = context.original_exception
    if isinstance(error, OverflowError | UnicodeEncodeError):
        raise DataError(context.statement, context.parameters, error) from error
