"""From the engine's thread to the event loop: one wake-up per step, whatever the batch."""

import asyncio
from collections.abc import Sequence

from agents.engine.core.step import TokenOutput
from agents.engine.scheduling.request import Request

Queue = asyncio.Queue[TokenOutput | None]
"""Outputs of a request's requests; None: the client went away."""


class Handover:
    """Carries outputs to the queue of the request that each belongs to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queues: dict[Request, Queue] = {}

    def __len__(self) -> int:
        """Requests whose outputs somebody still waits for."""
        return len(self._queues)

    def open(self, request: Request, queue: Queue) -> None:
        self._queues[request] = queue

    def close(self, request: Request) -> None:
        self._queues.pop(request, None)

    def receive(self, outputs: Sequence[TokenOutput]) -> None:
        """The engine's receiver; called in its thread."""
        try:
            self._loop.call_soon_threadsafe(self._dispatch, outputs)
        except RuntimeError:
            return  # The loop is closed: nobody is left to tell.

    def _dispatch(self, outputs: Sequence[TokenOutput]) -> None:
        for output in outputs:
            if (queue := self._queues.get(output.request)) is not None:
                queue.put_nowait(output)
