"""An answer as bytes, to what is refused before the framework has seen a request: the contract's error, the headers
that every answer has, and the end of the connection."""

import json
from http import HTTPStatus

from controlplane.serving.browser_policy import HEADERS
from controlplane.serving.limits import Refused, ServerLimits

RETRY_AFTER_S = 5
DRAIN_BYTES = 2 << 20
"""What a client still sends is read and dropped up to there, and for so long, so that it reads the answer and not a
reset. Twice the largest body of the API: who sends more does not get to know why."""
DRAIN_S = 2.0
_ALWAYS = {
    "Content-Type": "application/json",
    **HEADERS,
    "Cache-Control": "no-store",
    "Connection": "close",
}


def refusal(reason: Refused, limits: ServerLimits) -> bytes:
    """The whole answer: status line, head and body."""
    status, message = limits.message(reason)
    body = json.dumps({"error": {"code": reason.value, "message": message, "detail": {}}}).encode()
    fields = {**_ALWAYS, "Content-Length": str(len(body))}
    if status in (429, 503):
        fields["Retry-After"] = str(RETRY_AFTER_S)
    head = "".join(f"{name.lower()}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{head}\r\n".encode() + body
