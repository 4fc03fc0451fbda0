"""From a request's body to the writer's queue, and the outcome back.

Guarantee: nothing slow runs on the event loop: OTLP is read by `EXTRACTION_THREADS` threads of its own, packed bodies
by the writer. What waits for them is bounded in number and bytes (`Overloaded` beyond it). An answer that takes longer
than `COMMIT_TIMEOUT_S` is `Unavailable`; the report may still be written, and its repeat is recognised.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from controlplane.contract.errors import Overloaded, Unavailable
from controlplane.contract.reports.packed_report import digest_of
from controlplane.telemetry.journal.content_encoding import decompress
from controlplane.telemetry.journal.pace import Pace
from controlplane.telemetry.journal.writer import Writer
from controlplane.telemetry.meters import Meters
from controlplane.telemetry.otlp import otlp_bodies as otlp
from controlplane.telemetry.otlp.bounds import Bounds
from controlplane.telemetry.otlp.span_salvage import read_spans
from controlplane.telemetry.reports.entry import Entry
from controlplane.telemetry.reports.points import Extraction
from controlplane.telemetry.reports.records import read_records
from controlplane.telemetry.reports.stream_identity import StreamIdentity
from controlplane.telemetry.values.refusal import Outcome, Refusals

COMMIT_TIMEOUT_S = 60.0
EXTRACTION_THREADS = 2
EXTRACTION_LIMIT = 256
EXTRACTION_LIMIT_BYTES = 64 << 20
LARGE_BYTES = 1 << 20
METRICS, TRACES = "metrics", "traces"


class BoundsOf(Protocol):
    """The event times that are accepted now, of a sender bound to `node`. identified: see `Tailwright-Report`."""

    def __call__(self, node: str | None, *, requests: bool = False, identified: bool = False) -> Bounds: ...


class Intake:
    """For the event loop."""

    def __init__(self, writer: Writer, meters: Meters, bounds: BoundsOf) -> None:
        self._writer = writer
        self._meters = meters
        self._bounds = bounds
        self._extraction = Extraction()
        self._large = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._extracting = 0
        self._extracting_bytes = 0
        self._pace = Pace()

    def close(self) -> None:
        """Let extractions end. To be called before the writer is closed; the next request starts anew."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def packed(self, body: bytes, encoding: str, node: str | None) -> Coroutine[Any, Any, Outcome]:
        """A packed report, as sent."""
        return self._written(METRICS, lambda: self._writer.submit_packed(body, encoding, self._of(node)))

    async def metrics(
        self, body: bytes, encoding: str, kind: str, node: str | None, identity: StreamIdentity | None
    ) -> Outcome:
        """An OTLP body as sent; `kind` is PROTOBUF or otlp.JSON."""

        def read() -> Entry:
            refusals = Refusals()
            plain = decompress(body, encoding, otlp.LIMIT_PLAIN)
            name = identity
            if name is not None and not name.digest:
                name = name._replace(digest=digest_of(plain))
            with self._one_large(plain):
                if kind == otlp.JSON:
                    plain = otlp.read(plain, kind, ExportMetricsServiceRequest(), refusals).SerializeToString()
                return self._metrics_entry(plain, node, name, refusals)

        return await self._extracted(METRICS, read, len(body))

    async def traces(self, body: bytes, encoding: str, kind: str, node: str | None) -> Outcome:
        """As `metrics`, for request spans."""

        def read() -> Entry:
            refusals = Refusals()
            plain = decompress(body, encoding, otlp.LIMIT_PLAIN)
            with self._one_large(plain):
                return self._traces_entry(read_spans(plain, kind, refusals), node, refusals)

        return await self._extracted(TRACES, read, len(body))

    async def _extracted(self, signal: str, read: Callable[[], Entry], size: int) -> Outcome:
        if self._extracting >= EXTRACTION_LIMIT or self._extracting_bytes + size > EXTRACTION_LIMIT_BYTES:
            raise Overloaded(
                "too many reports wait to be read; send again later", retry_after_s=self._pace.wait_s(self._extracting)
            )
        if self._pool is None:
            self._pool = ThreadPoolExecutor(EXTRACTION_THREADS, "otlp-extraction")
        self._extracting += 1
        self._extracting_bytes += size
        try:
            entry = await asyncio.get_running_loop().run_in_executor(self._pool, read)
        finally:
            self._extracting -= 1
            self._extracting_bytes -= size
        if not entry.items:
            return self._outcome(signal, entry)
        return await self._written(signal, lambda: self._writer.submit(entry))

    async def _written(self, signal: str, submit: "Callable[[], asyncio.Future[Entry]]") -> Outcome:
        try:
            future = submit()
        except Overloaded as error:
            wait_s = self._pace.wait_s(self._writer.depth)
            raise Overloaded(error.message, retry_after_s=max(error.retry_after_s, wait_s)) from None
        timer = asyncio.get_running_loop().call_later(COMMIT_TIMEOUT_S, _give_up, future)
        try:
            entry = await future
        finally:
            timer.cancel()
        self._pace.done()
        return self._outcome(signal, entry)

    # -- inside --------------------------------------------------------------------------------------------------

    def _one_large(self, plain: bytes) -> AbstractContextManager[object]:
        """Large bodies are read one at a time: a hostile one becomes a hundred times as much in memory."""
        return self._large if len(plain) > LARGE_BYTES else nullcontext()

    def _of(self, node: str | None) -> Bounds:
        return self._bounds(node, identified=True)

    def _metrics_entry(
        self, plain: bytes, node: str | None, identity: StreamIdentity | None, refusals: Refusals
    ) -> Entry:
        bounds = self._bounds(node, identified=identity is not None)
        found = self._extraction.read(plain, bounds, refusals)
        return Entry(
            table=found.table,
            columns=found.columns,
            identity=found.identities if identity is None else identity,
            cumulative=found.cumulative,
            exemplars=found.exemplars,
            refusals=refusals,
            silent=found.silent,
            kept_from_ns=bounds.oldest_ns,
            bounds=bounds,
        )

    def _traces_entry(self, request: ExportTraceServiceRequest, node: str | None, refusals: Refusals) -> Entry:
        records = read_records(request, self._bounds(node, requests=True), refusals)
        return Entry(records=records, refusals=refusals)

    def _outcome(self, signal: str, entry: Entry) -> Outcome:
        if not entry.items:
            entry.accepted = entry.silent  # Nothing went through the writer, which else counts them.
        outcome = entry.outcome()
        self._meters.count(signal, outcome)
        return outcome


def _give_up(future: "asyncio.Future[Entry]") -> None:
    if not future.done():
        future.set_exception(Unavailable("the report was not written in time; send it again, it will be recognised"))
