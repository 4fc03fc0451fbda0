"""The telemetry store: what is ingested, kept, and read back.

Guarantee: what `writer` (packed reports) or `intake` (OTLP) has answered is on the disk, visible to the next query, and
counted once however often it is sent again (within the retention of repeats). Reads see one snapshot: never half of a
fold.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select
from sqlmodel import col

from controlplane.contract.bodies.workload import RequestRecord, Workload
from controlplane.contract.clock import Clock
from controlplane.contract.errors import BadRequest, Unavailable
from controlplane.contract.metrics import MetricKind
from controlplane.db.database import Database
from controlplane.telemetry.folding.bulk import BulkLoader
from controlplane.telemetry.folding.bulk_parts import Loaded
from controlplane.telemetry.folding.compaction import Compactor, backlog
from controlplane.telemetry.folding.fold_turn import FoldTurn
from controlplane.telemetry.folding.head import Head
from controlplane.telemetry.folding.retention import Retention
from controlplane.telemetry.frames.decoded_frames import DecodedFrames
from controlplane.telemetry.frames.frame_store import FrameStore, ReadPoint
from controlplane.telemetry.frames.sql_frames import SqlFrames
from controlplane.telemetry.journal.intake import Intake
from controlplane.telemetry.journal.names import Names
from controlplane.telemetry.journal.write_fault import WriteFault, nothing_known
from controlplane.telemetry.journal.writer import Writer
from controlplane.telemetry.meters import Meters
from controlplane.telemetry.otlp.bounds import ANYONE, FUTURE_S, Bounds, Sender
from controlplane.telemetry.queries.exposition import FleetQuantiles
from controlplane.telemetry.queries.grouping import Grouping, Groupings, LabelsOf
from controlplane.telemetry.queries.histogram_sums import HistogramSums
from controlplane.telemetry.queries.query import CountSums, ScalarSums
from controlplane.telemetry.queries.scan import pieces, scan_of
from controlplane.telemetry.queries.unfolded import FleetRuns, Unfolded
from controlplane.telemetry.question import Cost, Free, Question, Where
from controlplane.telemetry.reader import SketchGroups, SketchSeries, TimedRequests, ValueSeries
from controlplane.telemetry.request_log import captured_workload, request_page, timed_requests
from controlplane.telemetry.request_log.request_filter import RequestFilter
from controlplane.telemetry.tables import PendingRow
from controlplane.telemetry.values import catalogue
from controlplane.telemetry.values.catalogue import MetricRef
from controlplane.telemetry.values.levels import BASE_S
from controlplane.telemetry.values.timespan import EPOCH, Span, to_ns, window_at, windows_in

logger = logging.getLogger(__name__)


class TelemetryStore:
    """Implements `controlplane.telemetry.reader.TelemetryReader`. `start` it before use, `tick` it every few seconds.

    retention_s: nothing is kept longer, whatever `retention` says; names: with limits of their own, where wanted;
    frames: where frames are kept, the service's own database unless said otherwise; not_serving: names the nodes whose
    requests are no production traffic (trial nodes); free_bytes: of the disk that reports go to.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        retention: Retention | None = None,
        retention_s: float | None = None,
        names: Names | None = None,
        frames: FrameStore | None = None,
        not_serving: Callable[[], Collection[str]] = tuple,
        free_bytes: Callable[[], int | None] = nothing_known,
    ) -> None:
        self.meters = Meters()
        self.names = names or Names()
        self.frames = frames or SqlFrames(database)
        self._database = database
        self._clock = clock
        kept = retention or Retention()
        self._retention = kept if retention_s is None else kept.at_most(retention_s)
        self._not_serving = not_serving
        self._groupings = Groupings()
        self._decoded = DecodedFrames()
        self._head = Head(self.names)
        self._fleet_runs = FleetRuns(self._head)
        self.writer = Writer(database, self.names, clock, self.meters, fault=WriteFault(free_bytes))
        self.intake = Intake(self.writer, self.meters, self.bounds)
        turn = FoldTurn(database)
        self._compactor = Compactor(
            database, self.frames, self._head, self.names, self.meters, self._retention, self.writer.note_backlog, turn
        )
        self._bulk = BulkLoader(database, self.frames, self.names, clock, self.meters, self._retention, turn)
        self.meters.queue_depth.set_function(lambda: self.writer.depth)
        self.meters.series.set_function(lambda: len(self.names))
        self.meters.registry.register(FleetQuantiles(self, clock))

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        with self._database.snapshot() as connection:
            self.names.load(connection)
            self.writer.note_backlog(backlog(connection))
        try:
            self.frames.make_room(self._clock())
        except Unavailable as error:
            # Frames elsewhere are away: reports wait in the service's own database, and the first fold makes room.
            logger.warning("starting without the frames: %s", error.message)
        self.writer.start()
        self._bulk.start()

    def close(self) -> None:
        """Write what was taken in, then stop. Reading still works."""
        self._bulk.close()
        self.intake.close()
        self.writer.close()

    def ready(self) -> bool:
        """Reports are taken in; whether they can be written, `write_fault` says."""
        return self.writer.alive

    def write_fault(self) -> str:
        """Why the last reports could not be written; empty when they were, or when there is room again."""
        return self.writer.fault.name()

    def tick(self, now: datetime) -> int:
        """Fold sealed windows into frames and drop what is too old. Returns the frames written."""
        frames = self._compactor.tick(now)
        with self._database.snapshot() as connection:
            self._forget_gone(connection)
        return frames

    def follow(self, _: datetime) -> None:
        """Instead of `tick`, where another replica folds: look how much waits and which names there are, so that the
        bounds on them hold here."""
        with self._database.snapshot() as connection:
            self.writer.note_backlog(backlog(connection))
            self._forget_gone(connection)
        self._compactor.know_names()

    # -- ingest --------------------------------------------------------------------------------------------------

    def bounds(self, sender: Sender, *, requests: bool = False, identified: bool = False) -> Bounds:
        """What a sender may speak of now. `requests`: of request spans;
        `identified`: its report carries an identity by which it is recognised for good."""
        now = self._clock()
        if requests:
            oldest = self._retention.requests_accepted_from(now)
        else:
            oldest = self._retention.accepted_from(now, identified=identified)
        return Bounds(to_ns(oldest), to_ns(now) + FUTURE_S * 1_000_000_000, sender)

    def submit_bundle(self, body: bytes, *, encoding: str = "", sender: Sender = ANYONE) -> "Future[Loaded]":
        """Queue a bundle of packed reports of the past; the future is done when they are in frames on the disk."""
        return self._bulk.submit(body, encoding, self.bounds(sender, identified=True))

    # -- reading -------------------------------------------------------------------------------------------------

    def histograms(self, question: Question) -> list[SketchSeries]:
        """See `TelemetryReader`."""
        return self.sketches([question])[0].series()

    def sketches(self, questions: Sequence[Question]) -> list[SketchGroups]:
        """See `TelemetryReader`."""
        names = [self._histogram(one.metric).name for one in questions]
        found = []
        with self._moment() as moment:
            unfolded = {span: self._unfolded(moment, span) for span in {one.span for one in questions}}
            for name, one in zip(names, questions, strict=True):
                sums = HistogramSums(*self._cut(moment, one))
                self._add_up(moment, unfolded[one.span], sums, name, MetricKind.HISTOGRAM, one)
                found.append(sums.groups())
        return found

    def counts(self, question: Question) -> list[ValueSeries]:
        """See `TelemetryReader`."""
        name = self._histogram(question.metric).name
        with self._moment() as moment:
            sums = CountSums(*self._cut(moment, question), question.cost)
            unfolded = self._unfolded(moment, question.span)
            self._add_up(moment, unfolded, sums, name, MetricKind.HISTOGRAM, question)
            return sums.series()

    def scalars(self, question: Question) -> list[ValueSeries]:
        """See `TelemetryReader`."""
        return self.scalars_of_kind(question)[1]

    def scalars_of_kind(self, question: Question) -> tuple[MetricKind, list[ValueSeries]]:
        """See `TelemetryReader`."""
        metric = self.find(question.metric)
        if metric.kind is MetricKind.HISTOGRAM:
            raise BadRequest(f"metric: {question.metric} is a histogram; see /api/v1/quantiles", field="metric")
        kinds = [metric.kind] if metric.kind is not None else [MetricKind.SUM, MetricKind.GAUGE]
        with self._moment() as moment:
            unfolded = self._unfolded(moment, question.span)
            for kind in kinds:
                sums = ScalarSums(*self._cut(moment, question), kind, question.cost)
                self._add_up(moment, unfolded, sums, metric.name, kind, question)
                found = sums.series()
                if found:
                    break
        return kind, found

    def latest(self) -> datetime | None:
        """See `TelemetryReader`. Windows that have not begun yet (a sender's fast clock) do not count."""
        present = self._clock()
        with self._moment() as moment:
            column = col(PendingRow.last_window)
            pending = moment.connection.execute(select(func.max(column)).where(column <= window_at(present))).scalar()
            ends_s = [] if pending is None else [(pending + 1) * BASE_S]
            for resolution in moment.state.levels:
                last = int((present - EPOCH).total_seconds()) // resolution
                folded = self.frames.newest(moment, resolution, last)
                if folded is not None:
                    ends_s.append((folded + 1) * resolution)
                    break
        return EPOCH + timedelta(seconds=max(ends_s)) if ends_s else None

    def trial_nodes(self) -> frozenset[str]:
        """The nodes whose requests are experiments, not production traffic."""
        return frozenset(self._not_serving())

    def workload(self, pool: str, start: datetime, end: datetime, *, cost: Cost | None = None) -> Workload:
        """See `TelemetryReader`. `cost`: each request counts as a row and a cell."""
        not_serving = self.trial_nodes()
        with self._database.snapshot() as connection:
            return captured_workload.workload(connection, pool, start, end, not_serving, cost or Free())

    def timed_requests(self, metric: str, span: Span, where: Where) -> TimedRequests:
        """See `TelemetryReader`."""
        with self._database.snapshot() as connection:
            found = timed_requests.columns_of(connection, metric, span, where)
        return timed_requests.with_states(self, found, metric, self._clock())

    def requests(
        self,
        *,
        start: datetime,
        end: datetime,
        pool: str | None = None,
        node: str | None = None,
        request_id: str | None = None,
        order: str = "newest",
        limit: int = 50,
        offset: int = 0,
    ) -> list[RequestRecord]:
        """See `TelemetryReader`; `offset` skips that many of the first; `request_id`: those with exactly this id."""
        if order not in ("newest", "slowest"):
            raise BadRequest(f"order: {order[:40]!r} is neither newest nor slowest", field="order")
        labels = {label: [value] for label, value in (("pool", pool), ("node", node)) if value is not None}
        with self._database.snapshot() as connection:
            return request_page.records(
                connection,
                Span(start, end),
                RequestFilter(labels),
                slowest=order == "slowest",
                limit=limit,
                offset=offset,
                request_id=request_id,
            )

    def log_from(self) -> datetime:
        """How far back the log of requests reaches."""
        return self._retention.requests_from(self._clock())

    def metric_names(self) -> set[str]:
        """Of every metric that has ever had a value here, whichever replica took it in."""
        with self._database.snapshot() as connection:
            self.names.load(connection)
        return self._own_names()

    def find(self, metric: str) -> MetricRef:
        """See `TelemetryReader`."""
        try:
            return catalogue.find(metric, self._own_names())
        except BadRequest:
            with self._database.snapshot() as connection:  # Another replica may have taken in a sender's own metric.
                self.names.load(connection)
            return catalogue.find(metric, self._own_names())

    # -- inside --------------------------------------------------------------------------------------------------

    def _forget_gone(self, connection: Connection) -> None:
        """What memory holds of pending rows is bounded by what waits, and of frames by what is kept."""
        waiting = self._head.waiting(connection)
        self._head.keep(waiting)
        self._fleet_runs.keep(waiting)
        levels = self.frames.state(connection).levels.values()
        self._decoded.forget({level.resolution: level.kept_from for level in levels})

    def _histogram(self, metric: str) -> MetricRef:
        asked = self.find(metric)
        if asked.kind not in (None, MetricKind.HISTOGRAM):
            raise BadRequest(
                f"metric: {metric} is a {asked.kind}, it has no quantiles; see /api/v1/scalars", field="metric"
            )
        return asked

    def _own_names(self) -> set[str]:
        return {name for name, _ in self.names.metrics()}

    @contextmanager
    def _moment(self) -> Iterator[ReadPoint]:
        with self._database.snapshot() as connection:
            yield ReadPoint(connection, self.frames.state(connection))

    def _cut(self, moment: ReadPoint, question: Question) -> tuple[Grouping, LabelsOf, float | None]:
        """Into which groups and steps the answer is cut."""
        grouping = self._groupings.get(question.by, question.where)
        return grouping, lambda ids: self.names.labels(moment.connection, ids), question.step_s

    def _unfolded(self, moment: ReadPoint, span: Span) -> Unfolded:
        return Unfolded(moment.connection, self._head, self._fleet_runs, *windows_in(span.start, span.end))

    def _add_up(
        self,
        moment: ReadPoint,
        unfolded: Unfolded,
        sums: HistogramSums | ScalarSums,
        name: str,
        kind: MetricKind,
        question: Question,
    ) -> None:
        metric = self.names.metric_id(name, kind)
        if metric is None:  # Another replica may have been the first to take it in.
            self.names.load(moment.connection)
            metric = self.names.metric_id(name, kind)
            if metric is None:
                return
        wanted = scan_of(moment.connection, self.names, metric, kind, question)
        for seconds, block in pieces(moment, self.frames, self._decoded, unfolded, wanted):
            question.cost.read(len(block))
            sums.add(seconds, block)
