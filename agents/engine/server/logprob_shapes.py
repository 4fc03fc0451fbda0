"""Log probabilities on the wire: OpenAI's shape for completions, its other one for chat, and vLLM's for prompts."""

from collections.abc import Sequence
from typing import Any

from agents.engine.request.token_logprob import TokenLogprob
from agents.engine.text.token_text import TokenText

_LOWEST = -9999.0
"""Stands for minus infinity, which JSON cannot say; vLLM's choice."""

Entry = TokenLogprob | int
"""What is known of a token; the token alone where nothing is: a prompt's first."""


def completion_logprobs(entries: Sequence[Entry], tops: int, text: TokenText, offset: int) -> dict[str, Any]:
    """offset: of the first token's text within all the text. The likeliest, and the token itself beside them."""
    shape: dict[str, Any] = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
    for entry in entries:
        token = entry if isinstance(entry, int) else entry.token
        shown = text.text(token)
        shape["text_offset"].append(offset)
        shape["tokens"].append(shown)
        offset += len(shown)
        if isinstance(entry, int):
            shape["token_logprobs"].append(None)
            shape["top_logprobs"].append(None)
            continue
        shape["token_logprobs"].append(_finite(entry.logprob))
        top: dict[str, float] = {}
        for other, logprob in (*entry.top[:tops], (token, entry.logprob)):
            top.setdefault(text.text(other), _finite(logprob))  # Two tokens may look alike: the likelier stays.
        shape["top_logprobs"].append(top)
    return shape


def chat_logprobs(entries: Sequence[TokenLogprob], tops: int, text: TokenText) -> dict[str, Any]:
    content = []
    for entry in entries:
        likeliest = [_chat_token(token, logprob, text) for token, logprob in entry.top[:tops]]
        content.append({**_chat_token(entry.token, entry.logprob, text), "top_logprobs": likeliest})
    return {"content": content, "refusal": None}


def prompt_logprobs(known: Sequence[TokenLogprob | None], text: TokenText) -> list[dict[str, Any] | None]:
    """For each token of a prompt: the real one and the likeliest, by token id; nothing for the first."""
    return [None if entry is None else _prompt_token(entry, text) for entry in known]


def _prompt_token(entry: TokenLogprob, text: TokenText) -> dict[str, Any]:
    ranked = [(entry.token, entry.logprob, entry.rank)]
    ranked += [
        (token, logprob, rank) for rank, (token, logprob) in enumerate(entry.top, start=1) if token != entry.token
    ]
    return {
        str(token): {"logprob": _finite(logprob), "rank": rank, "decoded_token": text.text(token)}
        for token, logprob, rank in ranked
    }


def _chat_token(token: int, logprob: float, text: TokenText) -> dict[str, Any]:
    return {"token": text.text(token), "logprob": _finite(logprob), "bytes": text.bytes(token)}


def _finite(logprob: float) -> float:
    return max(logprob, _LOWEST)
