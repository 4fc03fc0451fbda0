"""A latch that holds the fault of the writer's last commits: whether a report sent now can be expected to be kept.

Guarantee: set by a commit that the database refused. It lasts until a commit of its size has gone well, until
there is room again, or, where nobody sends anything, for `QUIET_S`: then only a try can tell. A small commit that still
fits a full disk's last block does not end it, one of half as many bytes does: reports differ a little.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from controlplane.db import fault
from controlplane.db.fault import DISK_FULL

QUIET_S = 30.0
ROOM_BYTES = 1 << 20
"""Free space, or four times the commit's bytes if that is more, in which a commit can be expected to go well."""


@dataclass(frozen=True)
class _Failed:
    name: str
    nbytes: int
    at_s: float
    free_bytes: int | None

    @property
    def room_bytes(self) -> int:
        return max(ROOM_BYTES, 4 * self.nbytes)


def nothing_known() -> int | None:
    return None


class WriteFault:
    """Thread-safe. free_bytes: of the disk that is written to, None where it is not known."""

    def __init__(
        self, free_bytes: Callable[[], int | None] = nothing_known, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._free_bytes = free_bytes
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failed: _Failed | None = None

    def failed(self, error: BaseException, nbytes: int) -> bool:
        """A commit of so many bytes was refused. True when this is news."""
        now_failed = _Failed(fault.named(error), nbytes, self._monotonic(), self._free_bytes())
        with self._lock:
            before, self._failed = self._failed, now_failed
        return before is None or before.name != now_failed.name

    def went_well(self, nbytes: int) -> None:
        with self._lock:
            if self._failed is not None and 2 * nbytes >= self._failed.nbytes:
                self._failed = None

    def name(self) -> str:
        """The fault's name; empty when there is none."""
        with self._lock:
            failed = self._failed
        if failed is None or self._is_over(failed):
            return ""
        return failed.name

    def _is_over(self, failed: _Failed) -> bool:
        free = self._free_bytes()
        if free is not None and failed.free_bytes is not None and free >= failed.free_bytes + failed.room_bytes:
            return True
        if failed.name == DISK_FULL and free is not None and free < failed.room_bytes:
            return False
        return self._monotonic() - failed.at_s > QUIET_S
