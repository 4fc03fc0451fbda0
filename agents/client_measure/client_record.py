"""One request as its client saw it.

Durations in seconds of one monotonic clock, counted from the moment the request was made; None: not seen. `started`
alone is of the wall clock, and only says in which window the request counts.
"""

from dataclasses import dataclass
from enum import StrEnum


class Ending(StrEnum):
    """How a request ended for its client."""

    COMPLETE = "complete"  # The whole answer was read.
    ERROR = "error"  # An exception, a refusal (status 400 and above), or an answer that broke off.
    CANCELLED = "cancelled"  # The client went away before the answer's end.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRecord:
    """e2e = pool + connect + tls + (server and network): the last two are told apart by `join`.

    A piece is what came at once with text in it, mostly one token; `output_tokens` is the server's own count where it
    told one. `error` is the exception's class name, or the HTTP status.
    """

    request_id: str
    started: float
    ending: Ending
    e2e_s: float
    model: str = ""
    operation: str = ""
    target: str = ""
    status: int | None = None
    finish_reason: str = ""
    error: str = ""
    ttft_s: float | None = None
    """To the first piece."""
    first_event_s: float | None = None
    """To the first event of the answer, which may hold no text yet: what the server's own ttft ends with."""
    gaps_s: tuple[float, ...] = ()
    """Between pieces; zero between those that came in one read."""
    pieces: int = 0
    output_tokens: int | None = None
    pool_s: float = 0.0
    """Waited in the client's own connection pool before anything was done."""
    connect_s: float | None = None
    """Name lookup and TCP connect; None on a connection that was open already."""
    lookup_s: float | None = None
    """The share of `connect_s` that is not the kernel's TCP handshake (Linux; None where it cannot be told)."""
    tls_s: float | None = None
    send_s: float | None = None
    """Writing the request."""
    first_byte_s: float | None = None
    """To the answer's head."""
    reused: bool | None = None
    """Whether the connection was open already; None where no connection was seen."""
    held_s: float = 0.0
    """The consumer kept the stream waiting so long in all."""
    behind_s: float = 0.0
    """The last bytes may have lain here unread for so long at most: an upper bound of what e2e is too long by."""

    @property
    def tokens(self) -> int:
        return self.pieces if self.output_tokens is None else self.output_tokens

    @property
    def tpot_s(self) -> float | None:
        """Seconds per token after the first; None with fewer than two."""
        if self.ttft_s is None or self.tokens < 2:
            return None
        return (self.e2e_s - self.ttft_s) / (self.tokens - 1)

    @property
    def setup_s(self) -> float:
        """What passed before the request could be written: pool, connect, TLS."""
        return self.pool_s + (self.connect_s or 0.0) + (self.tls_s or 0.0)
