"""Reads the engine's events, and turns each sealed tally into a report on disk.

Guarantee: reading never waits for the disk or the network; a tally that cannot be stored is kept in memory and tried
again, and until it is stored the position stays behind it.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping

from agents.agent.delivery.credentials import Credentials
from agents.agent.delivery.spool import Slot, Spool
from agents.agent.reports.accumulator import Accumulator
from agents.agent.reports.body import Body
from agents.agent.reports.clock_offset import ClockReading
from agents.agent.reports.report import AgentCounts, NodeIdentity, body_of
from agents.agent.reports.report_table import ReportTable
from agents.agent.reports.request_spans import encode_spans
from agents.agent.reports.tally import Tally
from agents.backends.base import Backend, EngineUnreachable
from agents.host.backoff import Backoff
from agents.host.snapshot import Figures
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.reports.engine_event import Hello

log = logging.getLogger(__name__)

ASK_EVERY_S = 2.0
KEPT_IN_MEMORY = 720
"""Tallies held while the disk takes none, an hour of reports; beyond it the oldest go, counted as dropped."""


class Collector:
    """`read`, `write` and `ask` run side by side. `unaccounted_share`: of the last report with finished requests."""

    def __init__(
        self,
        backend: Backend,
        spool: Spool,
        identity: NodeIdentity,
        credentials: Credentials,
        *,
        interval_s: float,
        grace_s: float,
        window_s: float = WINDOW_S,
        on_engine: Callable[[Hello], None],
        on_report: Callable[[], None],
        clock: Callable[[], ClockReading | None] = lambda: None,
        host: Callable[[], Mapping[int, Figures]] = dict,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._backend = backend
        self._spool = spool
        self._identity = identity
        self._key = credentials.key_bytes
        self._interval_s = interval_s
        self._grace_s = grace_s
        self._on_engine = on_engine
        self._on_report = on_report
        self._clock = clock
        self._host = host
        self._now = now
        self._accumulator = Accumulator(spool.position, interval_s, window_s)
        self._table = ReportTable()
        self._waiting: deque[Tally] = deque()
        self._ready = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._storing: asyncio.Task[bool] | None = None
        self._dropped_in_memory = 0  # What the spool does not know of yet.
        self.unaccounted_share: float | None = None
        self.disk_error = ""

    @property
    def dropped(self) -> int:
        """Reports lost to a full or broken disk since this process started."""
        return self._spool.dropped + self._dropped_in_memory

    async def read(self) -> None:
        """Follow the engine for ever."""
        backoff = Backoff(first_s=0.1, limit_s=2.0)
        while True:
            try:
                async for item in self._backend.events(self._accumulator.read_to):
                    if item["kind"] == "hello":
                        backoff.reset()
                        self._accumulator.hello(item)
                        self._on_engine(item)
                    else:
                        self._accumulator.count(item)
                    if self._accumulator.has_sealed:
                        self._ready.set()
            except EngineUnreachable as error:
                log.info("the event stream broke: %s", error.message)
            await asyncio.sleep(backoff.next_s())

    async def write(self) -> None:
        """Store reports for ever: as soon as one is sealed, and at the end of each interval plus the grace."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), self._until_next_end_s())
            self._ready.clear()
            self._accumulator.seal_overdue(self._now(), self._grace_s)
            if not await self.store():
                await asyncio.sleep(1.0)
                self._ready.set()

    async def ask(self) -> None:
        """Ask for requests that no event tells of, for ever, a few times in each interval."""
        while True:
            if (lost := await self._backend.lost()) is not None:
                self._accumulator.count_lost(self._now(), lost.revision, lost.requests)
            await asyncio.sleep(min(ASK_EVERY_S, self._interval_s))

    async def flush(self) -> None:
        """Store all that was counted: the process is about to end."""
        self._accumulator.seal()
        await self.store()

    async def store(self) -> bool:
        """Put the sealed tallies into the spool. False when the disk does not take them.

        Once begun it ends, whoever is cancelled meanwhile: a tally that is on disk and in memory would count twice.
        """
        self._storing = asyncio.create_task(self._store())
        return await asyncio.shield(self._storing)

    async def _store(self) -> bool:
        async with self._one_at_a_time:
            return await self._store_waiting()

    async def _store_waiting(self) -> bool:
        self._waiting.extend(self._accumulator.take())
        while len(self._waiting) > KEPT_IN_MEMORY:
            self._waiting.popleft()
            self._dropped_in_memory += 1
        while self._waiting:
            tally = self._waiting[0]
            if tally.position is not None:
                try:
                    await asyncio.to_thread(self._append, tally, self._clock())
                except (TypeError, ValueError, OverflowError):
                    log.exception("a report cannot be encoded and is dropped")
                    self._dropped_in_memory += 1
                except OSError as error:
                    log.error("a report cannot be written to the spool: %s", error)
                    self.disk_error = str(error)
                    return False
            self._waiting.popleft()
            self.disk_error = ""
            share = tally.unaccounted_share()
            if share is not None:
                self.unaccounted_share = share
            self._on_report()
        return True

    def _append(self, tally: Tally, clock: ClockReading | None) -> None:
        assert tally.position is not None
        lost, self._dropped_in_memory = self._dropped_in_memory, 0
        self._spool.note_lost(lost)
        spans = encode_spans(tally, self._identity, self._key)
        traces = Body.otlp(spans) if spans else None
        host = self._host()

        def encode(slot: Slot) -> tuple[Body, Body | None]:
            counts = AgentCounts(self._spool.depth, slot.dropped, clock, host)
            body = body_of(tally, self._identity, slot.stream, slot.ordinal, counts, self._table)
            return body, traces

        self._spool.append(encode, tally.position)

    def _until_next_end_s(self) -> float:
        passed_s = (self._now() - self._grace_s) % self._interval_s
        return self._interval_s - passed_s + 0.01
