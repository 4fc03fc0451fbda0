"""One request to somebody else's server under one deadline: a watchdog ends the connection when it has passed.

Guarantees: `exchange` returns or raises within its deadline (the look-up of the name apart, which no program can cut
short; after one that took too long nothing is sent), however the receiver drips its headers or its body; of a body no
more is read than was asked for, nothing is ever decompressed; redirects are not followed.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from controlplane.outgoing.addresses import AddressPolicy
from controlplane.outgoing.deadlines import Deadlines
from controlplane.outgoing.guarded_transport import GuardedTransport, public_authorities

CONNECTED = ("connection.connect_tcp.complete", "connection.start_tls.complete", "http_proxy.start_tls.complete")
"""The events of httpx's `trace` extension that hand over a new stream."""
DEADLINES = Deadlines()


class DeadlineExceeded(httpx.TimeoutException):
    """The exchange was not over in time; whether the receiver has taken the request is not known."""


@dataclass(frozen=True)
class Answer:
    """`body`: its beginning, as it came, at most as much as was asked for."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


def new_client(
    timeout_s: float, policy: AddressPolicy, proxy: str | None = None, tls: ssl.SSLContext | None = None
) -> httpx.Client:
    """A client for `exchange`. A connection is for one exchange: its end is the deadline's only means.

    `proxy`: goes out by it and lets it look names up; the addresses are then its to check.
    """
    if proxy is not None:
        return httpx.Client(
            proxy=proxy,
            verify=public_authorities(),
            trust_env=False,
            timeout=timeout_s,
            limits=httpx.Limits(max_keepalive_connections=0),
        )
    return httpx.Client(transport=GuardedTransport(policy, tls), trust_env=False, timeout=timeout_s)


def exchange(
    http: httpx.Client,
    url: str,
    content: bytes,
    headers: Mapping[str, str],
    *,
    deadline_s: float,
    most_bytes: int = 0,
    method: Literal["POST", "GET"] = "POST",
) -> Answer:
    """Send `content`. Raises httpx's errors: `DeadlineExceeded`, `httpx.HTTPError`, `httpx.InvalidURL`."""
    watchdog = Watchdog(deadline_s)
    try:
        with (
            watchdog,
            http.stream(
                method,
                url,
                content=content,
                headers={**headers, "Accept-Encoding": "identity"},
                timeout=deadline_s,
                follow_redirects=False,
                extensions={"trace": watchdog.see},
            ) as response,
        ):
            return Answer(response.status_code, response.headers, _beginning(response, most_bytes))
    except httpx.HTTPError as error:
        if watchdog.over:
            raise DeadlineExceeded(f"no whole answer within {deadline_s:g} s") from error
        raise


def _beginning(response: httpx.Response, most_bytes: int) -> bytes:
    body = bytearray()
    if most_bytes:
        assert isinstance(response.stream, Iterable)
        for piece in response.stream:  # As it came: httpx's own readers decompress, or want all of it.
            body += piece
            if len(body) >= most_bytes:
                break
    return bytes(body[:most_bytes])


class Watchdog:
    """Shuts the exchange's socket down at the deadline: whoever waits on it then fails at once.

    httpx tells it of the socket by `see`; whoever has one at hand, by `hold`.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._fired = False
        self._call_off: Callable[[], None] | None = None
        self._ends_at = 0.0

    def __enter__(self) -> "Watchdog":
        self._ends_at = time.monotonic() + self._deadline_s
        self._call_off = DEADLINES.at(self._ends_at, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        if self._call_off is not None:
            self._call_off()

    @property
    def over(self) -> bool:
        return self._fired or time.monotonic() >= self._ends_at

    def see(self, event: str, info: Mapping[str, Any]) -> None:
        """httpx's `trace`: called at each step, with what came of it."""
        if event in CONNECTED:
            with self._lock:
                self._socket = info["return_value"].get_extra_info("socket")
        if self.over and event.endswith((".complete", "send_request_headers.started")):
            raise DeadlineExceeded(f"not connected within {self._deadline_s:g} s")

    def hold(self, held: socket.socket) -> None:
        """This is the connection from now on. Raises `DeadlineExceeded` when its time is over already."""
        with self._lock:
            self._socket = held
            if self._fired:
                raise DeadlineExceeded(f"not connected within {self._deadline_s:g} s")

    def _end(self) -> None:
        with self._lock:
            self._fired = True
            if self._socket is not None:
                with suppress(OSError):  # It was closed in this very moment.
                    self._socket.shutdown(socket.SHUT_RDWR)
