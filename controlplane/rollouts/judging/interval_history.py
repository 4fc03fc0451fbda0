"""How the interval of a ratio closed while it was judged (pure): a series of its moments, bounded and thinned.

Guarantee: of whatever was looked at, in order, at most `MOST` moments are kept, in order; the first and the newest are
always among them. No gap is wider than what was not looked at, or than two parts in `MOST - 1` of the whole span: what
goes is the moment whose neighbours are closest to each other, and of all pairs of neighbours the closest are at most
that far apart.
"""

from collections.abc import Sequence

from pydantic import BaseModel

MOST = 48
"""Moments kept: a drawing of a card's width shows no more, and evidence is written anew at every look."""


class Moment(BaseModel, frozen=True):
    """What was known `after_s` seconds of judging. low, high: the interval's ends; None beyond what can be told."""

    after_s: float
    ratio: float | None
    low: float | None
    high: float | None


def with_newest(history: Sequence[Moment], newest: Moment, most: int = MOST) -> list[Moment]:
    """The history with one more moment. A look that came no later than the last one replaces it. most: at least 3."""
    kept = [*history[:-1], newest] if history and newest.after_s <= history[-1].after_s else [*history, newest]
    if len(kept) <= most:
        return kept
    spare = min(range(1, len(kept) - 1), key=lambda place: kept[place + 1].after_s - kept[place - 1].after_s)
    return kept[:spare] + kept[spare + 1 :]
