"""Reading a client's request whole, or saying why it cannot be passed on."""

import asyncio
from typing import Any, Final

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.http_parser import RawRequestMessage

from agents.backends.vllm.proxy.options import Options
from agents.backends.vllm.proxy.passed_paths import passes
from agents.backends.vllm.proxy.proxy_errors import BodyStalled, UnsupportedVersion
from agents.backends.vllm.proxy.switchboard import Failure
from controlplane.contract.errors import BadRequest, NotFound, TailwrightError, TooLarge, UnknownHost
from controlplane.contract.host_names import answers_to
from controlplane.serving.limits import ServerLimits

_ASKED_VERSION: Final = "asked_version"


class Failed(Exception):
    """A request that ends with an error of the proxy's own."""

    def __init__(self, failure: Failure, error: TailwrightError) -> None:
        super().__init__(error.message)
        self.failure = failure
        self.error = error


def request_of(message: RawRequestMessage, *given: Any) -> web.BaseRequest:
    """aiohttp's request of a parsed head; its answer is one of HTTP/1.1 or 1.0, whatever version the head names.

    aiohttp would write the client's own version into the answer, be it HTTP/2.0 (RFC 9110, section 2.5).
    """
    version = message.version
    if version not in (HttpVersion10, HttpVersion11):
        message = message._replace(version=HttpVersion11, should_close=True)
    payload, protocol, writer, task = given
    request = web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())
    request[_ASKED_VERSION] = version
    return request


async def body_of(request: web.BaseRequest, limit: int, stall_s: float) -> bytes:
    """The whole body, of at most `limit` bytes, with no pause above `stall_s` within it, in the time that so many bytes
    may take (`ServerLimits.body_deadline_s`)."""
    length = request.content_length
    if length is not None and length > limit:
        raise Failed(Failure.TOO_LARGE, _too_large(limit))
    if not request.body_exists:
        return b""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    pieces, size = [], 0
    allowed, clock = ServerLimits(body_s=stall_s), asyncio.get_running_loop().time
    began_s = clock()
    try:
        while True:
            left_s = began_s + allowed.body_deadline_s(size) - clock()
            async with asyncio.timeout(min(stall_s, left_s)):
                piece = await request.content.readany()
            if not piece:
                break
            size += len(piece)
            if size > limit:
                raise Failed(Failure.TOO_LARGE, _too_large(limit))
            pieces.append(piece)
    except TimeoutError as error:
        raise Failed(Failure.STALLED, BodyStalled(size, stall_s)) from error
    except web.RequestPayloadError as error:
        raise Failed(Failure.MALFORMED, BadRequest(f"body: {error}", field="body")) from error
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def check_address(request: web.BaseRequest, options: Options) -> None:
    """Raises `Failed` for a path that is not for clients, a `Host` that names another server, a version not spoken."""
    version = request[_ASKED_VERSION]
    if version not in (HttpVersion10, HttpVersion11):
        raise Failed(Failure.MALFORMED, UnsupportedVersion(f"HTTP/{version.major}.{version.minor}"))
    host = request.headers.get("Host", "").encode("latin-1", "replace")
    if not answers_to(host, options.host_names):
        raise Failed(Failure.NOT_SERVED, UnknownHost(host))
    path = path_of(request)
    if not passes(path, options.passed_paths):
        message = f"{request.method} {path[:200]}: not for clients of this server; pass_paths lets a path through"
        raise Failed(Failure.NOT_SERVED, NotFound(message, field="path"))


def path_of(request: web.BaseRequest) -> str:
    """The request's target as it was written; of a whole URL its path (RFC 9112, section 3.2)."""
    written = request.path_qs
    if request.method != "CONNECT" and not written.startswith("/") and request.rel_url.absolute:
        written = request.rel_url.raw_path_qs
    if not written.startswith("/"):
        message = f"path: a server behind this proxy is asked for paths like /v1/models, not for {written!r}"
        raise Failed(Failure.MALFORMED, BadRequest(message, field="path"))
    return written


def _too_large(limit: int) -> TooLarge:
    message = f"body: more than {limit} bytes; send less, or start the proxy with a higher --body-limit-bytes"
    return TooLarge(message, field="body", limit_bytes=limit)
