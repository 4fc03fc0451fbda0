"""Connections and transactions.

Guarantee: a transaction that `Database.session` has committed is on the disk (SQLite: WAL with synchronous=FULL;
PostgreSQL: synchronous_commit as the server has it). The edge commits, nothing inside does: one request or one
background tick is one `with database.session()` block.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DataError
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
        options: dict[str, Any] = {
            "hide_parameters": True,  # Errors go to the log, and values are not for it.
            "pool_pre_ping": not self.is_sqlite,
            "pool_size": POOL_SIZE,
            "max_overflow": MAX_OVERFLOW,
        }
        try:
            self.engine: Engine = create_engine(url, **options)
        except (ArgumentError, ValueError):
            raise BadSettings(NO_URL, field="database_url") from None  # Their words may hold a part of a password.
        event.listen(self.engine, "handle_error", _as_data_error)
        if self.is_sqlite:
            event.listen(self.engine, "connect", _prepare_sqlite)
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


def _prepare_sqlite(connection: Any, _: Any) -> None:
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


def _begin_sqlite(connection: Any) -> None:
    # IMMEDIATE takes the write lock at once: a deferred transaction that upgrades later can fail with SQLITE_BUSY
    # whatever the time-out. Readers that must not wait use `read_session` or raw connections of their own.
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN IMMEDIATE"))


def _as_data_error(context: ExceptionContext) -> None:
    """A value that a driver cannot even hand to its database is as wrong as one that the database refuses: SQLite's
    knows no integer beyond 64 bits, and neither writes text that has no UTF-8 form; both raise errors of Python."""
    error = context.original_exception
    if isinstance(error, OverflowError | UnicodeEncodeError):
        raise DataError(context.statement, context.parameters, error) from error
