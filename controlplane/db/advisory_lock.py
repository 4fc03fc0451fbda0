"""An advisory lock of PostgreSQL that a connection of its own holds for as long as it stands.

Guarantee: a connection that has ended is found at the next `hold`. Whoever lets go says so: PostgreSQL sees that a
connection has ended only a while after it was closed.
"""

import logging
from collections.abc import Mapping

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import SQLAlchemyError

from controlplane.db.database import Database

logger = logging.getLogger(__name__)


class AdvisoryLock:
    """For one thread at a time. `take`: the statement that takes it, and is true where it has; `free`: the one that
    frees it; both with these parameters. `lost`: what it means for others that it is lost, for the log."""

    def __init__(
        self, database: Database, take: TextClause, free: TextClause, parameters: Mapping[str, int], *, lost: str
    ) -> None:
        self._database = database
        self._take, self._free, self._parameters = take, free, parameters
        self._lost = lost
        self._connection: Connection | None = None

    def hold(self) -> bool:
        """Take it, unless it is held already. Whether it is held now."""
        if self._connection is not None and not self._stands(self._connection):
            self._drop()
        if self._connection is None:
            self._connection = self._taken()
        return self._connection is not None

    def let_go(self) -> None:
        """Free it, if it is held."""
        if self._connection is not None:
            try:
                self._connection.execute(self._free, self._parameters)
            except SQLAlchemyError as error:
                logger.warning("%s until its connection ends: %s", self._lost, error)
        self._drop()

    def _taken(self) -> Connection | None:
        connection = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            if connection.execute(self._take, self._parameters).scalar():
                connection.detach()  # Of no pool any more: to close it is to end the session, and the lock with it.
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def _stands(self, connection: Connection) -> bool:
        try:
            connection.execute(text("SELECT 1"))
        except SQLAlchemyError as error:
            logger.warning("the connection of an advisory lock has ended, %s: %s", self._lost, error)
            return False
        return True

    def _drop(self) -> None:
        held, self._connection = self._connection, None
        if held is not None:
            held.close()
