"""What the proxy itself says to a client, in the contract's form.

TailwrightError
+-- BodyStalled         408  the rest of the request's body does not come
+-- ServerLost          502  the server took the request and went away before its answer began
+-- Unavailable         503  the request waited too long, or there is no room to wait; see `retry_after_s`
+-- UnsupportedVersion  505  the request is no HTTP/1.0 or 1.1
"""

from aiohttp import web

from agents.backends.vllm.proxy.switchboard import Failure, Limits
from controlplane.contract.errors import TailwrightError, Unavailable


class BodyStalled(TailwrightError):
    status = 408
    code = "body_stalled"

    def __init__(self, received_bytes: int, after_s: float) -> None:
        super().__init__(
            f"body: nothing more came for {after_s:g} s after {received_bytes} bytes; send it whole",
            field="body",
            received_bytes=received_bytes,
        )


class ServerLost(TailwrightError):
    status = 502
    code = "server_lost"

    def __init__(self, url: str, why: str) -> None:
        super().__init__(
            f"the server {url} went away before its answer began ({why}); it may have acted on the request: "
            "send it again if that does no harm",
            reason=Failure.LOST,
            target=url,
        )


class UnsupportedVersion(TailwrightError):
    status = 505
    code = "unsupported_version"

    def __init__(self, version: str) -> None:
        super().__init__(f"version: this server speaks HTTP/1.1 and HTTP/1.0, not {version}", field="version")


def refusal(failure: Failure, target: str | None, limits: Limits, retry_after_s: int) -> Unavailable:
    """The 503 for a request that was sent to nobody."""
    whys = {
        Failure.HELD: f"the server is being exchanged, and the request waited {limits.hold_s:g} s for the new one",
        Failure.NO_TARGET: f"the proxy was told no server within {limits.hold_s:g} s",
        Failure.NOT_TAKEN: f"the server {target} could not be reached for {limits.hold_s:g} s",
        Failure.NO_ROOM: (
            f"no server can take the request now, and as many wait already as may "
            f"({limits.waiting} requests, {limits.waiting_bytes} bytes)"
        ),
        Failure.STOPPING: "the proxy is ending, and no server can take the request now",
    }
    message = f"{whys[failure]}; nothing was sent on: try again in {retry_after_s} s"
    return Unavailable(message, retry_after_s=retry_after_s, reason=failure)


def error_answer(error: TailwrightError, *, close: bool = False) -> web.Response:
    """The contract's form of an error, with Retry-After where the error tells one."""
    answer = web.json_response(error.body(), status=error.status, headers={"Server": "tailwright-vllm-proxy"})
    if "retry_after_s" in error.detail:
        answer.headers["Retry-After"] = str(error.detail["retry_after_s"])
    if close:
        answer.force_close()
    return answer
