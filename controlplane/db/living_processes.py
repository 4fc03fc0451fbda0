"""Which processes over one database live: what one that died had begun, another goes on with at once.

Guarantee: a process that has called `enter` and whose connection stands is among `numbers`, for everybody who asks
after it did; one that has left is not, and one that was killed is not from when PostgreSQL has seen its connection end
(an advisory lock of its own, held by a connection of its own). Where a machine vanishes that takes as long as TCP
takes: whoever asks has a lease's end, too. On SQLite nobody can tell (None), unless the asker knows that it is alone.
"""

import secrets
import threading
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, event, or_, text
from sqlalchemy.orm import Mapped
from sqlmodel import Session

from controlplane.db.advisory_lock import AdvisoryLock
from controlplane.db.database import Database

_CLASS = 0x6C697665
"""Of the locks of two numbers ("live")."""
_TAKE = text("SELECT pg_try_advisory_lock(:class, :number)")
_FREE = text("SELECT pg_advisory_unlock(:class, :number)")
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
        parameters = {"class": _CLASS, "number": self.number}
        self._held = AdvisoryLock(database, _TAKE, _FREE, parameters, lost="others take a process for what it is not")
        event.listen(database.engine, "engine_disposed", lambda _: self.leave())

    def enter(self) -> None:
        """Be among the living; to be called again and again, for connections end."""
        if self._database.is_sqlite:
            return
        with self._lock:
            self._held.hold()

    def leave(self) -> None:
        with self._lock:
            self._held.let_go()

    def numbers(self, session: Session) -> frozenset[int] | None:
        """Those that live now; None: nobody can tell."""
        if self._sole:
            return frozenset({self.number})
        if self._database.is_sqlite:
            return None
        return frozenset(session.connection().execute(_LIVING, {"class": _CLASS}).scalars()) | {self.number}
