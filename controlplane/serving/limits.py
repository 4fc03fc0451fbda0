"""What one client may hold of a server: bytes, time and connections. Pure but for the counting.

Guarantee: whoever sends less than is asked for, or more, or slower, loses the connection after a time and a size that
are stated here; each refusal is counted by its reason.
"""

from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Refused(StrEnum):
    """Why a connection or a request was not served."""

    MALFORMED = "malformed"  # It is no HTTP.
    HEAD_BYTES = "head_bytes"
    HEAD_FIELDS = "head_fields"
    HEAD_TIME = "head_time"
    BODY_TIME = "body_time"
    CONNECTIONS = "connections"
    CONNECTIONS_OF_ADDRESS = "connections_of_address"
    CROSS_SITE = "cross_site"  # A page of another site, or a form that is not this session's; answered 403.
    HOST = "host"  # `Host` names another server; answered by `host_gate`.
    CERTIFICATE_REVOKED = "certificate_revoked"  # In the handshake or later: no answer, the connection ends.
    NODE_CERTIFICATE = "node_certificate"  # A node's token without its certificate; answered by `auth`.
    WEBSOCKET_TEXT = "websocket_text"  # A WebSocket's text that is no UTF-8: closed by `guarded_websocket`.
    OPAMP_FIRST_MESSAGE = "opamp_first_message"  # A WebSocket that said nothing; this and the next: `fleet.opamp`.
    OPAMP_IDLE = "opamp_idle"
    OPAMP_BUSY = "opamp_busy"  # Too many agents came at once: this one is to come again.
    OPAMP_REPLACED = "opamp_replaced"  # A newer WebSocket of the same node was opened.
    OPAMP_RIVAL = "opamp_rival"  # Two agents speak for one node: the report of the older one.
    QUERY_TIME = "query_time"  # This and the next: `telemetry.queries.budget`.
    ANSWER_BYTES = "answer_bytes"
    QUERIES_AT_ONCE = "queries_at_once"


STATUS = {
    Refused.MALFORMED: (400, "the request is not HTTP/1.1 (RFC 9112)"),
    Refused.HEAD_BYTES: (431, "the request's head is larger than {head_bytes} bytes"),
    Refused.HEAD_FIELDS: (431, "the request has more than {head_fields} header fields"),
    Refused.HEAD_TIME: (408, "the request's head was not whole after {head_s:g} s"),
    Refused.BODY_TIME: (408, "the request's body came too slowly"),
    Refused.CONNECTIONS: (503, "more than {connections} connections"),
    Refused.CONNECTIONS_OF_ADDRESS: (429, "more than {connections_of_address} connections of one address"),
}
"""HTTP status (RFC 6585 and RFC 9110) and message."""


@dataclass(frozen=True)
class ServerLimits:
    """Bytes, seconds, connections. A body may take `body_s`, and what it needs at `body_bytes_per_s` beyond."""

    head_bytes: int = 64 * 1024
    head_fields: int = 100
    head_s: float = 10.0
    body_s: float = 60.0
    body_bytes_per_s: int = 16 * 1024
    connections: int = 16_384
    connections_of_address: int = 4_096

    def message(self, reason: Refused) -> tuple[int, str]:
        """Status and message of a refusal."""
        status, text = STATUS[reason]
        return status, text.format(**vars(self))

    def body_deadline_s(self, received: int) -> float:
        """Seconds after the head by which a body of which so many bytes have come must have gone on."""
        return self.body_s + received / self.body_bytes_per_s


@dataclass
class Doorkeeper:
    """Counts the open connections of a server by address, and refusals by reason. `exempt`: trusted proxies, through
    which everybody may come; what is under way of the clients behind them counts by theirs. `tell` is called with the
    reason and the address of a refusal of access, not of a limit."""

    limits: ServerLimits = field(default_factory=ServerLimits)
    exempt: Container[str] = frozenset()
    refused: Counter[str] = field(default_factory=Counter)
    open: Counter[str] = field(default_factory=Counter)
    under_way: Counter[str] = field(default_factory=Counter)
    tell: Callable[[str, str], None] | None = None

    def enter(self, address: str) -> Refused | None:
        """A connection comes; one that is refused must leave as well."""
        self.open[address] += 1
        if self.open.total() > self.limits.connections:
            return self.refuse(Refused.CONNECTIONS)
        if self.open[address] > self.limits.connections_of_address and address not in self.exempt:
            return self.refuse(Refused.CONNECTIONS_OF_ADDRESS)
        return None

    def leave(self, address: str) -> None:
        _take_one(self.open, address)

    def begin(self, address: str) -> Refused | None:
        """A request comes of a client behind a trusted proxy; one that is refused must end as well."""
        self.under_way[address] += 1
        if self.under_way[address] > self.limits.connections_of_address:
            return self.refuse(Refused.CONNECTIONS_OF_ADDRESS)
        return None

    def end(self, address: str) -> None:
        _take_one(self.under_way, address)

    def refuse(self, reason: Refused) -> Refused:
        self.refused[reason] += 1
        return reason

    def refuse_access(self, reason: Refused, address: str) -> None:
        """Refuse who may not come in, whatever the limits are."""
        self.refuse(reason)
        if self.tell is not None:
            self.tell(reason.value, address or "unknown")


def address_in(scope: Mapping[str, Any]) -> str:
    """Where a request of this ASGI scope came from; empty where that is not known."""
    return str(scope["client"][0]) if scope.get("client") else ""


def _take_one(counts: Counter[str], address: str) -> None:
    counts[address] -= 1
    if not counts[address]:
        del counts[address]
