"""How often drafts are kept, by their place in the draft.

A draft counts at place i only when all before it were kept, so that the share at i is conditional, and the tokens that
a step of k drafts is expected to give are 1 + a1 + a1 a2 + ... + a1...ak (Leviathan et al. 2023, equation 1, for shares
that differ by place).
"""

from collections.abc import Sequence

_OPTIMISM = 0.8  # Share assumed before anything was seen: high, so that drafting is tried.


class Acceptance:
    """Counts by place that forget: each new draft weighs as much as all those older than 1 / (1 - memory) together."""

    __slots__ = ("_kept", "_memory", "_reached")

    def __init__(self, memory: float) -> None:
        assert 0 < memory < 1
        self._memory = memory
        self._reached: list[float] = []
        self._kept: list[float] = []

    def observe(self, drafted: int, accepted: int) -> None:
        """A draft of `drafted` tokens was verified and its first `accepted` were kept."""
        reached = min(drafted, accepted + 1)
        while len(self._reached) < reached:
            self._reached.append(0.0)
            self._kept.append(0.0)
        for place in range(reached):
            self._reached[place] = self._reached[place] * self._memory + 1.0
            self._kept[place] = self._kept[place] * self._memory + (place < accepted)

    def weaken(self, most: float) -> None:
        """Let what was seen weigh at most as much as `most` drafts, so that new ones soon count for more."""
        for place, weight in enumerate(self._reached):
            if weight > most:
                self._kept[place] *= most / weight
                self._reached[place] = most

    def share(self, place: int, prior: float = _OPTIMISM, strength: float = 1.0) -> float:
        """Expected share kept at a place (0 is the first): what was seen, and `strength` drafts more that went as the
        prior says (the mean of a Beta distribution)."""
        seen = place < len(self._reached)
        reached, kept = (self._reached[place], self._kept[place]) if seen else (0.0, 0.0)
        return (kept + strength * prior) / (reached + strength)


def expected_extra(shares: Sequence[float]) -> list[float]:
    """Tokens that drafts are expected to add, for each length from 0 to len(shares)."""
    extra, reach = [0.0], 1.0
    for share in shares:
        reach *= share
        extra.append(extra[-1] + reach)
    return extra
