"""The way in for reports: POST /v1/metrics and /v1/traces, in front of all of FastAPI.

A report every few milliseconds cannot pay for FastAPI's layers, routing, dependencies and a worker thread; everything
else goes on to the application. Answers come in the content type of the request (to a packed report: OTLP's answer in
protobuf) and only once the data is on the disk; errors in the contract's form.

Guarantee: the token is looked at before anything else of the request; a body over the limits is never held whole; what
a client does with its connection (gone in the middle, a length that is not the body's) harms nobody else. What nobody
has foreseen is logged, and answered with a 500 that tells nothing of it.

What is answered when not everything could be kept:

- metrics: 200 with `partial_success` while anything was kept; 400 (403 where the token is bound to another node) when
  nothing was, since OTLP calls that a request that is invalid for good.
- traces: 200 with `partial_success`, also when nothing was kept. Any OpenTelemetry SDK may be pointed here, most spans
  are no requests of an engine, and an exporter must not see an error that repeats for ever. They count as refused.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from anyio import to_thread
from fastapi import FastAPI
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.auth.principal import check_scope
from controlplane.auth.watch.security_log import remember_speaker
from controlplane.contract.bodies.access import Scope as TokenScope
from controlplane.contract.errors import (
    BadRequest,
    Overloaded,
    TailwrightError,
    TooLarge,
    Unavailable,
)
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.serving.limits import address_in
from controlplane.telemetry.http.report_request import ClientGone, Headers, ReportRequest, identity
from controlplane.telemetry.http.telemetry_parts import TelemetryParts
from controlplane.telemetry.journal.pace import LEAST_S
from controlplane.telemetry.journal.writer import Body
from controlplane.telemetry.meters import METRICS
from controlplane.telemetry.otlp import otlp_bodies
from controlplane.telemetry.otlp.bounds import Sender, forbid_wrong_origin
from controlplane.telemetry.values import instance
from controlplane.telemetry.values.refusal import Outcome

logger = logging.getLogger(__name__)

METRICS_PATH, TRACES_PATH = "/v1/metrics", "/v1/traces"
METRICS_KINDS = (packed_report.MEDIA_TYPE, *otlp_bodies.KINDS)
LIMIT_HELD = 256 << 20
"""Bytes of bodies that are held at once, of all connections."""
BODY_TIMEOUT_S = 60.0
_CONTENT_TYPES = {kind: (b"content-type", kind.encode()) for kind in otlp_bodies.KINDS}
_CLOSE = (b"connection", b"close")
_EXPORTED_BY = instance.HEADER.lower().encode()
_INTERNAL = "an internal error; the service's log has its trace"

Refuse = Callable[[TailwrightError], ASGIApp]
"""Makes the answer that says an error, as for every other route."""


class Application(FastAPI):
    """FastAPI behind the receiver. `state.service` is what all of its routes are served with."""

    def __init__(self, service: TelemetryParts, refuse: Refuse, **options: Any) -> None:
        super().__init__(**options)
        self.state.service = service
        self.receiver = Receiver(super().__call__, service, refuse)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.receiver(scope, receive, send)


class Receiver:
    """Answers reports, and gives everything else to `app`."""

    def __init__(self, app: ASGIApp, service: TelemetryParts, refuse: Refuse) -> None:
        self._app = app
        self._service = service
        self._refuse = refuse
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in (METRICS_PATH, TRACES_PATH) or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        request = ReportRequest(scope, receive, self._service.clock)
        try:
            kind, body = await self._answer(request)
        except ClientGone:
            return
        except TailwrightError as error:
            self._service.turned_away.note(HTTPConnection(scope), error)
            await self._say(error, request, receive, send)
            return
        except Exception:
            logger.exception("POST %s failed", request.path)
            await self._say(TailwrightError(_INTERNAL), request, receive, send)
            return
        headers = [_CONTENT_TYPES[kind], (b"content-length", b"%d" % len(body)), *request.own_headers()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, request: ReportRequest) -> tuple[str, bytes]:
        """(content type, body) of the 200."""
        service, headers = self._service, request.headers
        tokens, store = service.tokens, service.telemetry
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        principal = tokens.known(authorization) or await tokens.find(authorization)
        remember_speaker(request.scope, principal)
        service.token_uses.note(principal.token_id, principal.node)
        service.security_log.let_in(principal, address_in(request.scope))
        check_scope(principal, TokenScope.AGENT)
        service.node_certificates.check(principal, request.scope)
        sender = Sender(principal.node, principal.pool)
        if not store.ready():
            raise Unavailable("the telemetry store is not running; send the report again later")
        exported_by = headers.get(_EXPORTED_BY)
        if exported_by is not None:
            await to_thread.run_sync(instance.refuse_own, service.database, exported_by.decode("latin-1"))
        stated = headers.get(b"content-type", b"").decode("latin-1")
        encoding = headers.get(b"content-encoding", b"").decode("latin-1")
        if request.path == TRACES_PATH:
            kind = otlp_bodies.content_type(stated)
            body = await self._body(request)
            outcome = await self._holding(body, store.intake.traces(body, encoding, kind, sender))
            _refuse_wrong_origin(outcome)
            return kind, _traces_answer(outcome, kind)
        kind = otlp_bodies.content_type(stated, METRICS_KINDS)
        body = await self._body(request)
        if kind == packed_report.MEDIA_TYPE:
            work = store.writer.written(METRICS, Body(body, encoding, store.bounds(sender, identified=True)))
        else:
            work = store.intake.metrics(body, encoding, kind, sender, identity(headers, principal.node))
        outcome = await self._holding(body, work)
        if outcome.refusals.count and not outcome.accepted and not outcome.repeated:
            _refuse_wrong_origin(outcome)
            reasons = {reason.value: count for reason, count in outcome.refusals.by_reason.items()}
            raise BadRequest(
                outcome.refusals.text(), field="resource_metrics", rejected=outcome.refusals.count, reasons=reasons
            )
        kind = otlp_bodies.JSON if kind == otlp_bodies.JSON else PROTOBUF
        return kind, _metrics_answer(outcome, kind)

    async def _holding(self, body: bytes, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """The work's outcome; its body counts as held until then."""
        self._held += len(body)
        try:
            return await work
        finally:
            self._held -= len(body)

    async def _body(self, request: ReportRequest) -> bytes:
        """The body as sent, at most `otlp_bodies.LIMIT_BODY` bytes."""
        length = request.headers.get(b"content-length")
        if length is not None and length.isdigit() and int(length) > otlp_bodies.LIMIT_BODY:
            raise _too_large()
        if self._held > LIMIT_HELD:
            raise _too_much_held()
        part, more = await request.next_part()
        if not more:
            if len(part) > otlp_bodies.LIMIT_BODY:
                raise _too_large()
            return part
        body, held = bytearray(), 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                while True:
                    body += part
                    held += len(part)
                    self._held += len(part)
                    if len(body) > otlp_bodies.LIMIT_BODY:
                        raise _too_large()
                    if self._held > LIMIT_HELD:
                        raise _too_much_held()
                    if not more:
                        return bytes(body)
                    part, more = await request.next_part()
        except TimeoutError:
            raise Unavailable(f"body: not here within {BODY_TIMEOUT_S:.0f} s; send it again") from None
        finally:
            self._held -= held

    async def _say(self, error: TailwrightError, request: ReportRequest, receive: Receive, send: Send) -> None:
        """The answer of every error, with this route's own headers added."""
        more: Headers = request.own_headers()
        if error.status == Unavailable.status:
            more.append((b"retry-after", b"%d" % max(1, round(LEAST_S))))
        if request.leaves_much_unread():
            more.append(_CLOSE)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                stated = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in more if pair[0] not in stated)]
            await send(message)

        await self._refuse(error)(request.scope, receive, send_with_headers)


def _refuse_wrong_origin(outcome: Outcome) -> None:
    """Raises `Forbidden` where everything was of a node or a pool that the token is not bound to."""
    if not outcome.accepted and not outcome.repeated:
        forbid_wrong_origin(outcome.refusals)


def _metrics_answer(outcome: Outcome, kind: str) -> bytes:
    if kind == PROTOBUF and not outcome.refusals.any:
        return b""
    answer = ExportMetricsServiceResponse()
    if outcome.refusals.count or outcome.refusals.warnings:
        answer.partial_success.rejected_data_points = outcome.refusals.count
        answer.partial_success.error_message = outcome.refusals.text()
    return otlp_bodies.encode(answer, kind)


def _traces_answer(outcome: Outcome, kind: str) -> bytes:
    answer = ExportTraceServiceResponse()
    if outcome.refusals.count:
        answer.partial_success.rejected_spans = outcome.refusals.count
        answer.partial_success.error_message = outcome.refusals.text()
    return otlp_bodies.encode(answer, kind)


def _too_large() -> TooLarge:
    return TooLarge(f"body: over {otlp_bodies.LIMIT_BODY} bytes; send smaller reports", field="body")


def _too_much_held() -> Overloaded:
    return Overloaded("too many bodies are held; send again later", retry_after_s=LEAST_S)
