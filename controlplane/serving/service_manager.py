"""sd_notify: a process tells the service manager that started it that it is ready, that it lives, and that it ends.

Guarantee: where nobody listens (no NOTIFY_SOCKET) nothing is said, and nothing that goes wrong here ends the process: a
message that cannot be sent is logged, once. Signs of life come from the event loop itself, at twice the rate that is
asked for, so that a process whose loop stands still is started again.

Source: sd_notify(3), sd_watchdog_enabled(3).
"""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping

log = logging.getLogger(__name__)

READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"


class ServiceManager:
    """Who started this process, as the environment says: systemd for a unit of `Type=notify`, else nobody."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        given = os.environ if environment is None else environment
        path = given.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        ours = given.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        microseconds = given.get("WATCHDOG_USEC", "")
        self.alive_within_s = int(microseconds) / 1e6 if ours and microseconds.isdecimal() else 0.0
        """How often at least a sign of life is wanted; 0: none is."""
        self._failed = False

    def tell(self, state: str) -> None:
        """Say `READY`, `STOPPING` or `ALIVE`."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
                sending.setblocking(False)
                sending.sendto(state.encode(), self._address)
        except OSError as error:
            if not self._failed:
                log.error("the service manager cannot be told %s: %s", state, error)
            self._failed = True

    async def keep_telling(self) -> None:
        """Signs of life for ever; returns at once where none are wanted."""
        while self._address and self.alive_within_s:
            self.tell(ALIVE)
            await asyncio.sleep(self.alive_within_s / 2)
