"""How answers look on the wire: text completions and chat completions, whole and in chunks."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.engine.request.token_logprob import TokenLogprob
from agents.engine.scheduling.request import FinishReason
from agents.engine.server.logprob_shapes import Entry, chat_logprobs, completion_logprobs
from agents.engine.text.token_text import TokenText

_SHOWN_REASON = {FinishReason.TIMEOUT: FinishReason.LENGTH}
"""Clients know stop and length; a text cut by its deadline was cut by a limit, and `stop_reason` says by which."""


@dataclass(frozen=True)
class Form:
    """What all answers to one request share. tops: likeliest tokens told beside each; None: no log probabilities."""

    id: str
    model: str
    token_text: TokenText
    tops: int | None
    include_usage: bool
    continuous_usage: bool
    created: int = field(default_factory=lambda: int(time.time()))

    whole_object = chunk_object = "text_completion"

    def whole(self, choices: Sequence[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
        return {**self._head(self.whole_object), "choices": list(choices), "usage": usage}

    def chunk(self, choice: dict[str, Any], usage: dict[str, Any] | None) -> dict[str, Any]:
        """usage: so far, for a request that wants it with every chunk."""
        told = {"usage": usage} if self.include_usage or self.continuous_usage else {}
        return {**self._head(self.chunk_object), "choices": [choice], **told}

    def usage_chunk(self, usage: dict[str, Any]) -> dict[str, Any]:
        return {**self._head(self.chunk_object), "choices": [], "usage": usage}

    def choice(
        self,
        index: int,
        text: str,
        reason: FinishReason | None,
        entries: Sequence[Entry],
        offset: int,
        *,
        first: bool | None = None,
    ) -> dict[str, Any]:
        """first: whether it is its choice's first chunk; None: it is no chunk. offset: of the text in the whole."""
        return {
            "index": index,
            **self._content(text, first),
            "logprobs": None if self.tops is None else self._logprobs(entries, self.tops, offset),
            "finish_reason": reason and _SHOWN_REASON.get(reason, reason).value,
            **({"stop_reason": reason.value} if reason in _SHOWN_REASON else {}),
        }

    def _content(self, text: str, first: bool | None) -> dict[str, Any]:
        return {"text": text}

    def _logprobs(self, entries: Sequence[Entry], tops: int, offset: int) -> dict[str, Any]:
        return completion_logprobs(entries, tops, self.token_text, offset)

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


class ChatForm(Form):
    """Messages, and deltas of them."""

    whole_object, chunk_object = "chat.completion", "chat.completion.chunk"

    def _content(self, text: str, first: bool | None) -> dict[str, Any]:
        if first is None:
            return {"message": {"role": "assistant", "content": text, "refusal": None}}
        return {"delta": {"role": "assistant", "content": text} if first else {"content": text}}

    def _logprobs(self, entries: Sequence[Entry], tops: int, offset: int) -> dict[str, Any]:
        return chat_logprobs([entry for entry in entries if isinstance(entry, TokenLogprob)], tops, self.token_text)
