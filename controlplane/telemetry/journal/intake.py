"""From an OTLP body to the writer's queue, and the outcome back.

Guarantee: nothing slow runs on the event loop: OTLP is read by `EXTRACTION_THREADS` threads of its own. What waits for
them is bounded in number and bytes (`Overloaded` beyond it).
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from controlplane.contract.errors import Overloaded
from controlplane.contract.reports.packed_report import digest_of
from controlplane.telemetry.journal.content_encoding import decompress
from controlplane.telemetry.journal.writer import Writer
from controlplane.telemetry.meters import METRICS, TRACES, Meters
from controlplane.telemetry.otlp import otlp_bodies
from controlplane.telemetry.otlp.bounds import Bounds, Sender
from controlplane.telemetry.otlp.span_salvage import read_spans
from controlplane.telemetry.reports.entry import Entry
from controlplane.telemetry.reports.points import Extraction
from controlplane.telemetry.reports.records import read_records
from controlplane.telemetry.reports.stream_identity import StreamIdentity
from controlplane.telemetry.values.refusal import Outcome, Refusals

EXTRACTION_THREADS = 2
EXTRACTION_LIMIT = 256
EXTRACTION_LIMIT_BYTES = 64 << 20
LARGE_BYTES = 1 << 20


class BoundsOf(Protocol):
    """The event times that are accepted now, of a sender bound to `node`. identified: see `Tailwright-Report`."""

    def __call__(self, sender: Sender, *, requests: bool = False, identified: bool = False) -> Bounds: ...


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

    def close(self) -> None:
        """Let extractions end. To be called before the writer is closed; the next request starts anew."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    async def metrics(
        self, body: bytes, encoding: str, kind: str, sender: Sender, identity: StreamIdentity | None
    ) -> Outcome:
        """An OTLP body as sent; `kind` is PROTOBUF or otlp_bodies.JSON."""

        def read() -> Entry:
            refusals = Refusals()
            plain = decompress(body, encoding, otlp_bodies.LIMIT_PLAIN)
            name = identity
            if name is not None and not name.digest:
                name = name._replace(digest=digest_of(plain))
            with self._one_large(plain):
                if kind == otlp_bodies.JSON:
                    plain = otlp_bodies.read(plain, kind, ExportMetricsServiceRequest(), refusals).SerializeToString()
                return self._metrics_entry(plain, sender, name, refusals)

        return await self._extracted(METRICS, read, len(body))

    async def traces(self, body: bytes, encoding: str, kind: str, sender: Sender) -> Outcome:
        """As `metrics`, for request spans."""

        def read() -> Entry:
            refusals = Refusals()
            plain = decompress(body, encoding, otlp_bodies.LIMIT_PLAIN)
            with self._one_large(plain):
                return self._traces_entry(read_spans(plain, kind, refusals), sender, refusals)

        return await self._extracted(TRACES, read, len(body))

    async def _extracted(self, signal: str, read: Callable[[], Entry], size: int) -> Outcome:
        if self._extracting >= EXTRACTION_LIMIT or self._extracting_bytes + size > EXTRACTION_LIMIT_BYTES:
            raise Overloaded(
                "too many reports wait to be read; send again later",
                retry_after_s=self._writer.pace.wait_s(self._extracting),
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
        if entry.items:
            return await self._writer.written(signal, entry)
        entry.accepted = entry.silent  # Which the writer's commit adds otherwise.
        outcome = entry.outcome()
        self._meters.count(signal, outcome)
        return outcome

    # -- inside --------------------------------------------------------------------------------------------------

    def _one_large(self, plain: bytes) -> AbstractContextManager[object]:
        """Large bodies are read one at a time: a hostile one becomes a hundred times as much in memory."""
        return self._large if len(plain) > LARGE_BYTES else nullcontext()

    def _metrics_entry(
        self, plain: bytes, sender: Sender, identity: StreamIdentity | None, refusals: Refusals
    ) -> Entry:
        bounds = self._bounds(sender, identified=identity is not None)
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

    def _traces_entry(self, request: ExportTraceServiceRequest, sender: Sender, refusals: Refusals) -> Entry:
        records = read_records(request, self._bounds(sender, requests=True), refusals)
        return Entry(records=records, refusals=refusals)
