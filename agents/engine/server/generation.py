"""One request between the engine's thread and the event loop: tokens in, text out, the clock kept, the events told.

Guarantee: exactly one finished event for each submitted request, whose parts are those of its clock; a request that is
given up (the client went away) is taken from the engine before its next step.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any

from agents.engine.engine import Engine
from agents.engine.observation.timing import RequestClock, monotonic
from agents.engine.scheduling.sequence import FinishReason, Sequence
from agents.engine.server.tokenizer import TextStream
from agents.engine.step import TokenOutput


class Handover:
    """Carries outputs from the engine's thread to the event loop: one wake-up per step, whatever the batch."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queues: dict[Sequence, asyncio.Queue[TokenOutput | None]] = {}

    def open(self, sequence: Sequence) -> "asyncio.Queue[TokenOutput | None]":
        queue: asyncio.Queue[TokenOutput | None] = asyncio.Queue()
        self._queues[sequence] = queue
        return queue

    def close(self, sequence: Sequence) -> None:
        self._queues.pop(sequence, None)

    def receive(self, outputs: Items[TokenOutput]) -> None:
        """The engine's receiver; called in its thread."""
        try:
            self._loop.call_soon_threadsafe(self._dispatch, outputs)
        except RuntimeError:
            return  # The loop is closed: nobody is left to tell.

    def _dispatch(self, outputs: Items[TokenOutput]) -> None:
        for output in outputs:
            if (queue := self._queues.get(output.sequence)) is not None:
                queue.put_nowait(output)


@dataclass(frozen=True)
class Piece:
    """Text that became complete, and the tokens it came with."""

    text: str
    tokens: Items[int]
    finish_reason: FinishReason | None
    error: str | None = None


class Generation:
    """A request's life on the event loop: `start`, read `pieces`, then `end` once the last byte is out."""

    def __init__(
        self, engine: Engine, handover: Handover, sequence: Sequence, text: TextStream, clock: RequestClock
    ) -> None:
        self.engine, self.sequence, self.clock = engine, sequence, clock
        self.output_tokens = 0
        self._handover, self._text = handover, text
        self._queue = handover.open(sequence)
        self._reason: FinishReason | None = None
        self._first_told = False
        # Hashed here, before the engine's thread shares the sequence, and off that thread.
        block_size = engine.steps.pool.block_size
        self._block_hashes = sequence.block_hashes(sequence.prompt_length // block_size, block_size)

    @property
    def prompt_tokens(self) -> int:
        return self.sequence.prompt_length

    @property
    def cached_tokens(self) -> int:
        return self.sequence.cached_tokens

    def start(self) -> None:
        """Hand the request to the engine."""
        self.clock.submitted = monotonic()
        self.engine.submit(self.sequence, self._handover.receive)

    def give_up(self) -> None:
        """The client went away: `pieces` ends and the engine forgets the request."""
        if self._reason is None:
            self._queue.put_nowait(None)

    async def pieces(self) -> AsyncIterator[Piece]:
        """Text as it comes. The last piece has a finish reason; a given-up request ends without one."""
        while self._reason is None:
            output = await self._queue.get()
            if output is None:
                self._reason = FinishReason.ABORT
                self.engine.end(self.sequence, FinishReason.ABORT)
                return
            yield self._take(output)

    def sent(self, whole: bool = False) -> None:
        """A chunk was written. The first makes the time to first token; a `whole` answer's is that of the commit."""
        if self.clock.first_sent is None and self.clock.first_token is not None:
            if not whole:
                self.clock.first_sent = monotonic()
            self._tell_first_token()

    def end(self) -> None:
        """The last byte was written, or nobody is left to read it. Tells the finished event."""
        self._handover.close(self.sequence)
        if self._reason is None:  # The answer broke off between two pieces.
            self._reason = FinishReason.ABORT
            self.engine.end(self.sequence, FinishReason.ABORT)
        clock = self.clock
        clock.ended = monotonic()
        clock.scheduled = self.sequence.scheduled_at
        finished = self._reason in (FinishReason.STOP, FinishReason.LENGTH)
        self.engine.log.append(
            {
                "kind": "finished",
                "time": time.time(),
                "revision": self.engine.steps.revision,
                "request_id": self.sequence.request_id,
                "finish_reason": self._reason.value,
                "arrival": clock.arrived_unix,
                "prompt_tokens": self.prompt_tokens,
                "cached_tokens": self.cached_tokens,
                "output_tokens": self.output_tokens,
                "block_size": self.engine.steps.pool.block_size,
                "block_hashes": self._block_hashes,
                "ttft": clock.ttft,
                "tpot": clock.tpot(self.output_tokens),
                **clock.parts(finished),
                **self._tenant(),
            }
        )

    def _take(self, output: TokenOutput) -> Piece:
        clock = self.clock
        if output.tokens:
            clock.scheduled = self.sequence.scheduled_at
            if clock.first_token is None:
                clock.first_token = output.committed_at
            clock.last_token = output.committed_at
            self.output_tokens += len(output.tokens)
        text = self._text.push(output.tokens)
        reason = output.finish_reason
        if self._text.stopped and reason is None:
            self.engine.end(self.sequence, FinishReason.STOP)
        elif reason is not None:
            text += self._text.finish()
        if self._text.stopped:
            reason = FinishReason.STOP
        self._reason = reason
        return Piece(text, output.tokens, reason, output.error)

    def _tell_first_token(self) -> None:
        if self._first_told:
            return
        self._first_told = True
        self.engine.log.append(
            {
                "kind": "first_token",
                "time": time.time(),
                "revision": self.engine.steps.revision,
                "prompt_tokens": self.prompt_tokens,
                "cached_tokens": self.cached_tokens,
                "ttft": self.clock.ttft,
                **self._tenant(),
            }
        )

    def _tenant(self) -> dict[str, Any]:
        return {"tenant": self.sequence.tenant} if self.sequence.tenant else {}
