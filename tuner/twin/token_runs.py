"""Tokens as runs of equal ones: prompts whose text is not known, so that a block of them is a number or two.

Guarantee: two stretches of equal length have equal keys exactly where their tokens are equal; runs that meet with the
same token are one.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby, repeat
from operator import eq
from typing import overload

Key = int | tuple[int, ...]


class TokenRuns(Sequence[int]):
    """A sequence of token ids that grows at its end."""

    __slots__ = ("_each", "_ends", "_even", "_values")

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        """Of any others, a copy."""
        self._values: list[int] = []
        self._ends: list[int] = []
        self._even, self._each = 0, 0  # The first so many runs, at least, have so many tokens each.
        if isinstance(tokens, TokenRuns):
            self._values += tokens._values
            self._ends += tokens._ends
            self._even, self._each = tokens._even, tokens._each
            return
        for token, run in groupby(tokens):
            self.extend(token, sum(1 for _ in run))

    @classmethod
    def even(cls, tokens: Sequence[int], each: int) -> "TokenRuns":
        """Each of the tokens so many times."""
        found = cls()
        if any(map(eq, tokens, tokens[1:])):
            for token in tokens:
                found.extend(token, each)
        else:
            found._values, found._ends = list(tokens), list(range(each, each * len(tokens) + 1, each))
            found._even, found._each = len(tokens), each
        return found

    def extend(self, token: int, count: int) -> None:
        """Add it so many times."""
        if count <= 0:
            return
        length = len(self) + count
        if self._values and self._values[-1] == token:
            self._ends[-1] = length
            self._even = min(self._even, len(self._ends) - 1)
        else:
            self._values.append(token)
            self._ends.append(length)

    def keys(self, count: int, size: int) -> list[Key]:
        """Of the first `count` blocks of `size` tokens."""
        found: list[Key] = []
        if size == self._each:
            found += self._values[: min(count, self._even)]
        return found + [self.key(start, start + size) for start in range(len(found) * size, count * size, size)]

    def key(self, start: int, end: int) -> Key:
        """Of the tokens from `start` up to `end`: their only one; or each run's token, and its length."""
        values, ends = self._values, self._ends
        place = bisect_right(ends, start)
        if ends[place] >= end:
            return values[place]
        found: list[int] = []
        while start < end:
            stop = min(ends[place], end)
            found += (values[place], stop - start)
            start, place = stop, place + 1
        return tuple(found)

    def runs(self) -> list[tuple[int, int]]:
        """Each run's token and length."""
        return [
            (token, end - start) for token, start, end in zip(self._values, [0, *self._ends], self._ends, strict=False)
        ]

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[int]:
        start = 0
        for token, end in zip(self._values, self._ends, strict=True):
            yield from repeat(token, end - start)
            start = end

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"token {place} of {len(self)}")
        return self._values[bisect_right(self._ends, place % len(self))]
