"""Peers that are gone without a word (a machine without power, a cut cable), found by the system on a connection that
both sides keep open, in place of pings of the WebSocket's own: thousands of those cost more than all heartbeats."""

import socket
from typing import Protocol

IDLE_S, PROBE_S, PROBES = 13, 9, 3
"""The first wait is one that Linux times well. What is due in more than 16 s (at 250 ticks a second) it lets fire
together, 2 s of it at a time, and the probes of 10,000 connections in one tick are more than its queue takes."""
GONE_S = IDLE_S + PROBES * PROBE_S


class HasOptions(Protocol):
    """A socket, or an event loop's stand-in for one."""

    def setsockopt(self, level: int, name: int, value: int, /) -> None: ...


def detect(connection: HasOptions) -> None:
    """End this TCP connection, with an error of it, once its peer's machine has said nothing for `GONE_S` (RFC 1122,
    4.2.3.6, and RFC 5482). Where the system has no such setting its own times count, which are hours."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {
        "TCP_KEEPIDLE": IDLE_S,
        "TCP_KEEPINTVL": PROBE_S,
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": 1000 * GONE_S,  # While something sent is not acknowledged, nothing probes.
    }
    for name, value in wanted.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
