"""The telemetry store: what is ingested, kept, and read back.

Guarantee: what `ingest_*` has returned is on the disk, visible to the next query, and counted once however often it is
sent again (within the retention of repeats). Reads see one snapshot: never half of a fold.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy import Connection, func, select
from sqlmodel import col

from controlplane.contract.clock import Clock
from controlplane.contract.errors import BadRequest, Unavailable
from controlplane.contract.metrics import MetricKind
from controlplane.contract.workload import RequestRecord, Workload
from controlplane.db.database import Database
from controlplane.telemetry import catalogue, requests
from controlplane.telemetry.catalogue import Asked
from controlplane.telemetry.compaction import Compactor
from controlplane.telemetry.exposition import FleetQuantiles
from controlplane.telemetry.frame import HistogramBlock, ScalarBlock
from controlplane.telemetry.grouping import Grouping
from controlplane.telemetry.head import Head
from controlplane.telemetry.journal import Entry
from controlplane.telemetry.meters import Meters
from controlplane.telemetry.points import FUTURE_S, Bounds, read_points
from controlplane.telemetry.query import HistogramSums, ScalarSums
from controlplane.telemetry.reader import SketchSeries, ValueSeries
from controlplane.telemetry.records import read_records
from controlplane.telemetry.refusal import Outcome, Reason, Refusals
from controlplane.telemetry.retention import FRAMES_S, REQUESTS_S, Retention
from controlplane.telemetry.series import SeriesIndex
from controlplane.telemetry.snapshot import blocks, snapshot
from controlplane.telemetry.tables import FrameRow, PendingRow
from controlplane.telemetry.timespan import check_step, start_of, to_ns, window_at
from controlplane.telemetry.writer import Writer

COMMIT_TIMEOUT_S = 60.0
Where = Mapping[str, str | Sequence[str]]
NONE_OF_THEM: Where = {}


class TelemetryStore:
    """Implements `controlplane.telemetry.reader.TelemetryReader`. `start` it before use, `tick` it every few seconds.

    not_serving: names the nodes whose requests are no production traffic (trial nodes), for `workload`.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        retention_s: float = FRAMES_S,
        requests_retention_s: float = REQUESTS_S,
        not_serving: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self.meters = Meters()
        self._database = database
        self._clock = clock
        self._retention = Retention(frames_s=retention_s, requests_s=min(requests_retention_s, retention_s))
        self._not_serving = not_serving
        self._index = SeriesIndex()
        self._head = Head()
        self._writer = Writer(database, self._index, clock, self.meters)
        self._compactor = Compactor(database, self._head, self.meters, self._retention)
        self.meters.queue_depth.set_function(lambda: self._writer.depth)
        self.meters.series.set_function(lambda: len(self._index))
        self.meters.registry.register(FleetQuantiles(self, clock))

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        with snapshot(self._database) as connection:
            self._index.load(connection)
        self._writer.start()

    def close(self) -> None:
        """Write what was taken in, then stop. Reading still works."""
        self._writer.close()

    def ready(self) -> bool:
        """Reports are taken in and written."""
        return self._writer.alive

    def tick(self, now: datetime) -> int:
        """Fold sealed windows into frames and drop what is too old. Returns the frames written."""
        return self._compactor.tick(now)

    # -- ingest --------------------------------------------------------------------------------------------------

    def submit_metrics(
        self, request: ExportMetricsServiceRequest, *, node: str | None = None, refusals: Refusals | None = None
    ) -> "Future[Outcome]":
        """Read and queue a request; the future is done when it is on the disk. `node`: the sender's, where bound."""
        refusals = Refusals() if refusals is None else refusals
        points, silent = read_points(request, self._bounds(node), refusals)
        return self._submit("metrics", Entry(points=points), silent, refusals)

    def submit_traces(
        self, request: ExportTraceServiceRequest, *, node: str | None = None, refusals: Refusals | None = None
    ) -> "Future[Outcome]":
        """As `submit_metrics`, for request spans."""
        refusals = Refusals() if refusals is None else refusals
        records = read_records(request, self._bounds(node, requests=True), refusals)
        return self._submit("traces", Entry(records=records), 0, refusals)

    def ingest_metrics(self, request: ExportMetricsServiceRequest, *, node: str | None = None) -> Outcome:
        """Keep a request's points; returns once they are on the disk."""
        return self._result(self.submit_metrics(request, node=node))

    def ingest_traces(self, request: ExportTraceServiceRequest, *, node: str | None = None) -> Outcome:
        """Keep a request's request spans; returns once they are on the disk."""
        return self._result(self.submit_traces(request, node=node))

    # -- reading -------------------------------------------------------------------------------------------------

    def histograms(
        self,
        metric: str,
        start: datetime,
        end: datetime,
        *,
        by: Sequence[str] = (),
        where: Where = NONE_OF_THEM,
        step_s: float | None = None,
    ) -> list[SketchSeries]:
        """See `TelemetryReader`."""
        asked = self.find(metric)
        if asked.kind not in (None, MetricKind.HISTOGRAM):
            raise BadRequest(
                f"metric: {metric} is a {asked.kind}, it has no quantiles; see /api/v1/scalars", field="metric"
            )
        _check(by, where, step_s)
        with snapshot(self._database) as connection:
            sums = HistogramSums(self._grouping(connection, by, where), step_s)
            for window, block in blocks(connection, self._head, asked.name, MetricKind.HISTOGRAM, start, end):
                assert isinstance(block, HistogramBlock)
                sums.add(window, block)
            return sums.series()

    def scalars(
        self,
        metric: str,
        start: datetime,
        end: datetime,
        *,
        by: Sequence[str] = (),
        where: Where = NONE_OF_THEM,
        step_s: float | None = None,
    ) -> list[ValueSeries]:
        """See `TelemetryReader`."""
        return self.scalars_of_kind(metric, start, end, by=by, where=where, step_s=step_s)[1]

    def scalars_of_kind(
        self,
        metric: str,
        start: datetime,
        end: datetime,
        *,
        by: Sequence[str] = (),
        where: Where = NONE_OF_THEM,
        step_s: float | None = None,
    ) -> tuple[MetricKind, list[ValueSeries]]:
        """`scalars`, with what the metric is: for a sender's own metric, what was found."""
        asked = self.find(metric)
        if asked.kind is MetricKind.HISTOGRAM:
            raise BadRequest(f"metric: {metric} is a histogram; see /api/v1/quantiles", field="metric")
        _check(by, where, step_s)
        kinds = [asked.kind] if asked.kind is not None else [MetricKind.SUM, MetricKind.GAUGE]
        with snapshot(self._database) as connection:
            for kind in kinds:
                sums = ScalarSums(self._grouping(connection, by, where), step_s, kind)
                for window, block in blocks(connection, self._head, asked.name, kind, start, end):
                    assert isinstance(block, ScalarBlock)
                    sums.add(window, block)
                found = sums.series()
                if found:
                    break
        return kind, found

    def latest(self) -> datetime | None:
        """See `TelemetryReader`. Windows that have not begun yet (a sender's fast clock) do not count."""
        present = window_at(self._clock())
        with snapshot(self._database) as connection:
            windows = [
                connection.execute(select(func.max(column)).where(column <= present)).scalar()
                for column in (col(PendingRow.window), col(FrameRow.window))
            ]
        newest = max((window for window in windows if window is not None), default=None)
        return None if newest is None else start_of(newest + 1)

    def workload(self, pool: str, start: datetime, end: datetime) -> Workload:
        """See `TelemetryReader`."""
        not_serving = frozenset(self._not_serving())
        with snapshot(self._database) as connection:
            return requests.workload(connection, pool, start, end, not_serving)

    def requests(
        self,
        *,
        start: datetime,
        end: datetime,
        pool: str | None = None,
        node: str | None = None,
        order: str = "newest",
        limit: int = 50,
        offset: int = 0,
    ) -> list[RequestRecord]:
        """See `TelemetryReader`; `offset` skips that many of the first."""
        if order not in ("newest", "slowest"):
            raise BadRequest(f"order: {order[:40]!r} is neither newest nor slowest", field="order")
        with snapshot(self._database) as connection:
            return requests.records(
                connection, start, end, pool=pool, node=node, slowest=order == "slowest", limit=limit, offset=offset
            )

    def find(self, metric: str) -> Asked:
        """The metric behind a name. Raises `BadRequest` with the nearest valid one."""
        try:
            return catalogue.find(metric, self._index.metrics())
        except BadRequest:
            with snapshot(self._database) as connection:  # Another replica may have taken in a sender's own metric.
                self._index.load(connection)
            return catalogue.find(metric, self._index.metrics())

    # -- inside --------------------------------------------------------------------------------------------------

    def _bounds(self, node: str | None, *, requests: bool = False) -> Bounds:
        now = self._clock()
        oldest = self._retention.requests_accepted_from(now) if requests else self._retention.accepted_from(now)
        return Bounds(to_ns(oldest), to_ns(now + timedelta(seconds=FUTURE_S)), node)

    def _submit(self, signal: str, entry: Entry, silent: int, refusals: Refusals) -> "Future[Outcome]":
        outcome: Future[Outcome] = Future()
        outcome.set_running_or_notify_cancel()  # Whoever stops waiting for it must not cancel the writing.

        def done(written: "Future[Entry]") -> None:
            error = written.exception()
            if error is not None:
                outcome.set_exception(error)
                return
            result = written.result()
            if result.without_series:
                refusals.add(
                    Reason.SERIES,
                    f"over {self._index.max_series} distinct series; take labels with fewer values",
                    result.without_series,
                )
            found = Outcome(result.accepted + silent, result.repeated, refusals)
            self.meters.count(signal, found)
            outcome.set_result(found)

        if not entry.points and not entry.records:
            written: Future[Entry] = Future()
            written.set_result(entry)
        else:
            written = self._writer.submit(entry)
        written.add_done_callback(done)
        return outcome

    def _result(self, outcome: "Future[Outcome]") -> Outcome:
        try:
            return outcome.result(COMMIT_TIMEOUT_S)
        except TimeoutError:
            raise Unavailable("the report was not written in time; send it again, it will be recognised") from None

    def _grouping(self, connection: Connection, by: Sequence[str], where: Where) -> Grouping:
        return Grouping(by, where, lambda numbers: self._index.labels(connection, numbers))


def _check(by: Sequence[str], where: Where, step_s: float | None) -> None:
    catalogue.check_labels(by, "by")
    for label in where:
        catalogue.check_labels([label], label)
    if step_s is not None:
        check_step(step_s)
