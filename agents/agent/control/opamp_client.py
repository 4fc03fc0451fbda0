"""The agent's side of OpAMP: a WebSocket while it can be had, HTTP polling while it cannot.

Guarantees: the first message of every connection, and the answer to ReportFullState, is the full state; afterwards a
message goes out when there is news (`opamp_messages.news`), or as a heartbeat. Over a WebSocket heartbeats come as
often as the service asks for, polls as the agent's own setting says; both sooner where a lease wants it. Losing the
service only means trying again, with doubling waits up to 30 s. An answer that cannot be understood is logged and
passed over.
"""

import asyncio
import contextlib
import logging
import math
import ssl
import time
from collections.abc import Callable

import httpx
from google.protobuf.message import DecodeError
from opentelemetry._opamp.proto import opamp_pb2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedOK,
    InvalidHandshake,
    InvalidStatus,
    WebSocketException,
)

from agents.agent.control.opamp_messages import MessageBuilder, NodeSnapshot, news
from agents.agent.delivery.enrolment import Enrolment
from agents.host.backoff import Backoff, spread_s, within_the_second
from controlplane.contract.bearer import bearer_token
from controlplane.contract.clock import utc_now
from controlplane.contract.reports import vanished_peer
from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.contract.reports.opamp import ENGINE_CONFIG, REPLACED_CODE, REPLACED_PAUSE_S, new_instance_uid
from controlplane.contract.retry import retry_after_s

log = logging.getLogger(__name__)

PATH = "/v1/opamp"
HEADER = b"\x00"
"""The varint before each WebSocket message, always zero (OpAMP, "WebSocket Message Format")."""
WEBSOCKET_RETRY_S = 60.0
OPEN_S = 30.0
"""A service that many come back to takes its time; whoever gives up makes it take longer."""
UNANSWERED_S = 60.0
"""A service that has answered nothing for so long, though it was told something, hangs: another connection is tried."""
LARGEST_MESSAGE_BYTES = 4 * 2**20


class OpampClient:
    """`snapshot` gives the node's present state, `on_offer(hash, body)` takes a wanted configuration. `on_heard` is
    told of every answer of a service that took in what was said, not of one that could or would not. `quiet_s`: so
    long nothing has to be heard."""

    def __init__(
        self,
        server_url: str,
        http: httpx.AsyncClient,
        enrolment: Enrolment,
        snapshot: Callable[[], NodeSnapshot],
        on_offer: Callable[[bytes, bytes], None],
        *,
        on_heard: Callable[[], None] = lambda: None,
        quiet_s: Callable[[], float] = lambda: math.inf,
        heartbeat_s: float = 10.0,
        websocket_retry_s: float = WEBSOCKET_RETRY_S,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        """`proxy`: the one that the WebSocket goes by; that of the environment is not asked, for it would read the
        node's token."""
        self._websocket_url = "ws" + server_url.removeprefix("http") + PATH
        self._tls = (tls or True) if self._websocket_url.startswith("wss:") else None
        self._proxy = proxy
        self._http = http
        self._enrolment = enrolment
        self._snapshot = snapshot
        self._on_offer = on_offer
        self._on_heard = on_heard
        self._quiet_s = quiet_s
        self._poll_s = heartbeat_s
        self._heartbeat_s = heartbeat_s
        self._websocket_retry_s = websocket_retry_s
        self._builder = MessageBuilder(new_instance_uid(time.time_ns() // 1_000_000))
        self._changed = asyncio.Event()
        self._full = True
        self._said: NodeSnapshot | None = None
        self._backoff = Backoff()
        self._pause_s = 0.0
        self._offered_token: str | None = None
        self.transport = ""  # "websocket", "http", or empty while there is no connection.

    def changed(self) -> None:
        """The snapshot may differ from what was last sent: news goes out at once."""
        if self._full or news(self._snapshot()) != self._said:
            self._changed.set()

    async def run(self) -> None:
        """Stay connected for ever."""
        while True:
            used = self._enrolment.current
            try:
                await self._over_websocket()
            except InvalidStatus as error:
                told = error.response.body[:300].decode("utf-8", "replace") if error.response.body else ""
                log.warning("OpAMP over WebSocket was answered %d: %s", error.response.status_code, told)
                later_s = retry_after_s(error.response.headers.get("Retry-After"), utc_now(), 300.0)
                if error.response.status_code in (401, 403):
                    await self._enrolment.renew(used)
                elif error.response.status_code in (429, 503) and later_s is not None:
                    self._pause_s = within_the_second(later_s)
                else:
                    await self._over_http()
            except (InvalidHandshake, OSError, TimeoutError) as error:
                log.info("OpAMP over WebSocket cannot be opened: %s", str(error) or type(error).__name__)
                # Where nobody listens nobody answers over HTTP; and who begins to in this moment is to be asked well.
                if self._proxy or not isinstance(error, ConnectionRefusedError):
                    await self._over_http()
            except ConnectionClosed as error:
                if error.rcvd is not None and error.rcvd.code == REPLACED_CODE:
                    log.warning("the OpAMP connection was closed: %s", error.rcvd.reason)
                    self._pause_s = max(self._pause_s, spread_s(REPLACED_PAUSE_S))
                else:
                    log.info("the OpAMP connection ended: %s", error)
            except WebSocketException as error:
                log.info("the OpAMP connection ended: %s", error)
            self.transport = ""
            pause_s, self._pause_s = self._pause_s, 0.0
            await asyncio.sleep(pause_s or self._backoff.next_s())

    async def _over_websocket(self) -> None:
        async with connect(
            self._websocket_url,
            additional_headers=self._enrolment.headers,
            open_timeout=OPEN_S,
            close_timeout=1,
            max_size=LARGEST_MESSAGE_BYTES,
            compression=None,
            ssl=self._tls,
            proxy=self._proxy,
            ping_interval=None,  # Each message is answered, and a machine that vanishes is found by the system.
        ) as connection:
            self.transport = "websocket"
            vanished_peer.detect(connection.transport.get_extra_info("socket"))
            self._full = True
            receiving = asyncio.create_task(self._receive(connection))
            try:
                while not receiving.done():
                    await connection.send(HEADER + self._next_message())
                    await self._wait_for_change(receiving)
                await receiving
            finally:
                receiving.cancel()
                with contextlib.suppress(WebSocketException, OSError):
                    await connection.send(HEADER + self._builder.disconnect().SerializeToString())

    async def _receive(self, connection: ClientConnection) -> None:
        while True:
            try:
                async with asyncio.timeout(self._heartbeat_s + UNANSWERED_S):
                    message = await connection.recv()
            except TimeoutError:
                log.warning("the OpAMP connection is given up: nothing was answered for %g s", UNANSWERED_S)
                return
            except ConnectionClosedOK:
                return
            if not isinstance(message, bytes) or message[:1] != HEADER:
                log.error("an OpAMP message without its header was passed over")
                continue
            self._backoff.reset()
            self._take(message[1:])
            if await self._took_over() or self._pause_s:
                return

    async def _took_over(self) -> bool:
        """Whether another token was offered, which is the node's from now on: the connection is made anew with it."""
        token, self._offered_token = self._offered_token, None
        if token is None:
            return False
        await self._enrolment.take_over(token)
        return True

    async def _wait_for_change(self, receiving: "asyncio.Task[None] | None") -> None:
        """Until there is news, the heartbeat or the poll is due, or `receiving` has ended."""
        longest_s = min(self._poll_s if receiving is None else self._heartbeat_s, self._quiet_s())
        waiting = asyncio.create_task(self._changed.wait())
        try:
            both = {waiting} if receiving is None else {waiting, receiving}
            await asyncio.wait(both, timeout=longest_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    async def _over_http(self) -> None:
        """Poll until the WebSocket is worth another try, or this fails too."""
        self._full = True
        until = time.monotonic() + self._websocket_retry_s
        while time.monotonic() < until:
            used = self._enrolment.current
            try:
                answer = await self._http.post(
                    PATH,
                    content=self._next_message(),
                    headers={"Content-Type": PROTOBUF, **self._enrolment.headers},
                )
            except httpx.HTTPError as error:
                log.info("OpAMP over HTTP: %s", str(error) or type(error).__name__)
                return
            if answer.status_code != 200:
                log.warning("OpAMP over HTTP was answered %d: %s", answer.status_code, answer.text[:200])
                if answer.status_code in (401, 403):
                    await self._enrolment.renew(used)
                self._pause_s = retry_after_s(answer.headers.get("Retry-After"), utc_now(), 300.0) or 0.0
                return
            self.transport = "http"
            self._backoff.reset()
            self._take(answer.content)
            await self._took_over()
            if self._pause_s:
                return
            await self._wait_for_change(None)

    def _next_message(self) -> bytes:
        self._changed.clear()
        full, self._full = self._full, False
        snapshot = self._snapshot()
        self._said = news(snapshot)
        message: bytes = self._builder.build(snapshot, full=full).SerializeToString()
        return message

    def _take(self, content: bytes) -> None:
        """Act on one ServerToAgent message."""
        try:
            message = opamp_pb2.ServerToAgent.FromString(content)
        except DecodeError as error:
            log.error("an OpAMP answer cannot be read: %s", error)
            return
        if message.HasField("error_response"):
            refusal = message.error_response
            log.warning("the OpAMP server answered with an error: %s", refusal.error_message)
            if refusal.type == opamp_pb2.ServerErrorResponseType_Unavailable:
                self._pause_s = min(max(refusal.retry_info.retry_after_nanoseconds / 1e9, 1.0), 300.0)
        if not self._pause_s:
            self._on_heard()
        if message.HasField("agent_identification") and len(message.agent_identification.new_instance_uid) == 16:
            self._builder.instance_uid = message.agent_identification.new_instance_uid
        for header in message.connection_settings.opamp.headers.headers:
            if header.key.lower() == "authorization":
                self._offered_token = bearer_token(header.value)
        interval_s = message.connection_settings.opamp.heartbeat_interval_seconds
        if interval_s:
            self._heartbeat_s = float(interval_s)
        if message.HasField("remote_config"):
            offer = message.remote_config
            file = offer.config.config_map.get(ENGINE_CONFIG)
            # Who offers what is known already has missed its status: the next message says all, in its own time.
            self._full = self._full or offer.config_hash == self._snapshot().outcome.offer_hash
            self._on_offer(offer.config_hash, b"" if file is None else file.body)
        if message.flags & opamp_pb2.ServerToAgentFlags_ReportFullState:
            self._full = True
            self._changed.set()
