"""How long threads have waited for a processor that others had, and how long this process's did: what disturbs a
measurement.

Linux tells it for each thread (/proc/PID/task/TID/schedstat). A kernel that does not gives zero, always: nothing is
then known to be disturbed. What a hypervisor takes is not in it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TASKS = Path("/proc/self/task")


def ran_and_waited_ns(schedstat: bytes) -> tuple[int, int]:
    """On a processor, and ready but without one."""
    ran, waited, _ = schedstat.split()
    return int(ran), int(waited)


class RunQueue:
    """The threads that there were when it was opened."""

    def __init__(self, files: list[int]) -> None:
        self._files = files

    def waited_s(self) -> float:
        """Seconds in all, since each thread began."""
        return sum(self._nanoseconds(file) for file in self._files) / 1e9

    @staticmethod
    def _nanoseconds(file: int) -> int:
        try:
            return ran_and_waited_ns(os.pread(file, 128, 0))[1]
        except ProcessLookupError:  # The thread has ended.
            return 0


@contextmanager
def run_queue() -> Iterator[RunQueue]:
    files: list[int] = []
    try:
        for task in sorted(_TASKS.iterdir()) if _TASKS.exists() else ():
            try:
                files.append(os.open(task / "schedstat", os.O_RDONLY | os.O_CLOEXEC))
            except FileNotFoundError:  # A thread that has ended, or a kernel that does not tell.
                continue
        yield RunQueue(files)
    finally:
        for file in files:
            os.close(file)
