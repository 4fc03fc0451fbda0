"""Group commit: one thread writes everything that waits in one transaction, and then releases all who wait for it.

Guarantee: a future that has a result stands for data on the disk (see `controlplane.db.database`); one that has an
exception may or may not have been written, and its sender's retry is recognised. An entry that cannot be written, or a
body that cannot be read, fails alone: its batch is tried again one by one. The queue is bounded, in reports and in
bytes: `Overloaded` beyond. An answer that takes longer than `COMMIT_TIMEOUT_S` is `Unavailable`; the report may still
be written, and its repeat is recognised.
"""

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from controlplane.contract.clock import Clock
from controlplane.contract.errors import Overloaded, TailwrightError, Unavailable
from controlplane.db.database import Database
from controlplane.db.fault import SAYING, named
from controlplane.telemetry.journal import content_encoding, journal
from controlplane.telemetry.journal.ingest_queue import IngestQueue
from controlplane.telemetry.journal.names import Names
from controlplane.telemetry.journal.pace import Pace
from controlplane.telemetry.journal.write_fault import WriteFault
from controlplane.telemetry.meters import Meters
from controlplane.telemetry.otlp.bounds import Bounds
from controlplane.telemetry.reports import packed
from controlplane.telemetry.reports.entry import Entry
from controlplane.telemetry.reports.packed_table import PackedTables
from controlplane.telemetry.values.refusal import Outcome

logger = logging.getLogger(__name__)

QUEUE_LIMIT = 4096
QUEUE_BYTES = 64 << 20
BATCH_REPORTS = 256
BATCH_ITEMS = 50_000
BATCH_BYTES = 32 << 20
LINGER_EACH_S = 0.01
LINGER_S = 0.1
"""A commit waits for company LINGER_EACH_S for each report of the one before, if it had several, up to LINGER_S: who
sends one by one never waits, and a crowd shares the cost of a commit.
"""
BACKLOG_BYTES = 512 << 20
"""Pending rows beyond which nothing more is taken until some are folded: reading them is work for every query."""
ATTEMPTS = 3
COMMIT_TIMEOUT_S = 60.0


class Body(NamedTuple):
    """A packed report as it was sent."""

    body: bytes
    encoding: str
    bounds: Bounds

    @property
    def nbytes(self) -> int:
        return len(self.body)


class Job(NamedTuple):
    work: Entry | Body
    waiter: "asyncio.Future[Entry]"


class Ready(NamedTuple):
    """A job whose body has been read."""

    entry: Entry
    waiter: "asyncio.Future[Entry]"


class Settled(NamedTuple):
    """A waiter, and what it has waited for."""

    waiter: "asyncio.Future[Entry]"
    result: Entry | BaseException


class Writer:
    """`close` writes what still waits; after it, it may be started again."""

    def __init__(
        self,
        database: Database,
        names: Names,
        clock: Clock,
        meters: Meters,
        *,
        queue_limit: int = QUEUE_LIMIT,
        queue_bytes: int = QUEUE_BYTES,
        backlog_bytes: int = BACKLOG_BYTES,
        linger_s: float = LINGER_S,
        fault: WriteFault | None = None,
    ) -> None:
        self._database = database
        self._names = names
        self._clock = clock
        self._meters = meters
        self.fault = fault or WriteFault()
        self.pace = Pace()
        self._linger_s = linger_s
        self._backlog_bytes = backlog_bytes
        self._backlog: int | None = None
        self._limits = queue_limit, queue_bytes
        self._queue: IngestQueue[Job] = IngestQueue(*self._limits)
        self._tables = PackedTables()
        self._thread: threading.Thread | None = None
        self._closing = threading.Lock()
        self._open = False

    @property
    def depth(self) -> int:
        """Reports that wait."""
        return len(self._queue)

    @property
    def alive(self) -> bool:
        return self._open and self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        assert not self.alive, "it runs already"
        self._queue = IngestQueue(*self._limits)  # One that was closed stays so.
        self._open = True
        self._thread = threading.Thread(target=self._run, name="telemetry-writer", daemon=True)
        self._thread.start()

    def note_backlog(self, nbytes: int) -> None:
        """Say how much waits to be folded; to be called each time that some of it was. Never called: no bound."""
        self._backlog = nbytes

    # -- taking in, on the event loop -----------------------------------------------------------------------------

    async def written(self, signal: str, work: Entry | Body) -> Outcome:
        """What became of it, once it is on the disk; raises as `submit`, and what is wrong with a body."""
        future = self.submit(work)
        timer = asyncio.get_running_loop().call_later(COMMIT_TIMEOUT_S, _give_up, future)
        try:
            entry = await future
        finally:
            timer.cancel()
        self.pace.done()
        outcome = entry.outcome()
        self._meters.count(signal, outcome)
        return outcome

    def close(self) -> None:
        """Write what waits, then stop."""
        with self._closing:
            if not self._open:
                return
            self._open = False
            self._queue.close()
        if self._thread is not None:
            self._thread.join()

    def submit(self, work: Entry | Body) -> "asyncio.Future[Entry]":
        """Queue it. Raises `Overloaded` when the queue is full, `Unavailable` when the writer is not running."""
        waiter: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        with self._closing:
            if not self.alive:
                raise Unavailable("the telemetry store is not running; send the report again later")
            full = self._backlog is not None and self._backlog > self._backlog_bytes
            if full or not self._queue.put(Job(work, waiter), work.nbytes):
                self._meters.overloaded.inc()
                what = "folded" if full else "written"
                raise Overloaded(
                    f"too many reports wait to be {what}; send again later", retry_after_s=self.pace.wait_s(self.depth)
                )
        return waiter

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        linger_s = 0.0
        while self._queue.wait(linger_s, BATCH_REPORTS):
            batch = self._take()
            linger_s = min(self._linger_s, LINGER_EACH_S * len(batch)) if len(batch) > 1 else 0.0
            if batch:
                self._commit(batch)

    def _take(self) -> list[Ready]:
        """What waits, up to a batch. Bodies that cannot be read are answered at once."""
        batch: list[Ready] = []
        failed: list[Settled] = []
        items = nbytes = 0
        while len(batch) < BATCH_REPORTS and items < BATCH_ITEMS and nbytes < BATCH_BYTES:
            job = self._queue.pop()
            if job is None:
                break
            try:
                entry = job.work if isinstance(job.work, Entry) else self._read(job.work)
            except TailwrightError as error:
                failed.append(Settled(job.waiter, error))
                continue
            batch.append(Ready(entry, job.waiter))
            items += entry.items
            nbytes += entry.nbytes
        _release(failed)
        return batch

    def _read(self, sent: Body) -> Entry:
        plain = content_encoding.decompress(sent.body, sent.encoding)
        return Entry(packed=packed.split(plain, self._tables, sent.bounds.sender.node), bounds=sent.bounds)

    def _commit(self, batch: Sequence[Ready], attempt: int = 1) -> None:
        began = time.perf_counter()
        try:
            prepared = journal.prepare([entry for entry, _ in batch])
            with self._database.session() as session:
                written = journal.write(session, prepared, self._names, self._clock())
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not cost those who had no part in it.
            logger.warning("a commit of %d reports failed: %s: %s", len(batch), type(error).__name__, error)
            self._after_failure(batch, attempt, error)
            return
        self.fault.went_well(_nbytes(batch))
        self._names.learn(written.names)
        for entry, _ in batch:
            entry.settle()
        self._meters.commit_seconds.observe(time.perf_counter() - began)
        self._meters.commit_reports.observe(len(batch))
        self._meters.resets.inc(written.resets)
        for sighting in written.conflicts:
            self._meters.conflicts.labels(sighting.value).inc()
        if self._backlog is not None:
            self._backlog += written.nbytes
        _release(Settled(waiter, entry.error or entry) for entry, waiter in batch)

    def _after_failure(self, batch: Sequence[Ready], attempt: int, error: Exception) -> None:
        if len(batch) > 1:
            for one in batch:
                self._commit([one])
            return
        of_database = isinstance(error, SQLAlchemyError)
        if of_database and attempt < ATTEMPTS and named(error) not in SAYING:
            # Another replica may have counted the same report at the same moment: now it is there to be seen.
            self._commit(batch, attempt + 1)
            return
        if not of_database or self.fault.failed(error, _nbytes(batch)):
            # A full disk refuses every report: its trace is told once, each commit by its line above.
            logger.error("a report could not be written", exc_info=error)
        self._meters.commit_failures.inc()
        unavailable = Unavailable(f"the report could not be written: {named(error)}; send it again later")
        _release([Settled(batch[0].waiter, unavailable if of_database else error)])


def _nbytes(batch: Sequence[Ready]) -> int:
    return sum(entry.nbytes for entry, _ in batch)


def _release(settled: Iterable[Settled]) -> None:
    """Hand every waiter its result. An event loop is woken once for all of its own: waking it costs more than the rest
    of an answer."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = defaultdict(list)
    for one in settled:
        by_loop[one.waiter.get_loop()].append(one)
    for loop, results in by_loop.items():
        try:
            loop.call_soon_threadsafe(_in_loop, results)
        except RuntimeError:  # The loop is closed: nobody waits any more. What was written stays written.
            logger.info("%d reports were settled after their event loop had ended", len(results))


def _in_loop(results: Iterable[Settled]) -> None:
    for waiter, result in results:
        if waiter.done():  # Cancelled: the sender has hung up.
            continue
        if isinstance(result, BaseException):
            waiter.set_exception(result)
        else:
            waiter.set_result(result)


def _give_up(future: "asyncio.Future[Entry]") -> None:
    if not future.done():
        future.set_exception(Unavailable("the report was not written in time; send it again, it will be recognised"))
