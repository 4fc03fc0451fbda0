"""The ASGI responses that carry a generation: in one piece, or as server-sent events.

Guarantee: the client's going away ends the generation, whichever form was asked for; the generation's clock ends when
the last byte was written.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agents.engine.scheduling.sequence import FinishReason
from agents.engine.server.generation import Generation, Piece
from controlplane.contract.errors import TrimtabError, Unavailable

_JSON = [(b"content-type", b"application/json")]
_EVENT_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


@dataclass(frozen=True)
class Form:
    """How an endpoint's answers look: completions or chat completions."""

    id: str
    model: str
    chat: bool
    include_usage: bool

    def whole(self, text: str, reason: FinishReason, usage: dict[str, Any]) -> dict[str, Any]:
        content = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        return {
            **self._head("chat.completion" if self.chat else "text_completion"),
            **_choice(content, reason),
            "usage": usage,
        }

    def chunk(self, piece: Piece, first: bool) -> dict[str, Any]:
        if self.chat:
            content: dict[str, Any] = {
                "delta": {"role": "assistant", "content": piece.text} if first else {"content": piece.text}
            }
        else:
            content = {"text": piece.text}
        usage = {"usage": None} if self.include_usage else {}
        return {**self._head(self._chunk_object), **_choice(content, piece.finish_reason), **usage}

    def usage_chunk(self, usage: dict[str, Any]) -> dict[str, Any]:
        return {**self._head(self._chunk_object), "choices": [], "usage": usage}

    @property
    def _chunk_object(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": int(time.time()), "model": self.model}


class GenerationAnswer(Response):
    """Base of both, for a started generation: watches for the client's going away and ends the generation."""

    def __init__(self, generation: Generation, form: Form) -> None:
        super().__init__()
        self.generation, self.form = generation, form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = asyncio.create_task(_disconnect(receive, self.generation.give_up))
        try:
            await self._write(send)
        finally:
            watch.cancel()
            self.generation.end()

    async def _write(self, send: Send) -> None:
        raise NotImplementedError


class WholeAnswer(GenerationAnswer):
    """One JSON document at the end."""

    async def _write(self, send: Send) -> None:
        texts: list[str] = []
        last: Piece | None = None
        async for last in self.generation.pieces():
            texts.append(last.text)
            self.generation.sent(whole=True)
        if last is None or last.finish_reason is None:
            return  # Nobody is left to answer.
        if failure := _failure(last):
            status, body = failure.status, failure.body()
        else:
            status, body = 200, self.form.whole("".join(texts), last.finish_reason, _usage(self.generation))
        content = orjson.dumps(body)
        headers = [*_JSON, (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


class StreamAnswer(GenerationAnswer):
    """Server-sent events: a chunk per step that completed text, then [DONE]."""

    async def _write(self, send: Send) -> None:
        generation, form = self.generation, self.form
        await send({"type": "http.response.start", "status": 200, "headers": _EVENT_STREAM})
        first = True
        async for piece in generation.pieces():
            if failure := _failure(piece):
                await _event(send, failure.body())
            elif piece.finish_reason is not None:
                await self._last(send, piece, first)
                return
            elif piece.text or first:
                await _event(send, form.chunk(piece, first))
                generation.sent()
                first = False
        await send({"type": "http.response.body", "body": b""})

    async def _last(self, send: Send, piece: Piece, first: bool) -> None:
        """The last chunk, the usage if asked for and [DONE], in one write."""
        events = [self.form.chunk(piece, first)]
        if self.form.include_usage:
            events.append(self.form.usage_chunk(_usage(self.generation)))
        body = b"".join(_sse(event) for event in events) + b"data: [DONE]\n\n"
        await send({"type": "http.response.body", "body": body, "more_body": True})
        self.generation.sent()
        await send({"type": "http.response.body", "body": b""})


async def _disconnect(receive: Receive, then: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    then()


def _sse(event: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(event) + b"\n\n"


async def _event(send: Send, event: dict[str, Any]) -> None:
    await send({"type": "http.response.body", "body": _sse(event), "more_body": True})


def _choice(content: dict[str, Any], reason: FinishReason | None) -> dict[str, Any]:
    return {"choices": [{"index": 0, **content, "logprobs": None, "finish_reason": reason and reason.value}]}


def _usage(generation: Generation) -> dict[str, Any]:
    prompt, output = generation.prompt_tokens, generation.output_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": generation.cached_tokens},
    }


def _failure(piece: Piece) -> TrimtabError | None:
    if piece.finish_reason is FinishReason.ERROR:
        return TrimtabError(piece.error or "the engine failed in a step")
    if piece.finish_reason is FinishReason.ABORT:
        return Unavailable("the engine was stopped before the answer was complete")
    return None
