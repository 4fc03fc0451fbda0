"""Group commit: one thread writes everything that waits in one transaction, and then releases all who wait for it.

Guarantee: a future that has a result stands for data on the disk (see `controlplane.db.database`); one that has an
exception may or may not have been written, and its sender's retry is recognised. An entry that cannot be written fails
alone: its batch is tried again one by one. The queue is bounded: `Overloaded` beyond it.
"""

import logging
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future

from sqlalchemy.exc import SQLAlchemyError

from controlplane.contract.clock import Clock
from controlplane.contract.errors import Overloaded, Unavailable
from controlplane.db.database import Database
from controlplane.telemetry import journal
from controlplane.telemetry.journal import Entry
from controlplane.telemetry.meters import Meters
from controlplane.telemetry.series import SeriesIndex

logger = logging.getLogger(__name__)

QUEUE_LIMIT = 512
BATCH_ITEMS = 20_000
ATTEMPTS = 3
Job = tuple[Entry, "Future[Entry]"]


class Writer:
    """Start it once; `close` writes what still waits."""

    def __init__(
        self, database: Database, index: SeriesIndex, clock: Clock, meters: Meters, *, queue_limit: int = QUEUE_LIMIT
    ) -> None:
        self._database = database
        self._index = index
        self._clock = clock
        self._meters = meters
        self._queue: queue.Queue[Job | None] = queue.Queue(queue_limit)
        self._thread: threading.Thread | None = None
        self._closing = threading.Lock()
        self._open = False

    @property
    def depth(self) -> int:
        return self._queue.qsize()

    @property
    def alive(self) -> bool:
        return self._open and self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        self._open = True
        self._thread = threading.Thread(target=self._run, name="telemetry-writer", daemon=True)
        self._thread.start()

    def submit(self, entry: Entry) -> "Future[Entry]":
        """Queue an entry. Raises `Overloaded` when the queue is full, `Unavailable` when the writer is not running."""
        future: Future[Entry] = Future()
        with self._closing:
            if not self.alive:
                raise Unavailable("the telemetry store is not running; send the report again later")
            try:
                self._queue.put_nowait((entry, future))
            except queue.Full:
                raise Overloaded("too many reports wait to be written; send again later", retry_after_s=1.0) from None
        return future

    def close(self) -> None:
        """Write what waits, then stop."""
        with self._closing:
            if not self._open:
                return
            self._open = False
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            jobs, last = self._waiting(first)
            try:
                self._commit(jobs)
            except Exception as error:
                logger.exception("the telemetry writer failed")
                for _, future in jobs:
                    if not future.done():
                        future.set_exception(error)
            if last:
                return

    def _waiting(self, first: Job) -> tuple[list[Job], bool]:
        """Everything in the queue, up to a batch; and whether the end was in it."""
        jobs = [first]
        items = len(first[0].points) + len(first[0].records)
        while items < BATCH_ITEMS:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return jobs, True
            jobs.append(job)
            items += len(job[0].points) + len(job[0].records)
        return jobs, False

    def _commit(self, jobs: Sequence[Job], attempt: int = 1) -> None:
        began = time.perf_counter()
        try:
            with self._database.session() as session:
                written = journal.write(session, [entry for entry, _ in jobs], self._index, self._clock())
        except SQLAlchemyError as error:
            self._after_failure(jobs, attempt, error)
            return
        self._index.learn({key: number for key, number in written.series.items() if key not in self._index})
        self._meters.commit_seconds.observe(time.perf_counter() - began)
        for entry, future in jobs:
            future.set_result(entry)

    def _after_failure(self, jobs: Sequence[Job], attempt: int, error: SQLAlchemyError) -> None:
        if len(jobs) > 1:
            for job in jobs:
                self._commit([job])
        elif attempt < ATTEMPTS:
            # Another replica may have counted the same report at the same moment: now it is there to be seen.
            self._commit(jobs, attempt + 1)
        else:
            logger.error("a report could not be written: %s", error)
            self._meters.commit_failures.inc()
            jobs[0][1].set_exception(
                Unavailable(f"the report could not be written ({type(error).__name__}); send it again later")
            )
