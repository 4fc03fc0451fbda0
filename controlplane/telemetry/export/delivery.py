"""One HTTP attempt of an exporter, and what its failure means.

Guarantee: `post` raises `Refused` only where sending the same again could never help (the body is at fault), and
`Undelivered` for everything else, so that nothing is given up for a wrong token, a restart or a full receiver.
"""

from collections.abc import Mapping

import httpx

from controlplane.contract.clock import Clock
from controlplane.contract.retry import retry_after_s

TIMEOUT_S = 10.0
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


def post(http: httpx.Client, url: str, body: bytes, headers: Mapping[str, str], clock: Clock) -> httpx.Response:
    """Send once. Returns the 2xx answer; raises `Undelivered` or `Refused`."""
    try:
        answer = http.post(url, content=body, headers=dict(headers), follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Undelivered(type(error).__name__, f"{type(error).__name__}: {error}") from error
    if answer.is_success:
        return answer
    message = f"answered {answer.status_code}: {answer.text[:SHOWN]}"
    if answer.status_code in BODY_AT_FAULT:
        raise Refused(message)
    wait_s = retry_after_s(answer.headers.get("Retry-After"), clock()) or 0.0
    raise Undelivered(f"HTTP {answer.status_code}", message, wait_s)
