"""Looks at parts that several streams ask for at the same moment: each is drawn once (request coalescing).

Guarantee: a look is shared only among sessions of one scope with the same address, never one that says it is a
session's `own`, and never for longer than `KEPT_S` after it was drawn. Once a browser here has changed something,
nothing that was drawn before is shown to who asks afterwards.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cachetools import TTLCache

from controlplane.contract.bodies.access import Scope
from web.frame.look import Look

KEPT_S = 1.0
MOST_KEPT = 64


@dataclass(frozen=True)
class Sight:
    """What is looked at, and by whom as far as that matters. `address`: the query that says the selection; `changes`:
    how often something was changed before."""

    page: str
    part: str
    address: str
    scope: Scope
    changes: int


class SharedLooks:
    """The looks under way and those just done, for one event loop."""

    def __init__(self, timer: Callable[[], float] = time.monotonic) -> None:
        self._done: TTLCache[Sight, Look] = TTLCache(MOST_KEPT, KEPT_S, timer)
        self._under_way: dict[Sight, asyncio.Task[Look]] = {}

    async def look(self, sight: Sight, draw: Callable[[], Awaitable[Look]]) -> Look:
        """`draw` is called by the first who asks, and by each for whom the first one's look is not."""
        done = self._done.get(sight)
        if done is not None:
            return done
        task, first = self._under_way.get(sight), False
        if task is None:
            task, first = asyncio.create_task(self._drawn(sight, draw), name=f"part {sight.page}/{sight.part}"), True
            self._under_way[sight] = task
        look = await asyncio.shield(task)  # Who leaves must not take it from the others.
        return await draw() if look.own and not first else look

    async def _drawn(self, sight: Sight, draw: Callable[[], Awaitable[Look]]) -> Look:
        try:
            look = await draw()
            if not look.own:
                self._done[sight] = look
            return look
        finally:
            del self._under_way[sight]
