"""When a configuration revision came to a pool and when it left again (pure): from its share of the requests, window
by window.

A revision may come more than once: a canary that was rolled back and a later rollout of the same revision are two
arrivals. What serves less than `NEGLIGIBLE` of the requests has not arrived.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

NEGLIGIBLE = 0.05
"""So small a share of the requests does not move a pool's tail: not a p95's, and a canary's judge sees it sooner."""
HALF, WHOLE = 0.5, 0.99
STEADY_WINDOWS = 3
"""A share is read over so many windows: in one alone a small pool has too few requests."""
SILENT_WINDOWS, SILENT_REQUESTS = 3, 20
"""A revision has left once the pool served so many requests, in so many windows, and hardly any under it."""


class Served(NamedTuple):
    """One window in which the pool finished requests: how many under this revision, and how many in all."""

    start: datetime
    own: int
    total: int


@dataclass(frozen=True)
class Arrival:
    """One stay of a revision. Times are starts of windows; `began` is None where it was there from the first one on."""

    began: datetime | None
    half_at: datetime | None = None  # It served half of the pool's requests.
    whole_at: datetime | None = None  # It served all of them.
    ended: datetime | None = None  # It had left; None: it serves still.

    @property
    def milestones(self) -> list[datetime]:
        return [moment for moment in (self.began, self.half_at, self.whole_at) if moment is not None]


def arrivals(windows: Sequence[Served]) -> list[Arrival]:
    """The stays of one revision, the oldest first. `windows` are in the order of time."""
    return [_arrival(windows, *run) for run in _runs(windows)]


def share(windows: Sequence[Served]) -> float:
    """Of all requests of these windows, the part under this revision; 0 where there were none."""
    total = sum(window.total for window in windows)
    return sum(window.own for window in windows) / total if total else 0.0


def _runs(windows: Sequence[Served]) -> Iterator[tuple[int, int, bool]]:
    """First and last window of each stay, by place, and whether the revision had left after it."""
    first: int | None = None
    last = 0
    for place, window in enumerate(windows):
        if share([window]) >= NEGLIGIBLE:
            first, last = place if first is None else first, place
        elif first is not None and _silent(windows[last + 1 : place + 1]):
            yield first, last, True
            first = None
    if first is not None:
        yield first, last, False


def _silent(since: Sequence[Served]) -> bool:
    enough = len(since) >= SILENT_WINDOWS and sum(window.total for window in since) >= SILENT_REQUESTS
    return enough and share(since) < NEGLIGIBLE


def _arrival(windows: Sequence[Served], first: int, last: int, left: bool) -> Arrival:
    return Arrival(
        began=windows[first].start if first > 0 else None,
        half_at=_reached(windows, first, last, HALF),
        whole_at=_reached(windows, first, last, WHOLE),
        ended=windows[last + 1].start if left else None,
    )


def _reached(windows: Sequence[Served], first: int, last: int, wanted: float) -> datetime | None:
    """The first window from which on the share is at least `wanted`; None where that is the very first known."""
    for place in range(first, last + 1):
        if share([windows[place]]) >= wanted and share(windows[place : place + STEADY_WINDOWS]) >= wanted:
            return windows[place].start if place > 0 else None
    return None
