"""Loads of history: bundles of packed reports, folded into frames at once instead of by way of the log.

What waits is folded together, many windows of many nodes at a time, so that a frame is made once and hardly ever merged
with.

Guarantee: a bundle that has an answer is in frames on the disk, at every level. Frames and the recognition of parts are
one transaction, so that a part counts once, however often it is sent, to whichever replica, and whatever is killed
meanwhile. Live reports of the same windows may come at the same time. Broken bundles are refused whole, rows alone.
"""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import datetime
from queue import Queue
from typing import NamedTuple, Self

import numpy as np
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from controlplane.contract.clock import Clock
from controlplane.contract.errors import Overloaded, TailwrightError, Unavailable
from controlplane.db.database import Database
from controlplane.telemetry.folding import bulk_frames, retention
from controlplane.telemetry.folding.bulk_parts import NEW, Loaded, Part, read_bundle, rows_of
from controlplane.telemetry.folding.fold_turn import FoldTurn
from controlplane.telemetry.folding.retention import Retention
from controlplane.telemetry.frames.frame_store import Fold, FrameStore, ReadPoint
from controlplane.telemetry.journal import journal
from controlplane.telemetry.journal.ingest_queue import IngestQueue
from controlplane.telemetry.journal.names import Names
from controlplane.telemetry.meters import Meters
from controlplane.telemetry.otlp.bounds import Bounds
from controlplane.telemetry.reports import stream_identity
from controlplane.telemetry.reports.packed_table import PackedTables
from controlplane.telemetry.reports.stream_identity import Recognised, Sighting
from controlplane.telemetry.values.batch import Batch
from controlplane.telemetry.values.columns import Columns
from controlplane.telemetry.values.levels import COARSER, FoldState
from controlplane.telemetry.values.refusal import Reason
from controlplane.telemetry.values.timespan import to_ns

logger = logging.getLogger(__name__)

QUEUE_LIMIT = 8
QUEUE_BYTES = 128 << 20
BYTES_AT_ONCE = 48 << 20
"""Bundles are folded together until they have so many plain bytes: at most some 600,000 histograms, which take about
ten times as much memory."""
SEALED_S = 60
"""How far an empty store has come that begins with a load: what is younger is built when its windows are over."""
PATIENCE_S = 30.0
ATTEMPTS = 5


class Job(NamedTuple):
    body: bytes
    encoding: str
    bounds: Bounds
    waiter: "Future[Loaded]"


class Taken(NamedTuple):
    """Bundles to be folded together, and the rows of all their parts."""

    jobs: Sequence[Job]
    loaded: Sequence[Loaded]
    rows: Batch

    @classmethod
    def of(cls, jobs: Sequence[Job], loaded: Sequence[Loaded]) -> Self:
        return cls(jobs, loaded, rows_of([part for one in loaded for part in one.parts]))


class BulkLoader:
    """Start it once; `close` ends the fold under way and refuses what still waits.

    One thread reads the next bundles while another folds, which waits for the disk half of the time.
    """

    def __init__(
        self,
        database: Database,
        frames: FrameStore,
        names: Names,
        clock: Clock,
        meters: Meters,
        limits: Retention,
        turn: FoldTurn,
    ) -> None:
        self._database = database
        self._frames = frames
        self._names = names
        self._clock = clock
        self._meters = meters
        self._retention = limits
        self._turn = turn
        self._tables = PackedTables()
        self._queue: IngestQueue[Job] = IngestQueue(QUEUE_LIMIT, QUEUE_BYTES)
        self._ahead: Queue[Taken | None] = Queue(1)
        self._threads: Sequence[threading.Thread] = ()
        self._open = False

    def start(self) -> None:
        self._queue = IngestQueue(QUEUE_LIMIT, QUEUE_BYTES)
        self._open = True
        self._threads = [
            threading.Thread(target=self._read_all, name="telemetry-history-reading", daemon=True),
            threading.Thread(target=self._fold_all, name="telemetry-history", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._open = False
        self._queue.close()
        for thread in self._threads:
            thread.join()

    def submit(self, body: bytes, encoding: str, bounds: Bounds) -> "Future[Loaded]":
        """Queue a bundle as it was sent. Raises `Overloaded` when too much waits, `Unavailable` when not running."""
        waiter: Future[Loaded] = Future()
        waiter.set_running_or_notify_cancel()  # Whoever stops waiting for it must not cancel the writing.
        if not self._open:
            raise Unavailable("the telemetry store is not running; send the bundle again later")
        if not self._queue.put(Job(body, encoding, bounds, waiter), len(body)):
            self._meters.overloaded.inc()
            raise Overloaded("too many bundles wait to be loaded; send again later", retry_after_s=1.0)
        return waiter

    # -- the threads ---------------------------------------------------------------------------------------------

    def _read_all(self) -> None:
        while self._queue.wait(0.0, 1):
            taken = self._take()
            if taken is not None:
                self._ahead.put(taken)
        self._ahead.put(None)

    def _fold_all(self) -> None:
        while (taken := self._ahead.get()) is not None:
            if self._open:
                self._answer(taken)
                continue
            for job in taken.jobs:
                job.waiter.set_exception(Unavailable("the service stops; send the bundle again later"))

    def _take(self) -> Taken | None:
        """What waits, up to `BYTES_AT_ONCE`. A bundle that cannot be read is answered at once."""
        jobs, found, nbytes = [], [], 0
        while nbytes < BYTES_AT_ONCE and (job := self._queue.pop()) is not None:
            try:
                loaded = read_bundle(job.body, job.encoding, job.bounds, self._tables)
            except TailwrightError as error:
                job.waiter.set_exception(error)
                continue
            jobs.append(job)
            found.append(loaded)
            nbytes += loaded.nbytes
        try:
            return Taken.of(jobs, found) if jobs else None
        except Exception as error:  # Nobody may wait for an answer that does not come.
            logger.error("bundles could not be read", exc_info=error)
            for job in jobs:
                job.waiter.set_exception(error)
            return None

    def _answer(self, taken: Taken) -> None:
        try:
            self._load([part for one in taken.loaded for part in one.parts], taken.rows)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not cost those who had no part in it.
            logger.warning("a load of %d bundles failed: %s: %s", len(taken.jobs), type(error).__name__, error)
            self._after_failure(taken.jobs, taken.loaded, error)
            return
        for job, one in zip(taken.jobs, taken.loaded, strict=True):
            job.waiter.set_result(one)

    def _after_failure(self, jobs: Sequence[Job], loaded: Sequence[Loaded], error: Exception) -> None:
        if len(jobs) > 1:
            for job, one in zip(jobs, loaded, strict=True):
                self._answer(Taken.of([job], [one]))
            return
        self._meters.commit_failures.inc()
        logger.error("a bundle could not be loaded", exc_info=error)
        unavailable = Unavailable(f"the bundle could not be written ({type(error).__name__}); send it again later")
        jobs[0].waiter.set_exception(unavailable if isinstance(error, SQLAlchemyError) else error)

    # -- one fold ------------------------------------------------------------------------------------------------

    def _load(self, parts: Sequence[Part], rows: Batch) -> None:
        """When this returns, all of it is on the disk; when it raises, nothing is."""
        with self._turn.take(PATIENCE_S) as mine:
            if not mine:
                raise Unavailable("another replica folds; send the bundle again later")
            for _ in range(ATTEMPTS):
                if self._fold(parts, rows):
                    break
            else:
                raise Unavailable("the same parts are being loaded elsewhere; send the bundle again later")
        for part in parts:
            part.entry.settle()

    def _fold(self, parts: Sequence[Part], rows: Batch) -> bool:
        """False where somebody else was first, so that this is to be done again."""
        now = self._clock()
        with self._database.read_session() as session:
            seen = stream_identity.sighted(session, [part.identity for part in parts if part.keeps_some])
        columns = self._counted(parts, rows, seen, now)
        if not len(columns):
            return True
        with self._database.snapshot() as connection:
            moment = ReadPoint(connection, self._state(connection, now))
            made = bulk_frames.frames(
                self._frames,
                moment,
                columns,
                lambda labels: self._names.blocks(connection, labels),
                lambda labels: self._names.fleet(connection, labels),
            )
            fold = Fold(moment.state.next(), list(made))
        self._frames.prepare(fold)
        with self._database.session() as session:
            mine = [part.identity for part in parts if part.keeps_some]
            if stream_identity.recognise(session, mine, to_ns(now)) != seen or not self._frames.commit(session, fold):
                logger.info("fold %d was another's", fold.number)
                session.rollback()
                return False
        self._meters.frames.inc(len(fold.frames))
        return True

    def _counted(self, parts: Sequence[Part], rows: Batch, seen: Sequence[Recognised], now: datetime) -> Columns:
        """The rows of the parts that are new, with the store's ids. Names that are missing are made."""
        told = iter(seen)
        counts = np.zeros(len(parts), bool)
        for place, part in enumerate(parts):
            part.entry.begin()
            part.seen = next(told) if part.keeps_some else NEW
            counts[place] = part.seen.sighting is Sighting.NEW
            rest = part.rows - part.entry.refusals.count
            if counts[place]:
                part.entry.accepted += part.entry.silent
            elif part.seen.sighting is Sighting.OTHER:
                part.entry.late.add(Reason.OTHER, "its number was counted with other content; use a new stream", rest)
            else:
                part.entry.repeated += rest
        kept = rows.select(counts[rows.owners])
        if not len(kept.owners):
            return kept.columns
        with self._database.session() as session:
            resolution = self._names.resolve(session, kept.tables, now)
        self._names.learn(resolution.learnt)
        return journal.with_ids(kept, resolution.of, [part.entry for part in parts], self._names)

    def _state(self, connection: Connection, now: datetime) -> FoldState:
        """What is older than a level keeps is not written to it only to be dropped."""
        state = self._frames.state(connection)
        if not state.number:
            state = FoldState.first_at((int(now.timestamp()) - SEALED_S) // COARSER[0] * COARSER[0])
        return state.having(*retention.aged(state, self._retention, now))
