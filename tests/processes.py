"""What tests that start processes share: ports that nobody has, and waiting until something is seen."""

import contextlib
import os
import random
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import httpx

START_LIMIT_S = 120.0
T = TypeVar("T")


_asking = httpx.Client(trust_env=False, headers={"Connection": "close"})
_given: set[int] = set()
"""No port is given twice: who asked first may not listen there yet."""


def free_ports(count: int) -> list[int]:
    """Different ones, from below the range of which the kernel takes one for any outgoing connection.

    A port of that range may be somebody's by the time that a process listens there. Of several workers of one test run
    each takes every so-many-th port, for the same reason.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    candidates = range(10_000 + worker, lowest if lowest > 12_000 else 65_536, workers)
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            port = random.SystemRandom().choice(candidates)
            probe = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                if port not in _given:
                    probe.bind(("127.0.0.1", port))
                    _given.add(port)
                    found.append(port)
    return found


def free_port() -> int:
    return free_ports(1)[0]


def wait_for(what: str, look: Callable[[], T], limit_s: float = START_LIMIT_S) -> T:
    """Poll `look` until it is true; a failed connection counts as not yet. Fails with what was last seen."""
    deadline = time.monotonic() + limit_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            found = last = look()
        except httpx.TransportError as error:
            last = error
        else:
            if found:
                return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {limit_s:g} s; last seen: {last!r}")


def answers(url: str) -> bool:
    """Whether GET `url` is answered 200 now. By one client for all: each new one reads the public authorities anew."""
    try:
        return _asking.get(url).status_code == 200
    except httpx.TransportError:
        return False


def let_others_enter(folder: Path) -> None:
    """Pytest's folders are their owner's alone, however many levels (xdist has one more) there are above one."""
    there = Path(tempfile.gettempdir()).resolve()
    for one in (folder.resolve(), *folder.resolve().parents):
        if one == there:
            return
        one.chmod(0o755)
