"""Work that one of several replicas does for all, for as long as it lives.

Guarantee: of the replicas on one PostgreSQL at most one is chosen at a time (an advisory lock, held by a connection of
its own). When its process or that connection ends, or its work fails, another is chosen at its next look. A replica
that has lost its connection learns so at its next look, and may be at work until then: this spares the others the same
work, and what the work writes must be safe against two who do it. On SQLite there is one replica, and it is chosen.
"""

import threading
from collections.abc import Callable
from datetime import datetime

from sqlalchemy import event, text

from controlplane.db.advisory_lock import AdvisoryLock
from controlplane.db.database import Database

Act = Callable[[datetime], object]
_TAKE, _FREE = text("SELECT pg_try_advisory_lock(:key)"), text("SELECT pg_advisory_unlock(:key)")


class SoleReplica:
    """Thread-safe. `key`: the same in every replica, and no other work's."""

    def __init__(self, database: Database, key: int) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._held = AdvisoryLock(database, _TAKE, _FREE, {"key": key}, lost="another replica may be chosen")
        event.listen(database.engine, "engine_disposed", lambda _: self.give_up())

    def chosen(self) -> bool:
        """Whether this replica is the one; it asks to be where nobody is."""
        if self._database.is_sqlite:
            return True
        with self._lock:
            return self._held.hold()

    def give_up(self) -> None:
        """Let another be chosen, at once: it does not have to wait until the database sees a connection end."""
        with self._lock:
            self._held.let_go()

    def only(self, act: Act, otherwise: Act | None = None) -> Act:
        """What to do at a time: `act` where this replica is chosen."""

        def run(now: datetime) -> object:
            if not self.chosen():
                return None if otherwise is None else otherwise(now)
            try:
                return act(now)
            except Exception:
                self.give_up()
                raise

        return run
