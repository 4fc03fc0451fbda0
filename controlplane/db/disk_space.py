"""Free space where the database's file is (statvfs), and whether it runs low.

Guarantee: that it runs low, and that it no longer does, is logged once each, by whoever looks.
"""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from controlplane.db.database import Database

logger = logging.getLogger(__name__)

LOW_SHARE = 0.05
LOW_BYTES = 256 << 20
"""Less free than the smaller of both is low: five percent of a large disk is still plenty."""


class Space(NamedTuple):
    free_bytes: int
    total_bytes: int

    @property
    def low(self) -> bool:
        return self.free_bytes < min(LOW_BYTES, LOW_SHARE * self.total_bytes)


def space_of(folder: Path) -> Space:
    found = os.statvfs(folder)
    return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


class DiskSpace:
    """Of a database whose file is here; a server's disk is its own to watch, and nothing is known of it."""

    def __init__(self, database: Database, look: Callable[[Path], Space] = space_of) -> None:
        file = database.engine.url.database if database.is_sqlite else None
        self._folder = Path(file).parent if file else None
        self._look = look
        self._lock = threading.Lock()
        self._low = False

    def look(self) -> Space | None:
        """None where nothing is known."""
        if self._folder is None:
            return None
        try:
            space = self._look(self._folder)
        except OSError as error:
            logger.warning("the free space of %s cannot be read: %s", self._folder, error)
            return None
        with self._lock:
            changed, self._low = space.low != self._low, space.low
        if changed:
            say = logger.warning if space.low else logger.info
            say(
                "the disk of %s %s: %d of %d MB are free",
                self._folder,
                "is nearly full" if space.low else "has room again",
                space.free_bytes >> 20,
                space.total_bytes >> 20,
            )
        return space

    def low(self) -> bool:
        space = self.look()
        return space is not None and space.low

    def free_bytes(self) -> int | None:
        space = self.look()
        return None if space is None else space.free_bytes
