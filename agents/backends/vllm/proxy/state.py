"""What the proxy tells of itself over its control socket, and the limits it runs with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.contract.errors import BadRequest


@dataclass(frozen=True)
class ProxyState:
    """One answer of `GET /state`. Counts are since the proxy's start.

    `in_flight` has the servers that are busy, and the current target.
    `waiting` requests have not been sent on: the proxy is held, has no target yet, or its target does not take them.
    `failed` counts, by reason, the requests to which the proxy had to give an error of its own, or whose answer it had
    to break off. `left` counts the clients that went away before their answer was whole; `refused`, by
    reason (`serving.limits.Refused`), the connections that were not served.
    """

    target: str | None
    held: bool
    waiting: int
    waiting_bytes: int
    in_flight: Mapping[str, int]
    requests: int
    resent: int  # Attempts made again because the server had not taken the request.
    failed: Mapping[str, int]
    left: int
    refused: Mapping[str, int]
    held_since: float | None  # Unix seconds.
    held_seconds_total: float  # With the hold that is running.
    hold_s: float
    stopping: bool
    host: str
    port: int
    pid: int
    version: str
    tls: bool = False
    """Whether clients come by TLS. A proxy from before that was told runs on when its agent is upgraded."""
    target_ca_file: str = ""
    """Whom it trusts as a server behind https; empty: the public authorities. Not told by an older proxy either."""

    @classmethod
    def parse(cls, told: Any) -> "ProxyState":
        """Raises `BadRequest` when `told` is not such an answer: something else listens on the socket."""
        if not isinstance(told, dict) or (
            missing := cls.__dataclass_fields__.keys() - told.keys() - {"tls", "target_ca_file"}
        ):
            raise BadRequest(f"not a proxy's state: {sorted(missing) if isinstance(told, dict) else told!r} is missing")
        return cls(**{name: told[name] for name in cls.__dataclass_fields__ if name in told})
