"""The ASGI responses that carry an exchange: in one piece, or as server-sent events.

Guarantee: the client's going away ends the exchange, whichever form was asked for; each generation's clock ends when
its last byte was written; a failure before the first byte is told by the status, a later one by an event.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agents.engine.request.token_logprob import TokenLogprob
from agents.engine.server.counted_refusals import Refusals
from agents.engine.server.error_shape import openai_body
from agents.engine.server.exchange import Exchange
from agents.engine.server.forms import Form
from agents.engine.server.generation import Piece
from agents.engine.server.logprob_shapes import Entry, prompt_logprobs
from controlplane.contract.errors import TailwrightError

_JSON = [(b"content-type", b"application/json")]
_EVENT_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
_DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Wishes:
    """What the answer is to hold besides the output. prompts: the text of each, to be echoed."""

    echo: bool = False
    output: bool = True
    """Whether the output is told at all: not where only the prompt's log probabilities are wanted."""
    prompt_logprobs: bool = False
    prompts: tuple[str, ...] = ()


@dataclass
class _Told:
    """What a choice has been told so far, by characters; and what waits to be told."""

    characters: int = 0
    started: bool = False
    echoed: bool = False
    text: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)


class ExchangeAnswer(Response):
    """Base of both, for a started exchange: watches for the client's going away."""

    def __init__(self, exchange: Exchange, form: Form, wishes: Wishes, refusals: Refusals) -> None:
        super().__init__()
        self.exchange, self.form, self.wishes = exchange, form, wishes
        self._refusals = refusals
        self._index = {generation: index for index, generation in enumerate(exchange.generations)}
        self._told = [_Told() for _ in exchange.generations]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = asyncio.create_task(_disconnect(receive, self.exchange.give_up))
        try:
            await self._write(send)
        finally:
            watch.cancel()
            self.exchange.end()

    async def _write(self, send: Send) -> None:
        raise NotImplementedError

    def _take(self, piece: Piece) -> tuple[int, _Told]:
        """Note a piece; the prompt comes before the first one where it is to be echoed."""
        index = self._index[piece.generation]
        told = self._told[index]
        if self.wishes.echo and not told.echoed:
            told.echoed = True
            told.text.append(self.wishes.prompts[piece.generation.prompt_number])
            if self.form.tops is not None:
                request = piece.generation.request
                known: list[TokenLogprob | None] = request.prompt_logprobs or [None] * request.prompt_length
                told.entries += [
                    token if entry is None else entry for token, entry in zip(request.tokens, known, strict=False)
                ]
        if self.wishes.output:
            told.text.append(piece.text)
            told.entries += piece.logprobs
        return index, told

    async def _fail(self, send: Send, failure: TailwrightError) -> None:
        """Nothing was sent yet: the status tells."""
        self._refusals.note(failure)
        retry_after_s = failure.detail.get("retry_after_s")
        retry = [] if retry_after_s is None else [(b"retry-after", str(math.ceil(retry_after_s)).encode())]
        await _send_whole(send, failure.status, openai_body(failure), retry)

    def _usage(self) -> dict[str, Any]:
        usage = self.exchange.usage()
        if not self.wishes.output:
            usage |= {"completion_tokens": 0, "total_tokens": usage["prompt_tokens"]}
        return usage


class WholeAnswer(ExchangeAnswer):
    """One JSON document at the end."""

    async def _write(self, send: Send) -> None:
        choices: list[dict[str, Any] | None] = [None] * len(self._told)
        async for pieces in self.exchange.pieces():
            for piece in pieces:
                if piece.failure is not None:
                    await self._fail(send, piece.failure)
                    return
                index, told = self._take(piece)
                piece.generation.sent(whole=True)
                if piece.finish_reason is not None:
                    choices[index] = self._choice(index, piece, told)
        done = [choice for choice in choices if choice is not None]
        if len(done) == len(choices):  # Else the client went away.
            await _send_whole(send, 200, self.form.whole(done, self._usage()), [])

    def _choice(self, index: int, piece: Piece, told: _Told) -> dict[str, Any]:
        choice = self.form.choice(index, "".join(told.text), piece.finish_reason, told.entries, 0)
        if self.wishes.prompt_logprobs:
            known = piece.generation.request.prompt_logprobs or [None]
            choice["prompt_logprobs"] = prompt_logprobs(known, self.form.token_text)
        return choice


class StreamAnswer(ExchangeAnswer):
    """Server-sent events: a chunk per step and choice that completed text, then [DONE]."""

    async def _write(self, send: Send) -> None:
        started = False
        async for pieces in self.exchange.pieces():
            failure = next((piece.failure for piece in pieces if piece.failure is not None), None)
            if failure is not None and not started:
                await self._fail(send, failure)
                return
            if not started:
                await send({"type": "http.response.start", "status": 200, "headers": _EVENT_STREAM})
                started = True
            if failure is not None:
                self._refusals.note(failure)
                await _events(send, _sse(openai_body(failure)) + _DONE, more=False)
                return
            events = [chunk for piece in pieces if (chunk := self._chunk(piece)) is not None]
            done = all(generation.finished for generation in self.exchange.generations)
            if done:
                if self.form.include_usage:
                    events.append(self.form.usage_chunk(self._usage()))
                await _events(send, b"".join(map(_sse, events)) + _DONE)
            elif events:
                await _events(send, b"".join(map(_sse, events)))
            if events:
                self._written(pieces, done)
        if started:
            await _events(send, b"", more=False)

    def _chunk(self, piece: Piece) -> dict[str, Any] | None:
        """The event for a piece; None while there is nothing to tell."""
        index, told = self._take(piece)
        text = "".join(told.text)
        if not text and not told.entries and told.started and piece.finish_reason is None:
            return None
        choice = self.form.choice(
            index, text, piece.finish_reason, told.entries, told.characters, first=not told.started
        )
        told.started = True
        told.characters += len(text)
        told.text, told.entries = [], []
        return self.form.chunk(choice, self._usage() if self.form.continuous_usage else None)

    def _written(self, pieces: list[Piece], done: bool) -> None:
        for piece in pieces:
            piece.generation.sent()
            if piece.finish_reason is not None and not done:
                piece.generation.end()


async def _disconnect(receive: Receive, then: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    then()


def _sse(event: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(event) + b"\n\n"


async def _events(send: Send, events: bytes, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": events, "more_body": more})


async def _send_whole(send: Send, status: int, body: dict[str, Any], headers: list[tuple[bytes, bytes]]) -> None:
    content = orjson.dumps(body)
    headers = [*_JSON, (b"content-length", str(len(content)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
