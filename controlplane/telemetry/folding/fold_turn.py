"""Whose turn it is to change frames: the folds of what was reported, or a load of history.

Guarantee: one at a time, in this process and among all replicas on one PostgreSQL; within the process in the order in
which they asked, so that neither keeps the other waiting for longer than one turn.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import text

from controlplane.db.database import Database

ADVISORY_LOCK = 0x7472696D  # "trim"
ASK_AGAIN_S = 0.05


class FoldTurn:
    """Thread-safe."""

    def __init__(self, database: Database, sleep: Callable[[float], object] = time.sleep) -> None:
        self._database = database
        self._sleep = sleep
        self._changed = threading.Condition()
        self._asked = 0
        self._served = 0

    @contextmanager
    def take(self, patience_s: float = 0.0) -> Iterator[bool]:
        """Wait for the turn in this process, and hold it for the block. False where another replica has it, and has
        not given it up within `patience_s`."""
        with self._changed:
            mine = self._asked
            self._asked += 1
            self._changed.wait_for(lambda: self._served == mine)
        try:
            with self._among_replicas(patience_s) as granted:
                yield granted
        finally:
            with self._changed:
                self._served += 1
                self._changed.notify_all()

    @contextmanager
    def _among_replicas(self, patience_s: float) -> Iterator[bool]:
        if self._database.is_sqlite:
            yield True
            return
        engine = self._database.engine.execution_options(isolation_level="AUTOCOMMIT")
        give_up_at = time.monotonic() + patience_s
        with engine.connect() as connection:
            asking = text("SELECT pg_try_advisory_lock(:key)")
            while not (mine := bool(connection.execute(asking, {"key": ADVISORY_LOCK}).scalar_one())):
                if time.monotonic() >= give_up_at:
                    break
                self._sleep(ASK_AGAIN_S)
            try:
                yield mine
            finally:
                if mine:
                    connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": ADVISORY_LOCK})
