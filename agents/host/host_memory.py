"""Memory that is left on the machine, and what processes take of it."""

from collections.abc import Iterable
from contextlib import suppress

import psutil


def available_share() -> float:
    """Share of memory that can be had without swapping, 0..1."""
    memory = psutil.virtual_memory()
    return memory.available / memory.total


def proportional_bytes(pids: Iterable[int]) -> int:
    """Memory of these processes, shared pages counted once among them (PSS); resident memory where that is refused."""
    total = 0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            try:
                total += process.memory_full_info().pss
            except psutil.AccessDenied:
                total += process.memory_info().rss
    return total
