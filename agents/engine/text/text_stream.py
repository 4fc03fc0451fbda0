"""The text of one output, piece by piece.

Guarantee: the pieces joined are the text of all its tokens; a character whose bytes come in several tokens is held back
until it is whole; text from a stop string on is never given out (or right after it, if it is wanted); what comes after
the token that completed a stop string is as if it had never been, so that several tokens at once give what one by one
would.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers.decoders import DecodeStream


@dataclass(frozen=True)
class TextRules:
    """stop: strings that end the text. min_tokens: so many tokens come before a stop string counts."""

    stop: Sequence[str] = ()
    include_stop: bool = False
    skip_special_tokens: bool = True
    min_tokens: int = 0


class TextStream:
    """Takes tokens, gives text. `taken`: tokens that count, the one that completed a stop string included."""

    def __init__(self, tokenizer: Any, rules: TextRules) -> None:
        self._tokenizer, self.rules = tokenizer, rules
        self._decoder = DecodeStream(skip_special_tokens=rules.skip_special_tokens)
        self._stop = [text for text in rules.stop if text]
        self._tokens: list[int] = []
        self._held = ""
        self._whole = ""  # All text decoded so far.
        self.stopped = False

    @property
    def taken(self) -> int:
        return len(self._tokens)

    def push(self, tokens: Sequence[int]) -> str:
        """The text that these tokens complete. Sets `stopped` at a stop string and leaves the tokens after it."""
        given = ""
        for token in tokens:
            if self.stopped:
                break
            self._tokens.append(token)
            given += self._release(self._decoder.step(self._tokenizer, token) or "")
        return given

    def pass_over(self) -> None:
        """Count a token that has no text: one that ends the output."""
        self._tokens.append(-1)

    def finish(self) -> str:
        """What is left at the end: held-back text, and broken characters as the tokenizer shows them."""
        if self.stopped:
            return ""
        shown = [token for token in self._tokens if token >= 0]
        whole = self._tokenizer.decode(shown, skip_special_tokens=self.rules.skip_special_tokens)
        rest = whole[len(self._whole) :] if whole.startswith(self._whole) else ""
        given = self._release(rest)
        if not self.stopped:
            given, self._held = given + self._held, ""
        return given

    def _release(self, fresh: str) -> str:
        self._whole += fresh
        if not self._stop or self.taken <= self.rules.min_tokens:
            return fresh
        text = self._held + fresh
        found = [(place, stop) for stop in self._stop if (place := text.find(stop)) >= 0]
        if found:
            place, stop = min(found)
            self.stopped, self._held = True, ""
            return text[: place + len(stop)] if self.rules.include_stop else text[:place]
        keep = max(_overlap(text, stop) for stop in self._stop)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` with which `stop` begins, short of all of it."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
