"""When output arrived, and whether the reader was there to see it.

Guarantee: the last arrival was seen at most `behind_s` and `READY_S` too late, so long as a read of bytes that lie
ready takes less than `READY_S`; on a machine so busy that it takes longer, still so where the consumer was further
behind than that read took, up to `WAITED_S`. A consumer that is always faster than the stream is not behind.
"""

from itertools import pairwise

READY_S = 0.0002
"""A read that took longer than this, and longer than its consumer is behind, has waited: what it gave is fresh."""

WAITED_S = 0.01
"""A read that took longer than this has waited, whatever the consumer did before."""


class Arrivals:
    """Times are those of one monotonic clock, seconds. `asked`: the consumer wanted more; `now`: it got it."""

    __slots__ = ("_given", "began", "behind_s", "first_event", "held_s", "pieces")

    def __init__(self, began: float) -> None:
        self.began = began
        self.first_event: float | None = None
        self.pieces: list[float] = []
        self.held_s = 0.0
        self.behind_s = 0.0
        self._given = began

    def ready(self, now: float) -> None:
        """From now on there may be something to read."""
        self._given = now

    def took(self, asked: float, now: float, pieces: int) -> None:
        """One read, with so many pieces in it."""
        given = self._given
        self.held_s += asked - given
        behind, took = self.behind_s + asked - given, now - asked
        self.behind_s = 0.0 if took > WAITED_S or (took > READY_S and took > behind) else behind + took
        self._given = now
        if pieces == 1:
            self.pieces.append(now)
        elif pieces:
            self.pieces.extend([now] * pieces)

    @property
    def first_piece_s(self) -> float | None:
        return self.pieces[0] - self.began if self.pieces else None

    def gaps(self) -> tuple[float, ...]:
        times = self.pieces
        return tuple([later - earlier for earlier, later in pairwise(times)])
