"""One HTTP attempt of an exporter, and what its failure means.

Guarantee: `post` raises `Refused` only where sending the same again could never help (the body is at fault), and
`Undelivered` for everything else, so that nothing is given up for a wrong token, a restart or a full receiver. What
they say holds no more of the URL than its scheme and host.
"""

from collections.abc import Mapping

import httpx

from controlplane.contract.clock import Clock
from controlplane.contract.retry import retry_after_s
from controlplane.contract.shown_url import without
from controlplane.outgoing import Answer, exchange

DEADLINE_S = 10.0
"""For the whole of one request, its answer included."""
MOST_BYTES = 64 << 10
"""Of an answer: a partial success is far shorter, and nothing is decompressed."""
BODY_AT_FAULT = frozenset({400, 413, 422})
SHOWN = 200


class Undelivered(Exception):
    """The receiver did not take it now. `kind` is for those who may not see what a receiver answers."""

    def __init__(self, kind: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s


class Refused(Exception):
    """The receiver will never take this body."""


def post(http: httpx.Client, url: str, body: bytes, headers: Mapping[str, str], clock: Clock) -> Answer:
    """Send once. Returns the 2xx answer with its beginning; raises `Undelivered` or `Refused`."""
    try:
        answer = exchange(http, url, body, headers, deadline_s=DEADLINE_S, most_bytes=MOST_BYTES)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Undelivered(type(error).__name__, without(url, f"{type(error).__name__}: {error}")) from error
    if answer.is_success:
        return answer
    message = f"answered {answer.status}: {answer.body[:SHOWN].decode('utf-8', 'replace')}"
    if answer.status in BODY_AT_FAULT:
        raise Refused(message)
    wait_s = retry_after_s(answer.headers.get("Retry-After"), clock())
    raise Undelivered(f"HTTP {answer.status}", message, wait_s or 0.0)
