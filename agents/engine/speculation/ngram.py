"""Prompt lookup: propose what followed the same few tokens earlier in the sequence (Saxena 2023, "Prompt lookup
decoding"; the two limits are vLLM's `prompt_lookup_min` and `prompt_lookup_max`).

Of the tail's last few occurrences the one that agrees with it furthest back is taken, the most recent among equals. A
draft that runs into the sequence's end goes on with what it has proposed, as a copy that overlaps itself does in LZ77,
so that a loop of few tokens is drafted at full length.

Guarantee: a token is indexed once, and a lookup looks at no more than 8 occurrences and `longest` tokens of each, so
that drafting costs nothing that grows with length.
"""

from collections.abc import Sequence

SHORTEST, LONGEST = 1, 16
"""Fewest tokens of the tail that must agree, and most that are compared."""
_OCCURRENCES = 8


class NgramIndex:
    """Where the last `shortest` tokens of a growing token list occurred before. A place is that of the next token."""

    def __init__(self, shortest: int = SHORTEST, longest: int = LONGEST) -> None:
        assert 0 < shortest <= longest
        self._shortest, self._longest = shortest, longest
        self._last: dict[tuple[int, ...], int] = {}  # The newest place after these tokens.
        self._before = [0] * shortest  # By place: the one before it after the same tokens; 0: none.

    def propose(self, tokens: Sequence[int], limit: int) -> list[int]:
        """`limit` tokens that may follow; empty when the tail has not occurred before."""
        self._extend(tokens)
        count, shortest = len(tokens), self._shortest
        place = self._last.get(tuple(tokens[count - shortest :]), 0) if count > shortest else 0
        best = best_size = 0
        for _ in range(_OCCURRENCES):
            if not place or best_size == self._longest:
                break
            size = shortest
            while size < self._longest and place > size and tokens[place - size - 1] == tokens[count - size - 1]:
                size += 1
            if size > best_size:
                best, best_size = place, size
            place = self._before[place]
        if not best:
            return []
        if (known := count - best) >= limit:
            return list(tokens[best : best + limit])
        return [tokens[best + offset % known] for offset in range(limit)]

    def _extend(self, tokens: Sequence[int]) -> None:
        """Index every place but the end's: what follows there is not known."""
        size, last, before = self._shortest, self._last, self._before
        for place in range(len(before), len(tokens)):
            gram = tuple(tokens[place - size : place])
            before.append(last.get(gram, 0))
            last[gram] = place
