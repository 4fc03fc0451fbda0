"""Who listens on a port, and what its processes run with, as far as the system lets this user see.

Guarantee: what cannot be seen (another user's process, another container) is None, never a guess.
"""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agents.host.listener import listeners

if TYPE_CHECKING:
    import psutil

Told = TypeVar("Told")


def listens(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Does anybody take connections there?"""
    try:
        socket.create_connection((host, port), timeout_s).close()
    except OSError:
        return False
    return True


def listener(port: int) -> int | None:
    """The process that listens on a TCP port of this machine."""
    return next(iter(listeners(port)), None)


def command_line(pid: int) -> str | None:
    return " ".join(word for word in _ask(pid, lambda process: process.cmdline()) or () if word) or None


def environment(pid: int) -> dict[str, str] | None:
    """What the process was started with."""
    return _ask(pid, lambda process: process.environ())


def libraries(pids: list[int]) -> set[str] | None:
    """Names of the files mapped into these processes; None when none of them can be looked into."""
    told = [maps for pid in pids if (maps := _ask(pid, lambda process: process.memory_maps())) is not None]
    return {Path(region.path).name for maps in told for region in maps} if told else None


def _ask(pid: int, what: Callable[["psutil.Process"], Told]) -> Told | None:
    """None of a process that has ended or is another user's."""
    import psutil  # Comes with the extra `agent`; `tailwright doctor` itself runs without any.

    try:
        return what(psutil.Process(pid))
    except psutil.Error:
        return None
