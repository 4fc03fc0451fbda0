"""Work that one of several replicas does for all, for as long as it lives.

Guarantee: of the replicas on one PostgreSQL at most one is chosen at a time (an advisory lock, held by a connection of
its own). When its process or that connection ends, or its work fails, another is chosen at its next look. A replica
that has lost its connection learns so at its next look, and may be at work until then: this spares the others the same
work, and what the work writes must be safe against two who do it. On SQLite there is one replica, and it is chosen.
"""

import logging
import threading
from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection, event, text
from sqlalchemy.exc import SQLAlchemyError

from controlplane.db.database import Database

logger = logging.getLogger(__name__)

Act = Callable[[datetime], object]


class SoleReplica:
    """Thread-safe. `key`: the same in every replica, and no other work's."""

    def __init__(self, database: Database, key: int) -> None:
        self._database = database
        self._key = key
        self._lock = threading.Lock()
        self._held: Connection | None = None
        event.listen(database.engine, "engine_disposed", lambda _: self.give_up())

    def chosen(self) -> bool:
        """Whether this replica is the one; it asks to be where nobody is."""
        if self._database.is_sqlite:
            return True
        with self._lock:
            if self._held is not None and not _answers(self._held):
                self._drop()
            if self._held is None:
                self._held = self._ask()
            return self._held is not None

    def give_up(self) -> None:
        """Let another be chosen, at once: it does not have to wait until the database sees a connection end."""
        with self._lock:
            if self._held is not None:
                self._unlock(self._held)
            self._drop()

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

    def _ask(self) -> Connection | None:
        connection = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            mine = connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": self._key}).scalar()
            if mine:
                connection.detach()  # Of no pool any more: to close it is to end the session, and the lock with it.
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def _unlock(self, held: Connection) -> None:
        try:
            held.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": self._key})
        except SQLAlchemyError as error:
            logger.info("the connection that holds a work has ended already: %s", error)

    def _drop(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()


def _answers(connection: Connection) -> bool:
    try:
        connection.execute(text("SELECT 1"))
    except SQLAlchemyError as error:
        logger.warning("another replica may be chosen: %s", error)
        return False
    return True
