"""What tests that start processes share: ports that nobody has, and waiting until something is seen."""

import contextlib
import socket
import time
from collections.abc import Callable
from typing import TypeVar

import httpx

START_LIMIT_S = 120.0
T = TypeVar("T")


def free_ports(count: int) -> list[int]:
    """Different ones."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


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
