"""Answers that are sent again whenever a new window of data is complete, to any number of listeners.

Guarantee: one computation for all listeners of the same query; ids grow, and one that a listener names as its last is
never sent again; a listener that reads slowly skips, and holds nothing up; every listener ends when the service stops.
"""

import asyncio
import logging
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from anyio import CapacityLimiter, to_thread

from controlplane.contract.clock import Clock
from controlplane.contract.errors import BadRequest, DeadlineUnmet, Overloaded, TailwrightError, TooLarge, Unavailable
from controlplane.contract.metrics import WINDOW_S
from controlplane.telemetry.values.timespan import EPOCH

logger = logging.getLogger(__name__)

LAG_S = 5.0
"""A window is taken for complete this long after its end: by then the nodes have reported it."""
POLL_S = 0.5
STOP_POLL_S = 0.1
"""A listener ends so soon after the service is told to, whatever is being computed."""
KEPT = 60
"""Answers that a query keeps, and at most so many that a listener is sent when it comes back."""
LISTENERS = 200
QUERIES = 50
RETRY_AFTER_S = 10.0
LONGEST_S = 3_600.0
"""Then a stream ends: its listener comes back, and its token is looked at again."""

QUIET_S = 5.0

T = TypeVar("T")
Compute = Callable[[datetime], str]
"""The answer, as JSON, of a span that ends then. Called in a thread."""


class Update(NamedTuple):
    """One answer. `number`: the end of its span in seconds since the epoch, which is its id."""

    number: int
    data: str


class Failure(NamedTuple):
    """The query cannot be answered any more (it has grown beyond a limit); its stream ends with it."""

    error: TailwrightError


class Feed:
    """One query: its newest answers, and who waits for the next."""

    def __init__(self, compute: Compute) -> None:
        self.compute = compute
        self.listeners = 0
        self.kept: dict[int, Update] = {}
        self.failure: Failure | None = None
        self.changed = asyncio.Event()
        self.lock = asyncio.Lock()

    @property
    def newest(self) -> int:
        """The newest answer's number; 0 before the first."""
        return max(self.kept, default=0)

    def add(self, update: Update) -> None:
        self.kept[update.number] = update
        if len(self.kept) > KEPT:
            del self.kept[min(self.kept)]

    def newer(self, sent: int) -> list[Update]:
        """What is kept after `sent`, oldest first."""
        return [self.kept[number] for number in sorted(self.kept) if number > sent]

    def wake(self) -> None:
        waiting, self.changed = self.changed, asyncio.Event()
        waiting.set()


class Streams:
    """The feeds of one service. All but `compute` and `latest` runs in the event loop.

    latest: end of the newest window that has data; stop: set when the service ends.
    """

    def __init__(
        self, latest: Callable[[], datetime | None], clock: Clock, stop: threading.Event, *, poll_s: float = POLL_S
    ) -> None:
        self._latest = latest
        self._clock = clock
        self._stop = stop
        self._poll_s = poll_s
        self._feeds: dict[str, Feed] = {}
        self._listeners = 0
        self._task: asyncio.Task[None] | None = None
        self._threads = CapacityLimiter(2)

    @contextmanager
    def listen(self, key: str, compute: Compute) -> Iterator[Feed]:
        """A listener's place at the feed of a query. Raises `Overloaded` when there are too many."""
        feed = self._feeds.get(key)
        if self._listeners >= LISTENERS or (feed is None and len(self._feeds) >= QUERIES):
            raise Overloaded(
                f"at most {LISTENERS} listeners and {QUERIES} different queries; try again later",
                retry_after_s=RETRY_AFTER_S,
            )
        if feed is None:
            feed = self._feeds[key] = Feed(compute)
        feed.listeners += 1
        self._listeners += 1
        try:
            yield feed
        finally:
            feed.listeners -= 1
            self._listeners -= 1
            if not feed.listeners and self._feeds.get(key) is feed:
                del self._feeds[key]

    async def begin(self, feed: Feed) -> None:
        """See to it that a feed has an answer, and is kept up to date. Raises what the query itself raises."""
        async with feed.lock:
            if not feed.kept:
                if self._stop.is_set():
                    raise Unavailable("the service stops; ask again when it is back")
                end = await self._in_thread(self._complete) or self._settled()
                feed.add(await self._computed(feed, end))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="telemetry-streams")

    async def follow(self, feed: Feed, after: int | None = None) -> AsyncIterator[Update | Failure | None]:
        """Answers newer than `after`, those of the windows between first; without it, the newest and what follows.

        None where there was no new one for `QUIET_S`: whoever may listen can be looked at again.
        """
        give_up_at = asyncio.get_running_loop().time() + LONGEST_S
        if after is None or after > _number(self._clock()):
            sent = feed.newest - 1
        else:
            sent = after
            for update in await self._missed(feed, after):
                yield update
                sent = update.number
        while not self._stop.is_set():
            changed = feed.changed
            for update in feed.newer(sent):
                yield update
                sent = update.number
            if feed.failure is not None:
                yield feed.failure
                return
            left_s = give_up_at - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(changed.wait(), min(left_s, QUIET_S))
            except TimeoutError:
                if left_s <= QUIET_S:
                    return
                yield None

    async def _missed(self, feed: Feed, after: int) -> list[Update]:
        """The answers of the windows since `after`, oldest first, at most `KEPT`; what is not kept is computed."""
        step = int(WINDOW_S)
        async with feed.lock:
            newest = feed.newest
            first = max((after // step + 1) * step, newest - (KEPT - 1) * step)
            for number in range(first, newest, step):
                if number not in feed.kept:
                    feed.add(await self._computed(feed, EPOCH + timedelta(seconds=number)))
        return [update for update in feed.newer(after) if update.number <= newest]

    async def _run(self) -> None:
        """Keep every feed up to date while anybody listens, and end all listeners with the service."""
        ending = asyncio.create_task(self._wake_at_the_end(), name="telemetry-streams-end")
        try:
            while self._feeds and not self._stop.is_set():
                await self._advance_all()
                await asyncio.sleep(self._poll_s)
        finally:
            ending.cancel()
            self._wake_all()

    async def _wake_at_the_end(self) -> None:
        # A signal handler sets it, which can wake nothing of an event loop.
        while not self._stop.is_set():  # noqa: ASYNC110
            await asyncio.sleep(STOP_POLL_S)
        self._wake_all()

    def _wake_all(self) -> None:
        for feed in self._feeds.values():
            feed.wake()

    async def _advance_all(self) -> None:
        """Look for a new complete window, and compute every feed's answer to it."""
        try:
            end = await self._in_thread(self._complete)
            for feed in list(self._feeds.values()):
                if end is not None and feed.kept and _number(end) > feed.newest and not self._stop.is_set():
                    await self._advance(feed, end)
        except Exception:
            logger.exception("streams could not be brought up to date; trying again")

    async def _advance(self, feed: Feed, end: datetime) -> None:
        try:
            feed.add(await self._computed(feed, end))
        except (BadRequest, TooLarge, DeadlineUnmet) as error:
            feed.failure = Failure(error)
        feed.wake()

    async def _computed(self, feed: Feed, end: datetime) -> Update:
        return Update(_number(end), await self._in_thread(lambda: feed.compute(end)))

    def _complete(self) -> datetime | None:
        """End of the newest complete window that has data."""
        newest = self._latest()
        return None if newest is None else min(newest, self._settled())

    def _settled(self) -> datetime:
        seconds = (self._clock() - EPOCH).total_seconds() - LAG_S
        return EPOCH + timedelta(seconds=math.floor(seconds / WINDOW_S) * WINDOW_S)

    async def _in_thread(self, act: Callable[[], T]) -> T:
        return await to_thread.run_sync(act, limiter=self._threads)


def _number(end: datetime) -> int:
    return round((end - EPOCH).total_seconds())
