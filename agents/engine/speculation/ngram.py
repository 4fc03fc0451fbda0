"""Prompt lookup: propose what followed the same few tokens earlier in the sequence (Saxena 2023, "Prompt lookup
decoding").

Guarantee: a token is indexed once and a lookup is constant time, so that drafting costs nothing that grows with length.
"""

from collections.abc import Sequence

SIZES = (4, 3, 2)
"""Lengths of the matched tail, longest first."""


class NgramIndex:
    """Where each n-gram of a growing token list was last followed by something."""

    def __init__(self) -> None:
        self._continuation: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def propose(self, tokens: Sequence[int], limit: int) -> list[int]:
        """Up to `limit` tokens that followed the tail's most recent earlier occurrence; empty when there is none."""
        self._extend(tokens)
        for size in SIZES:
            if len(tokens) > size and (start := self._continuation.get(tuple(tokens[-size:]))) is not None:
                return list(tokens[start : start + limit])
        return []

    def _extend(self, tokens: Sequence[int]) -> None:
        """Index every n-gram whose next token is known; `end` is that token's place."""
        for end in range(max(self._indexed, min(SIZES)), len(tokens)):
            for size in SIZES:
                if end >= size:
                    self._continuation[tuple(tokens[end - size : end])] = end
        self._indexed = max(self._indexed, len(tokens))
