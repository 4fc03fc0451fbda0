"""Look-ups made together (request coalescing): a fleet that connects at once asks for thousands of tokens in a second,
and all pages that are open for their sessions at the same moment.

Guarantee: each key is looked up after it was asked for. Those that are asked for while a look is under way share the
next.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

Found = TypeVar("Found")


class JointLookup(Generic[Found]):
    """For one event loop. `look` answers for each of the keys it is given; it runs in a thread."""

    def __init__(self, look: Callable[[Sequence[str]], Mapping[str, Found]]) -> None:
        self._look = look
        self._wanted: dict[str, asyncio.Future[Found]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def find(self, key: str) -> Found:
        """Raises what the look has raised."""
        future = self._wanted.get(key)
        if future is None:
            future = self._wanted[key] = asyncio.get_running_loop().create_future()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._answer(), name="joint-lookup")
        return await asyncio.shield(future)  # Who hangs up must not take the answer from the others.

    async def _answer(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            try:
                found = await asyncio.to_thread(self._look, list(wanted))
            except Exception as error:  # noqa: BLE001 - it is the answer of all who wait.
                for future in wanted.values():
                    future.set_exception(error)
                    future.exception()  # Nobody may be waiting any more.
            else:
                for key, future in wanted.items():
                    future.set_result(found[key])
