"""Where vLLM sends its traces: OTLP over HTTP on this machine alone.

Guarantee: whatever is sent, the answer is a status with a message that names the mend, and the agent goes on. At most
`MOST_WAITING` requests wait to be counted; beyond it the oldest go, and are counted in `dropped`.
"""

import asyncio
import logging
import zlib
from collections import deque

from aiohttp import web
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from agents.backends.vllm.measures.traced_request import TracedRequest, requests_of
from agents.host.error_answers import errors_answered
from controlplane.contract.errors import BadRequest, TooLarge, Unsupported
from controlplane.contract.reports.media_types import PROTOBUF

log = logging.getLogger(__name__)

PATH = "/v1/traces"
LARGEST_BODY_BYTES = 8 * 2**20
LARGEST_DECODED_BYTES = 32 * 2**20
MOST_WAITING = 50_000
_RETRY_S = 10.0
_MEND = "start vLLM with OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf and --otlp-traces-endpoint"
_ERRORS = errors_answered(
    largest_bytes=LARGEST_BODY_BYTES,
    too_large="send smaller batches",
    not_found=f"vLLM's traces go to {PATH}; {_MEND} http://127.0.0.1:PORT{PATH}",
)


class TraceReceiver:
    """Listens on `port` of 127.0.0.1 while `run` runs."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.arrived = asyncio.Event()
        self.dropped = 0
        self.error = ""
        self._counting = True
        self._last_at: float | None = None  # Of the event loop's clock.
        self._waiting: deque[TracedRequest] = deque()

    async def run(self) -> None:
        """Serve until cancelled. A port that cannot be had is tried again, and said in `error`."""
        while True:
            runner = web.AppRunner(self._app(), access_log=None, auto_decompress=False, handle_signals=False)
            try:
                await runner.setup()
                await web.TCPSite(runner, "127.0.0.1", self.port).start()
                self.error = ""
                log.info("vLLM's traces are taken at http://127.0.0.1:%d%s", self.port, PATH)
                await asyncio.Event().wait()
            except OSError as error:
                if not self.error:
                    log.error("no traces can be taken on port %d: %s", self.port, error)
                self.error = f"port {self.port} for vLLM's traces cannot be had: {error.strerror or error}"
            finally:
                await runner.cleanup()
            await asyncio.sleep(_RETRY_S)

    def count(self, wanted: bool) -> None:
        """Are the requests counted? Otherwise they are taken and passed over."""
        self._counting = wanted
        if not wanted:
            self.take()

    def heard_within(self, seconds: float) -> bool:
        """Did requests come in the last so many seconds?"""
        return self._last_at is not None and asyncio.get_running_loop().time() - self._last_at <= seconds

    def take(self) -> list[TracedRequest]:
        """The requests that came since the last call."""
        taken = list(self._waiting)
        self._waiting.clear()
        self.arrived.clear()
        return taken

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=LARGEST_BODY_BYTES, middlewares=[_ERRORS])
        app.router.add_post(PATH, self._receive)
        return app

    async def _receive(self, request: web.Request) -> web.Response:
        if request.content_type != PROTOBUF:
            raise Unsupported(f"Content-Type {request.content_type!r} is not {PROTOBUF}; {_MEND}", field="Content-Type")
        body = _decoded(await request.read(), request.headers.get("Content-Encoding", ""))
        export = ExportTraceServiceRequest()
        try:
            export.ParseFromString(body)
        except (DecodeError, ValueError, RecursionError) as error:
            raise BadRequest(f"body: not a protobuf ExportTraceServiceRequest: {error}", field="body") from error
        found, wrong = requests_of(export)
        answer = ExportTraceServiceResponse()
        if wrong:
            log.warning("%d of vLLM's spans cannot be read: %s", len(wrong), wrong[0])
            answer.partial_success.rejected_spans = len(wrong)
            answer.partial_success.error_message = wrong[0]
        if found:
            self._keep(found)
        return web.Response(body=answer.SerializeToString(), content_type=PROTOBUF)

    def _keep(self, found: list[TracedRequest]) -> None:
        self._last_at = asyncio.get_running_loop().time()
        if not self._counting:
            return
        self._waiting.extend(found)
        if (over := len(self._waiting) - MOST_WAITING) > 0:
            self.dropped += over
            for _ in range(over):
                self._waiting.popleft()
        self.arrived.set()


def _decoded(body: bytes, encoding: str) -> bytes:
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return body
    if kind not in ("gzip", "deflate"):
        raise Unsupported(f"Content-Encoding {encoding!r} is not one of gzip, deflate, identity", field="body")
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS if kind == "gzip" else zlib.MAX_WBITS)
    try:
        plain = inflater.decompress(body, LARGEST_DECODED_BYTES)
    except zlib.error as error:
        raise BadRequest(f"body: Content-Encoding says {kind}, but: {error}", field="body") from error
    if inflater.unconsumed_tail:
        raise TooLarge(f"body: over {LARGEST_DECODED_BYTES} bytes decompressed; send smaller batches", field="body")
    if not inflater.eof:
        raise BadRequest("body: the compressed data is cut off", field="body")
    return plain
