"""What a request waited for before its answer came: pool, name lookup, TCP connect, TLS handshake, writing.

Read from httpcore's `trace` extension (https://www.encode.io/httpcore/extensions/#trace), which httpx and httpx2 hand
through: events named PART.STEP.started, .complete and .failed.
"""

import socket
import struct
import sys
from typing import Any

_TCP_INFO_LENGTH = 104
_ROUND_TRIP_AT = 68  # tcpi_rtt and tcpi_total_retrans in Linux's struct tcp_info (include/uapi/linux/tcp.h).
_RETRANSMITTED_AT = 100


class ConnectionMarks:
    """Of one exchange that began at `began`; steps that come twice (another address, another try) add up."""

    __slots__ = ("_began", "_since", "connect_s", "first_byte_s", "pool_s", "round_trip_s", "seen", "send_s", "tls_s")

    def __init__(self, began: float) -> None:
        self._began = began
        self._since: dict[str, float] = {}
        self.pool_s = 0.0
        self.seen = False
        self.connect_s: float | None = None
        self.round_trip_s: float | None = None
        self.tls_s: float | None = None
        self.send_s: float | None = None
        self.first_byte_s: float | None = None

    def note(self, event: str, now: float, info: dict[str, Any]) -> None:
        """One event of the trace."""
        if not self.seen:
            self.seen, self.pool_s = True, now - self._began
        name, _, state = event.rpartition(".")
        step = name.rpartition(".")[2]
        if state == "started":
            self._since[step] = now
            return
        took = now - self._since.get(step, now)
        if step in ("connect_tcp", "connect_unix_socket"):
            self.connect_s = (self.connect_s or 0.0) + took
            if step == "connect_tcp" and state == "complete":
                self.round_trip_s = handshake_s(info.get("return_value"))
        elif step == "start_tls":
            self.tls_s = (self.tls_s or 0.0) + took
        elif step in ("send_request_headers", "send_request_body"):
            self.send_s = (self.send_s or 0.0) + took
        elif step == "receive_response_headers" and state == "complete":
            self.first_byte_s = now - self._began

    @property
    def reused(self) -> bool | None:
        return self.connect_s is None if self.seen else None

    @property
    def lookup_s(self) -> float | None:
        if self.connect_s is None or self.round_trip_s is None:
            return None
        return max(0.0, self.connect_s - self.round_trip_s)


def handshake_s(stream: Any) -> float | None:
    """The kernel's measure of a fresh connection's TCP handshake; None where it cannot be had, or where the handshake
    was repeated, as the kernel then leaves the first try out."""
    if stream is None or sys.platform != "linux":
        return None
    connected = stream.get_extra_info("socket")
    if connected is None:
        return None
    try:
        told = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_LENGTH)
    except OSError:  # Closed meanwhile, or no TCP socket.
        return None
    if len(told) < _TCP_INFO_LENGTH:
        return None
    (round_trip_us,) = struct.unpack_from("=I", told, _ROUND_TRIP_AT)
    (retransmitted,) = struct.unpack_from("=I", told, _RETRANSMITTED_AT)
    return round_trip_us / 1e6 if round_trip_us and not retransmitted else None
