"""All outputs that one HTTP request asked for: several prompts, several answers to each.

Guarantee: when it has ended, by itself or otherwise, the engine knows none of its requests any more; the answers to a
prompt beyond the first start when the first one's prompt is computed, and find it in the cache.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from agents.engine.core.engine import Engine
from agents.engine.request.timing import monotonic
from agents.engine.server.generation import Generation, Piece
from agents.engine.server.handover import Handover, Queue


class Exchange:
    """`start`, read `pieces`, then `end` once the last byte is out. generations: by prompt, then by answer."""

    def __init__(self, engine: Engine, handover: Handover, generations: Sequence[Generation], per_prompt: int) -> None:
        self.generations = generations
        self._engine, self._handover = engine, handover
        self._per_prompt = per_prompt
        self._queue: Queue = asyncio.Queue()
        self._of = {generation.request: generation for generation in generations}
        for generation in generations:
            handover.open(generation.request, self._queue)

    def start(self) -> None:
        """Hand everything to the engine."""
        now = monotonic()
        for generation in self.generations:
            generation.clock.submitted = now
        for first in range(0, len(self.generations), self._per_prompt):
            requests = [own.request for own in self.generations[first : first + self._per_prompt]]
            self._engine.submit(requests[0], self._handover.receive, siblings=requests[1:])

    def give_up(self) -> None:
        """The client went away: `pieces` ends and the engine forgets what is unfinished, now."""
        for generation in self.generations:
            generation.abandon()
        self._queue.put_nowait(None)

    async def pieces(self) -> AsyncIterator[list[Piece]]:
        """What came since the last time, at least one piece. Ends when all is told or the client went away."""
        left = sum(not generation.finished for generation in self.generations)
        while left:
            outputs = [await self._queue.get()]
            while not self._queue.empty():
                outputs.append(self._queue.get_nowait())
            pieces: list[Piece] = []
            for output in outputs:
                if output is None:
                    return
                generation = self._of[output.request]
                if not generation.finished:
                    pieces.append(generation.take(output))
                    left -= generation.finished
            if pieces:
                yield pieces

    def end(self) -> None:
        """Close the way back and tell the finished events; whatever is unfinished is abandoned."""
        for generation in self.generations:
            self._handover.close(generation.request)
            generation.end()

    def usage(self) -> dict[str, Any]:
        """Tokens so far; a prompt counts once, however many answers it has."""
        firsts = self.generations[:: self._per_prompt]
        prompt = sum(generation.prompt_tokens for generation in firsts)
        output = sum(generation.output_tokens for generation in self.generations)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": sum(generation.cached_tokens for generation in firsts)},
        }
