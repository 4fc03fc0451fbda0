"""Which processes over one database live: what one that died had begun, another goes on with at once.

Guarantee: a process that has called `enter` and whose connection stands is among `numbers`, for everybody who asks
after it did; one that has left is not, and one that was killed is not from when PostgreSQL has seen its connection end
(an advisory lock of its own, held by a connection of its own). Where a machine vanishes that takes as long as TCP
takes: whoever asks has a lease's end, too. On SQLite nobody can tell (None), unless the asker knows that it is alone.
"""

import logging
import secrets
import threading
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, event, or_, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Mapped
from sqlmodel import Session

from controlplane.db.database import Database

log = logging.getLogger(__name__)

_CLASS = 0x6C697665
"""Of the locks of two numbers ("live")."""
_LIVING = text(
    "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid = :class AND objsubid = 2 AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def is_free(
    leased_until: Mapped[datetime | None],
    leased_by: Mapped[int | None],
    now: datetime,
    living: Collection[int] | None,
) -> ColumnElement[bool]:
    """Whether nobody holds a row: it is not leased, its lease has ended, or whoever leased it lives no more.

    living: the processes whose leases hold until their ends (`LivingProcesses.numbers`); None: all do.
    """
    free = or_(leased_until.is_(None), leased_until <= now)
    return free if living is None else free | leased_by.not_in(living)


class LivingProcesses:
    """Thread-safe. number: this one's. sole: there is no other, so only this one lives."""

    def __init__(self, database: Database, *, sole: bool = False) -> None:
        self._database, self._sole = database, sole
        self.number = secrets.randbelow(2**31 - 1) + 1
        self._lock = threading.Lock()
        self._held: Connection | None = None
        event.listen(database.engine, "engine_disposed", lambda _: self.leave())

    def enter(self) -> None:
        """Be among the living; to be called again and again, for connections end."""
        if self._database.is_sqlite:
            return
        with self._lock:
            if self._held is not None and not self._answers(self._held):
                self._drop()
            if self._held is None:
                self._held = self._locked()

    def leave(self) -> None:
        with self._lock:
            if self._held is not None:
                self._unlock(self._held)
            self._drop()

    def numbers(self, session: Session) -> frozenset[int] | None:
        """Those that live now; None: nobody can tell."""
        if self._sole:
            return frozenset({self.number})
        if self._database.is_sqlite:
            return None
        return frozenset(session.connection().execute(_LIVING, {"class": _CLASS}).scalars()) | {self.number}

    def _locked(self) -> Connection:
        connection = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            connection.execute(
                text("SELECT pg_advisory_lock(:class, :number)"), {"class": _CLASS, "number": self.number}
            )
            connection.detach()  # Of no pool any more: to close it is to end the session, and the lock with it.
        except BaseException:
            connection.close()
            raise
        return connection

    def _unlock(self, connection: Connection) -> None:
        """At once: PostgreSQL sees that a connection has ended only a while after it was closed."""
        try:
            connection.execute(
                text("SELECT pg_advisory_unlock(:class, :number)"), {"class": _CLASS, "number": self.number}
            )
        except SQLAlchemyError as error:
            log.warning("others take this process for alive until its connection ends: %s", error)

    def _drop(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def _answers(self, connection: Connection) -> bool:
        try:
            connection.execute(text("SELECT 1"))
        except SQLAlchemyError as error:
            log.warning("others may take this process for dead: %s", error)
            return False
        return True
