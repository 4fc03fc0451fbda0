"""Work done together (group commit): what comes while a worker is busy is taken by the next in one go, so that the more
there is, the less each costs.

Guarantees: each is done once; what comes alone is done at once, by itself. One whose caller is gone before a worker has
taken it is not done. A worker takes what waits as soon as it is done, however many callers have yet to hear of theirs.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread

A = TypeVar("A")
B = TypeVar("B")

MOST = 256


class JointWork(Generic[A, B]):
    """`work` does several in a worker thread, and gives for each what came of it, an exception in its place. workers:
    how many such calls run at a time; most: how many are handed to one. To be used on one event loop."""

    def __init__(
        self,
        work: Callable[[Sequence[A]], Sequence[B | Exception]],
        limiter: CapacityLimiter,
        *,
        workers: int = 1,
        most: int = MOST,
    ) -> None:
        self._work, self._limiter, self._most = work, limiter, most
        self._threads = CapacityLimiter(workers)
        self._free = workers
        self._at_work: set[asyncio.Task[None]] = set()  # The loop itself holds its tasks weakly.
        self._waiting: dict[asyncio.Future[B], A] = {}  # In order.
        self.unanswered = 0
        """How many wait for what comes of theirs, whether a worker has taken it or not."""

    @property
    def waiting(self) -> int:
        """How many no worker has taken yet."""
        return len(self._waiting)

    async def do(self, asked: A) -> B:
        """What came of it. Raises what it raised."""
        mine: asyncio.Future[B] = asyncio.get_running_loop().create_future()
        self._waiting[mine] = asked
        self.unanswered += 1
        if self._free:
            self._free -= 1
            worker = asyncio.create_task(self._work_off(), name="joint-work")
            self._at_work.add(worker)
            worker.add_done_callback(self._at_work.discard)
        try:
            return await mine
        finally:
            self.unanswered -= 1
            self._waiting.pop(mine, None)

    async def _work_off(self) -> None:
        """Until nobody waits."""
        try:
            while self._waiting:
                async with self._limiter:  # Nothing is taken before there is a thread for it.
                    taken = dict(islice(self._waiting.items(), self._most))
                    for one in taken:
                        del self._waiting[one]
                    await self._do(taken)
        finally:
            self._free += 1

    async def _do(self, taken: "dict[asyncio.Future[B], A]") -> None:
        if not taken:  # Whoever waited has left meanwhile.
            return
        try:
            found = await to_thread.run_sync(self._work, list(taken.values()), limiter=self._threads)
        except Exception as error:  # noqa: BLE001 - it is the answer to who asked first; the others are tried without.
            first, *others = taken
            self._waiting = {**{one: taken[one] for one in others if not one.done()}, **self._waiting}
            if not first.done():
                first.set_exception(error)
            return
        except BaseException:
            for one in taken:
                one.cancel()
            raise
        for one, result in zip(taken, found, strict=True):
            if one.done():  # Its caller has left.
                continue
            if isinstance(result, Exception):
                one.set_exception(result)
            else:
                one.set_result(result)
