"""A stand-in for the control plane: enrolment, a receiver that counts by the repeat key, and an OpAMP server."""

import gzip
import threading
import time
from collections import Counter, deque
from typing import Any

from opentelemetry._opamp.proto import opamp_pb2
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from agents.agent.reports.body import Body
from agents.agent.reports.otlp_report import request_of
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.opamp import REPLACED_CODE
from controlplane.contract.reports.packed_report import (
    ACCEPT_HEADER,
    ACCEPT_PACKED,
    MEDIA_TYPE,
    REPORT_HEADER,
    TIME_HEADER,
)

WORKLOAD_KEY = "00112233445566778899aabbccddeeff"


class FakeService:
    """`script` holds answers to give before normal ones: (status, headers, is the body counted all the same).

    It knows reports by their points, packed ones as well. `takes_packed` may change at any moment, as when the service
    is replaced by an older or a newer version of itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.script: deque[tuple[int, dict[str, str], bool]] = deque()
        self.trace_script: deque[tuple[int, dict[str, str], bool]] = deque()
        self.partial_success = False
        self.takes_packed = False
        self.forms: Counter[str] = Counter()
        self.bodies_of: dict[str, set[bytes]] = {}  # By identity: the OTLP that says what the report said.
        self.enrolment_token = "enrol-me"
        self.token = "node-token-1"
        self.enrolments: list[dict[str, Any]] = []
        self.metric_bodies: list[bytes] = []
        self.repeats = 0
        self.seen: set[tuple[Any, ...]] = set()
        self.counts: Counter[str] = Counter()  # Short sums by metric name, points once.
        self.totals: Counter[str] = Counter()
        self.last: dict[str, float] = {}  # Gauges.
        self.windows: set[tuple[int, int]] = set()
        self.spans: dict[str, Any] = {}
        self.websocket_open = True
        self.comes_later: list[str] = []  # Retry-After of the next ones that are not let in.
        self.denied = 0
        self.hangs = False  # What comes over a WebSocket is taken, and not answered.
        self.replaced = False  # Another agent of the node has come: each connection is closed after its first message.
        self.agents: list[opamp_pb2.AgentToServer] = []
        self.transports: list[str] = []
        self.offer: opamp_pb2.AgentRemoteConfig | None = None
        self.ask_full_state = False
        self.next_token: str | None = None  # Offered in each answer until it is used.
        self.app = Starlette(
            routes=[
                Route("/api/v1/enrol", self._enrol, methods=["POST"]),
                Route("/v1/metrics", self._metrics, methods=["POST"]),
                Route("/v1/traces", self._traces, methods=["POST"]),
                Route("/v1/opamp", self._opamp_http, methods=["POST"]),
                WebSocketRoute("/v1/opamp", self._opamp_socket),
            ]
        )

    # -- enrolment -----------------------------------------------------------------------------------------------------

    async def _enrol(self, request: Request) -> Response:
        if request.headers.get("Authorization") != f"Bearer {self.enrolment_token}":
            return _error(401, "unauthenticated", "this token is unknown or revoked")
        body = await request.json()
        self.enrolments.append(body)
        return JSONResponse(
            {
                "node": body["node"],
                "pool": body["pool"],
                "role": body["role"],
                "token": self.token,
                "workload_key": WORKLOAD_KEY,
            }
        )

    def _known(self, headers: Any) -> bool:
        if self.next_token is not None and headers.get("Authorization") == f"Bearer {self.next_token}":
            self.token, self.next_token = self.next_token, None
        return bool(headers.get("Authorization") == f"Bearer {self.token}")

    # -- telemetry -----------------------------------------------------------------------------------------------------

    async def _metrics(self, request: Request) -> Response:
        if not self._known(request.headers):
            return _error(401, "unauthenticated", "this token is unknown or revoked")
        more = {TIME_HEADER: str(time.time_ns()), **({ACCEPT_HEADER: ACCEPT_PACKED} if self.takes_packed else {})}
        kind = request.headers["Content-Type"]
        if kind == MEDIA_TYPE and not self.takes_packed:
            return _error(415, "unsupported", f"content type {kind} is not taken")
        body = Body(await request.body(), kind, request.headers["Content-Encoding"]).decoded()
        identity = request.headers.get(REPORT_HEADER, "")
        if kind == MEDIA_TYPE:
            report = packed_report.decode(body)
            identity, body = (
                packed_report.report_header(report.stream, report.ordinal, packed_report.digest_of(body)),
                request_of(report).SerializeToString(),
            )
        self.forms[kind] += 1
        self.bodies_of.setdefault(identity, set()).add(body)
        answer = self._scripted(self.script)
        if answer is None or answer[2]:
            self._count_metrics(body)
        if answer is not None:
            return Response(status_code=answer[0], headers={**more, **answer[1]})
        reply = ExportMetricsServiceResponse()
        if self.partial_success:
            reply.partial_success.rejected_data_points = 2
            reply.partial_success.error_message = "two points had no name"
        return Response(reply.SerializeToString(), media_type="application/x-protobuf", headers=more)

    async def _traces(self, request: Request) -> Response:
        body = gzip.decompress(await request.body())
        if not self._known(request.headers):
            return _error(401, "unauthenticated", "this token is unknown or revoked")
        answer = self._scripted(self.trace_script)
        if answer is None or answer[2]:
            self.count_traces(body)
        return Response(b"") if answer is None else Response(status_code=answer[0], headers=answer[1])

    def _scripted(self, script: deque[tuple[int, dict[str, str], bool]]) -> tuple[int, dict[str, str], bool] | None:
        return script.popleft() if script else None

    def _count_metrics(self, body: bytes) -> None:
        with self._lock:
            self.metric_bodies.append(body)
            for block in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                node = tuple(sorted((item.key, item.value.string_value) for item in block.resource.attributes))
                for metric in (metric for scope in block.scope_metrics for metric in scope.metrics):
                    data = getattr(metric, metric.WhichOneof("data"))
                    for point in data.data_points:
                        self._count_point(node, metric, point)

    def _count_point(self, node: tuple[Any, ...], metric: Any, point: Any) -> None:
        start, end = point.start_time_unix_nano, point.time_unix_nano
        attributes = tuple(sorted((item.key, item.value.SerializeToString()) for item in point.attributes))
        key = (node, metric.name, attributes, start, end)
        if key in self.seen:
            self.repeats += 1
            return
        self.seen.add(key)
        self.windows.add((start, end))
        if metric.HasField("exponential_histogram"):
            self.counts[metric.name] += point.count
            self.totals[metric.name] += point.sum
            assert point.count == point.zero_count + sum(point.positive.bucket_counts)
        elif metric.HasField("histogram"):
            self.counts[metric.name] += point.count
            self.totals[metric.name] += point.sum
            assert point.count == sum(point.bucket_counts)
        elif metric.HasField("sum"):
            self.counts[metric.name] += point.as_int
        elif metric.HasField("gauge"):
            self.last[metric.name] = point.as_double

    def count_traces(self, body: bytes) -> None:
        with self._lock:
            for block in ExportTraceServiceRequest.FromString(body).resource_spans:
                for span in (span for scope in block.scope_spans for span in scope.spans):
                    self.spans[(span.trace_id + span.span_id).hex()] = span

    # -- OpAMP ---------------------------------------------------------------------------------------------------------

    async def _opamp_http(self, request: Request) -> Response:
        if not self._known(request.headers):
            return _error(401, "unauthenticated", "this token is unknown or revoked")
        reply = self._take(await request.body(), "http")
        return Response(reply.SerializeToString(), media_type="application/x-protobuf")

    async def _opamp_socket(self, socket: WebSocket) -> None:
        if self.comes_later:
            denial = _error(503, "unavailable", "many agents have come at once: come again")
            denial.headers["Retry-After"] = self.comes_later.pop(0)
            self.denied += 1
            await socket.send_denial_response(denial)
            return
        if not self.websocket_open or not self._known(socket.headers):
            await socket.send_denial_response(_error(503 if not self.websocket_open else 401, "unavailable", "no"))
            return
        await socket.accept()
        try:
            while True:
                frame = await socket.receive_bytes()
                assert frame[:1] == b"\x00"
                answer = self._take(frame[1:], "websocket")
                if self.hangs:
                    continue
                await socket.send_bytes(b"\x00" + answer.SerializeToString())
                if self.replaced:
                    await socket.close(REPLACED_CODE, "a newer connection speaks for this node")
                    return
                if not self.websocket_open:
                    await socket.close(1012)
                    return
        except WebSocketDisconnect:
            return

    def _take(self, content: bytes, transport: str) -> opamp_pb2.ServerToAgent:
        message = opamp_pb2.AgentToServer.FromString(content)
        with self._lock:
            self.agents.append(message)
            self.transports.append(transport)
            reply = opamp_pb2.ServerToAgent(instance_uid=message.instance_uid, capabilities=7)
            if self.offer is not None and self._last_hash() != self.offer.config_hash:
                reply.remote_config.CopyFrom(self.offer)
            if self.next_token is not None:
                offered = reply.connection_settings.opamp.headers.headers
                offered.add(key="authorization", value=f"Bearer {self.next_token}")
            if self.ask_full_state:
                self.ask_full_state = False
                reply.flags = opamp_pb2.ServerToAgentFlags_ReportFullState
        return reply

    def _last_hash(self) -> bytes:
        return self.status().last_remote_config_hash

    def status(self) -> opamp_pb2.RemoteConfigStatus:
        """The newest configuration status that any message carried."""
        for message in reversed(self.agents):
            if message.HasField("remote_config_status"):
                return message.remote_config_status
        return opamp_pb2.RemoteConfigStatus()

    def newest(self, part: str) -> Any:
        """The newest sub-message `part`, None when there was none."""
        for message in reversed(self.agents):
            if message.HasField(part):
                return getattr(message, part)
        return None


def _error(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message, "detail": {}}}, status)
