"""Work done together (group commit): what comes while a worker is busy is taken by the next in one go, so that the more
there is, the less each costs.

Guarantees: each is done once; what comes alone is done at once, by itself. One whose caller is gone before a worker has
taken it is not done.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Generic, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

A = TypeVar("A")
B = TypeVar("B")

MOST = 64


class _Waiting(Generic[A, B]):
    """One that was asked for. found: empty until it is done; told: once that, or that nobody does it, is known."""

    def __init__(self, asked: A) -> None:
        self.asked = asked
        self.found: list[B | Exception] = []
        self.told = asyncio.Event()


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
        self._workers = anyio.Semaphore(workers)  # First come, first served.
        self._waiting: dict[_Waiting[A, B], None] = {}  # In order.

    @property
    def waiting(self) -> int:
        """How many no worker has taken yet."""
        return len(self._waiting)

    async def do(self, asked: A) -> B:
        """What came of it. Raises what it raised."""
        mine: _Waiting[A, B] = _Waiting(asked)
        self._waiting[mine] = None
        try:
            while not mine.found:
                async with self._workers:
                    if mine in self._waiting:
                        await self._do_with_others(mine)
                await mine.told.wait()
        finally:
            self._waiting.pop(mine, None)
        found = mine.found[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def _do_with_others(self, mine: _Waiting[A, B]) -> None:
        del self._waiting[mine]
        taken = [mine, *islice(self._waiting, self._most - 1)]
        for one in taken[1:]:
            del self._waiting[one]
            one.told.clear()
        try:
            found = await to_thread.run_sync(self._work, [one.asked for one in taken], limiter=self._limiter)
        except BaseException:  # It was not begun, or is no work of one of them alone.
            self._waiting = {**dict.fromkeys(taken[1:]), **self._waiting}
            for one in taken[1:]:
                one.told.set()
            raise
        for one, result in zip(taken, found, strict=True):
            one.found.append(result)
            one.told.set()
