"""The end of a server's work: its requests are answered, and what they took has been read."""

import asyncio
import logging
import time

from agents.backends.vllm.managed.front_door import FrontDoor
from agents.backends.vllm.managed.server import Server

log = logging.getLogger(__name__)

QUIET_S = 0.4
"""The plugin hands its events over within milliseconds: a stream silent for so long has been read to its end."""
_READ_OUT_WITHIN_S = 5.0
_POLL_S = 0.05


async def drain(server: Server, door: FrontDoor, timeout_s: float, *, followed: bool) -> bool:
    """Wait until no request is on it, at most `timeout_s`; then, where somebody follows its events, until all are read.

    False: time is up and requests are on it still.
    """
    deadline = time.monotonic() + timeout_s
    idle = await door.drained(server.url, timeout_s)
    while idle and server.alive() and (left := await server.busy()):
        if time.monotonic() >= deadline:
            log.warning("%s still has %d requests", server.url, left)
            idle = False
        await asyncio.sleep(_POLL_S)
    if followed:
        await _read_out(server)
    return idle


async def _read_out(server: Server) -> None:
    deadline = time.monotonic() + _READ_OUT_WITHIN_S
    while server.alive() and time.monotonic() < deadline:
        if server.readers and time.monotonic() - server.last_event >= QUIET_S:
            return
        await asyncio.sleep(_POLL_S)
