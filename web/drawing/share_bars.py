"""Shares inside and outside of a selection against each other, each pair as two bars with an interval of difference.

Pure. All shares are 0 to 1 of one axis. Guarantee: the whisker lies where the inside's share would lie at either end of
the difference's interval, so that it is clear of the outside's bar exactly when the interval is clear of nothing.
"""

from dataclasses import dataclass

from web.drawing.units import share_words


@dataclass(frozen=True)
class Pair:
    """One value's shares, and the interval (`low` to `high`) of their difference."""

    name: str
    inside: float
    outside: float
    low: float
    high: float


@dataclass(frozen=True)
class SharePair:
    """As it is drawn. `clear`: the interval does not hold zero."""

    name: str
    inside: float
    outside: float
    whisker: tuple[float, float]
    clear: bool
    words: str


def share_pair(pair: Pair) -> SharePair:
    ends = (pair.outside + pair.low, pair.outside + pair.high)
    whisker = (min(max(ends[0], 0.0), 1.0), min(max(ends[1], 0.0), 1.0))
    return SharePair(
        name=pair.name,
        inside=pair.inside,
        outside=pair.outside,
        whisker=whisker,
        clear=not pair.low <= 0.0 <= pair.high,
        words=f"{share_words(pair.inside)} inside, {share_words(pair.outside)} outside: {points(pair)}",
    )


def points(pair: Pair) -> str:
    """The difference in points of percent, with its interval: "+60 (51 to 67)"."""
    more = 100 * (pair.inside - pair.outside)
    return f"{more:+.0f} points ({100 * pair.low:.0f} to {100 * pair.high:.0f})"
