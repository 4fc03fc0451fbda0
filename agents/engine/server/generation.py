"""One output of a request: tokens in, text out, the clock kept, the events told.

Guarantee: exactly one finished event for each output, whose parts are those of its clock; nothing is told of tokens
that come after its end.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.engine.core.engine import Engine
from agents.engine.core.step import TokenOutput
from agents.engine.request.timing import RequestClock, monotonic
from agents.engine.request.token_logprob import TokenLogprob
from agents.engine.scheduling.request import FinishReason, Request
from agents.engine.text.text_stream import TextStream
from controlplane.contract.errors import TailwrightError

_COMPLETE = (FinishReason.STOP, FinishReason.LENGTH)


@dataclass(frozen=True)
class Piece:
    """Text that became complete, and what is to be told of the tokens that came."""

    generation: "Generation"
    text: str
    logprobs: Sequence[TokenLogprob]
    finish_reason: FinishReason | None
    failure: TailwrightError | None = None


class Generation:
    """A request's life on the event loop. prompt_number: which of the request's prompts it answers."""

    def __init__(
        self, engine: Engine, request: Request, text: TextStream, clock: RequestClock, prompt_number: int
    ) -> None:
        self.engine, self.request, self.clock = engine, request, clock
        self.prompt_number = prompt_number
        self._text = text
        self._reason: FinishReason | None = None
        self._first_told = self._ended = False
        # Hashed here, before the engine's thread shares the request, and off that thread.
        block_size = engine.steps.pool.block_size
        self._block_hashes = request.block_hashes(request.prompt_length // block_size, block_size)

    @property
    def prompt_tokens(self) -> int:
        return self.request.prompt_length

    @property
    def cached_tokens(self) -> int:
        return self.request.cached_tokens

    @property
    def output_tokens(self) -> int:
        return self._text.taken

    @property
    def finished(self) -> bool:
        """Whether nothing more is to come."""
        return self._reason is not None

    def abandon(self) -> None:
        """Nobody wants the rest: the engine forgets it before its next step."""
        if self._reason is None:
            self._reason = FinishReason.ABORT
            self.engine.end(self.request, FinishReason.ABORT)

    def take(self, output: TokenOutput) -> Piece:
        """What a step gave. Tokens after the end (a stop string was found meanwhile) are as if they never came."""
        assert self._reason is None
        text, reason = self._text, output.finish_reason
        taken = text.taken
        if output.tokens:
            self.clock.scheduled = self.request.scheduled_at
            if self.clock.first_token is None:
                self.clock.first_token = output.committed_at
            self.clock.last_token = output.committed_at
        if reason is FinishReason.STOP and not text.rules.include_stop:  # The last token says stop, and no more.
            given = text.push(output.tokens[:-1])
            if not text.stopped:
                text.pass_over()
        else:
            given = text.push(output.tokens)
        if text.stopped and reason is None:
            self.engine.end(self.request, FinishReason.STOP)
        elif reason is not None:
            given += text.finish()
        self._reason = FinishReason.STOP if text.stopped else reason
        return Piece(self, given, output.logprobs[: text.taken - taken], self._reason, output.failure)

    def sent(self, whole: bool = False) -> None:
        """A chunk was written. The first makes the time to first token; a `whole` answer's is that of the commit."""
        if self.clock.first_sent is None and self.clock.first_token is not None:
            if not whole:
                self.clock.first_sent = monotonic()
            self._tell_first_token()

    def end(self) -> None:
        """The last byte was written, or nobody is left to read it. Tells the finished event, once."""
        self.abandon()
        if self._ended:
            return
        self._ended = True
        assert self._reason is not None
        clock = self.clock
        clock.ended = monotonic()
        clock.scheduled = self.request.scheduled_at
        self.engine.log.append(
            {
                "kind": "finished",
                "time": time.time(),
                "revision": self.engine.steps.revision,
                "request_id": self.request.request_id,
                "finish_reason": self._reason.value,
                "arrival": clock.arrived_unix,
                "prompt_tokens": self.prompt_tokens,
                "cached_tokens": self.cached_tokens,
                "output_tokens": self.output_tokens,
                "block_size": self.engine.steps.pool.block_size,
                "block_hashes": self._block_hashes,
                "ttft": clock.ttft,
                "tpot": clock.tpot(self.output_tokens),
                **clock.parts(self._reason in _COMPLETE),
                **self._tenant(),
            }
        )

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
        return {"tenant": self.request.tenant} if self.request.tenant else {}
