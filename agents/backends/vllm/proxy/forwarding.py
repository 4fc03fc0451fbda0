"""Passing requests on: from a client's connection to a server's, and the answer back as it comes.

When a request may be sent more than once: its body is kept until the head (status line and headers) of an answer has
come, and until then it is sent again, on what is then the target, when there was no connection, or when the kernel
tells that the server closed one without having read the whole request (see `upstream`). Never after an answer's head.
A connection that ends plainly before the head had its request read whole, so it may have been acted on: the client gets
a 502 and decides for itself. Only the methods that RFC 9110 calls idempotent (GET, HEAD, OPTIONS, TRACE, PUT, DELETE)
are then tried once more, as its section 9.2.2 allows; vLLM's completions are POST.

The body is read whole before any of it is sent on; answers stream. A client that goes away closes the connection to the
server in the same moment, from which vLLM knows to abort the request. Trailers and protocol upgrades are not passed on.
"""

import asyncio
import io
import logging
import socket
import ssl
import struct
from typing import Final

import aiohttp
from aiohttp import web
from yarl import URL

from agents.backends.vllm.proxy import headers, upstream
from agents.backends.vllm.proxy.incoming import Failed, body_of, check_address, path_of
from agents.backends.vllm.proxy.options import Options
from agents.backends.vllm.proxy.proxy_errors import ServerLost, error_answer, refusal
from agents.backends.vllm.proxy.switchboard import Failure, Go, Refuse, Switchboard, Ticket, Wait
from controlplane.contract.errors import BadRequest

PROBE_FIRST_S: Final = 0.05
PROBE_LONGEST_S: Final = 0.5
RETRY_AFTER_S: Final = 5
LARGE_BODY_BYTES: Final = 2**20  # Written in pieces, so that one request does not hold up the others.

log = logging.getLogger("tailwright.vllm_proxy")


class Forwarder:
    """The handler of every client request. All changes of its switchboard must be told by `changed`."""

    def __init__(
        self, board: Switchboard, servers: aiohttp.ClientSession, options: Options, trusted: ssl.SSLContext
    ) -> None:
        """trusted: who vouches for a target behind https, as in `servers`."""
        self._board = board
        self._servers = servers
        self._trusted = trusted
        self._options = options
        self._change = asyncio.Event()
        self._now = asyncio.get_running_loop().time
        self._probe: asyncio.Task[None] | None = None
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def changed(self) -> None:
        """Let every waiting request ask the switchboard again."""
        self._change.set()
        self._change = asyncio.Event()

    async def idle(self) -> None:
        """Return in a moment when no request is open."""
        await self._idle.wait()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        ticket = self._board.arrive(0, self._now())
        self._open += 1
        self._idle.clear()
        try:
            return await self._answer(request, ticket)
        finally:
            if not ticket.ended:  # Cancelled: the client is gone, or the process ends.
                self._board.end(ticket, left=True)
            self._open -= 1
            if not self._open:
                self._idle.set()

    async def _answer(self, request: web.BaseRequest, ticket: Ticket) -> web.StreamResponse:
        try:
            check_address(request, self._options)
            body = await body_of(request, self._options.body_limit_bytes, self._options.body_stall_s)
            ticket.size = len(body)
            answer = await self._ask(request, body, ticket)
        except Failed as failed:
            self._board.end(ticket, failed.failure)
            return error_answer(failed.error, close=self._board.stopping)
        del body
        try:
            return await self._pass_back(request, answer, ticket)
        finally:
            answer.close()  # Does nothing to a connection whose answer was read to its end: it is back in the pool.

    async def _ask(self, request: web.BaseRequest, body: bytes, ticket: Ticket) -> aiohttp.ClientResponse:
        """The answer of a server, its head read. Waits and tries again as the switchboard says."""
        sent = headers.onward(request.headers, request.remote)
        path = path_of(request)
        while True:
            match self._board.place(ticket, self._now()):
                case Wait(until):
                    await self._change_or(until)
                case Refuse(failure):
                    raise Failed(failure, refusal(failure, self._board.target, self._board.limits, RETRY_AFTER_S))
                case Go(url):
                    try:
                        return await self._servers.request(
                            request.method,
                            URL(url + path, encoded=True),
                            headers=sent,
                            data=io.BytesIO(body) if len(body) > LARGE_BODY_BYTES else body or None,
                            allow_redirects=False,
                        )
                    except (aiohttp.ClientError, OSError, TimeoutError) as error:
                        self._not_answered(ticket, url, error)
                    except ValueError as error:  # A header or path that cannot be written.
                        raise Failed(Failure.MALFORMED, BadRequest(f"headers: {error}", field="headers")) from error

    def _not_answered(self, ticket: Ticket, url: str, error: Exception) -> None:
        """Make the request ready to be placed again, or raise."""
        if not upstream.read_by_nobody(error):
            why = str(error) or type(error).__name__
            log.warning("%s took a request and went away before its answer began: %s", url, why)
            raise Failed(Failure.LOST, ServerLost(url, why)) from error
        none = upstream.unreachable(error)
        self._board.not_taken(ticket, self._now(), unreachable=none)
        if none and self._board.unreachable and (self._probe is None or self._probe.done()):
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            log.warning("%s cannot be reached, requests wait: %s", url, cause)
            self._probe = asyncio.create_task(self._probe_target())

    async def _probe_target(self) -> None:
        """Knock at the target until it takes a connection, or nobody waits for it."""
        pause = PROBE_FIRST_S
        while self._board.unreachable and (url := self._board.target) is not None:
            address = URL(url)
            try:
                async with asyncio.timeout(upstream.CONNECT_S):
                    _, writer = await asyncio.open_connection(
                        address.host, address.port, ssl=self._trusted if address.scheme == "https" else None
                    )
            except (OSError, TimeoutError):
                if not self._board.waiting:
                    self._board.reachable()  # The next request finds out for itself.
                    break
                await asyncio.sleep(pause)
                pause = min(2 * pause, PROBE_LONGEST_S)
                continue
            writer.close()
            if url == self._board.target and self._board.unreachable:
                log.info("%s takes connections again, %d requests go on", url, self._board.waiting)
                self._board.reachable()
                self.changed()

    async def _change_or(self, until: float) -> None:
        try:
            async with asyncio.timeout_at(until):
                await self._change.wait()
        except TimeoutError:
            return

    async def _pass_back(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse, ticket: Ticket
    ) -> web.StreamResponse:
        passed = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers.back(answer.headers))
        if self._board.stopping:
            passed.force_close()
        failure = None
        try:
            await passed.prepare(request)
            read, write = answer.content.readany, passed.write
            while True:
                try:
                    piece = await read()
                except (aiohttp.ClientError, OSError) as error:
                    failure = Failure.BROKEN
                    log.warning("%s broke off in the middle of an answer: %s", ticket.url, error)
                    _break_off(request, passed)
                    break
                if not piece:
                    await passed.write_eof()
                    break
                await write(piece)
        except ConnectionError:  # The client is gone, and a write met that before the cancellation came.
            self._board.end(ticket, left=True)
        else:
            self._board.end(ticket, failure)
        return passed


def _break_off(request: web.BaseRequest, passed: web.StreamResponse) -> None:
    """End the client's connection such that it cannot take what came for the whole answer."""
    framed = "Content-Length" in passed.headers or "Transfer-Encoding" in passed.headers
    transport = request.transport
    if transport is not None and not framed:
        # An old client reads such an answer until the connection's end: only a reset tells that it is not whole.
        own = transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.protocol.force_close()
