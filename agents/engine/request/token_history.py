"""Which tokens a request has seen and how often it put each out: what penalties look at.

Guarantee: every token is counted once, as it comes, so that a step costs nothing that grows with the output's length;
drafts are counted only while their own places are sampled.
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class TokenHistory:
    """Side by side: distinct tokens (`ids`), how often each was put out (`counts`, 0: it is of the prompt alone)."""

    __slots__ = ("_counted", "_place_of", "counts", "ids")

    def __init__(self) -> None:
        self.ids = array("q")
        self.counts = array("f")
        self._place_of: dict[int, int] = {}
        self._counted = 0

    def extend(self, tokens: Sequence[int], prompt_length: int) -> None:
        """Count those of a request's tokens that are new since the last call."""
        for place in range(self._counted, len(tokens)):
            self._add(tokens[place], 0.0 if place < prompt_length else 1.0)
        self._counted = len(tokens)

    @contextmanager
    def ahead(self, drafts: Sequence[int]) -> Iterator[None]:
        """Within: as if the drafts had been put out."""
        known = len(self.ids)
        for draft in drafts:
            self._add(draft, 1.0)
        try:
            yield
        finally:
            for draft in drafts:
                self.counts[self._place_of[draft]] -= 1.0
            for draft in self.ids[known:]:
                del self._place_of[draft]
            del self.ids[known:], self.counts[known:]

    def _add(self, token: int, count: float) -> None:
        place = self._place_of.get(token)
        if place is None:
            self._place_of[token] = len(self.ids)
            self.ids.append(token)
            self.counts.append(count)
        else:
            self.counts[place] += count
