"""Two counts beside each other, of which no ratio is told: each arm's share of what it was offered, on one scale.

Pure. It draws what was counted and judges nothing. Guarantee: the axis begins at nothing; the words have the counts.
"""

import math
from dataclasses import dataclass

from web.drawing.units import count_words, share_words

ROOM = 1.25
"""The axis reaches so many times beyond the largest share."""


@dataclass(frozen=True)
class Counted:
    """`count` of `whole`, in one arm."""

    count: float
    whole: float

    @property
    def share(self) -> float:
        return self.count / self.whole if self.whole else 0.0

    @property
    def words(self) -> str:
        """Such as "12 of 400 (3 %)"."""
        if not self.whole:
            return "nothing yet"
        return f"{count_words(self.count)} of {count_words(self.whole)} ({share_words(self.share)})"


@dataclass(frozen=True)
class CountedBars:
    """Widths as shares of the axis, which ends at `most`, a share of what was offered."""

    canary: float
    control: float
    most: float
    words: str


def counted_bars(canary: Counted, control: Counted, most: float) -> CountedBars:
    """`most`: where the axis ends, as of other bars beside it (`shared_end`)."""
    words = f"canary {canary.words}, control {control.words}"
    return CountedBars(min(canary.share / most, 1.0), min(control.share / most, 1.0), most, words)


def shared_end(arms: list[Counted]) -> float:
    """A round share below which all of them lie with room: 1, 2 or 5 of a power of ten; all of it at most."""
    highest = max((arm.share for arm in arms), default=0.0)
    if highest <= 0:
        return 0.01
    power = 10.0 ** math.floor(math.log10(highest))
    return min(next(step * power for step in (1, 2, 5, 10, 20) if step * power >= ROOM * highest), 1.0)
