"""How many alerts of others there is room for: whatever their labels are, they never fill the database. Pure."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

MOST_OPEN, MOST_A_DAY, MOST_KEPT = 1_000, 5_000, 20_000
"""That fire at once; that are new within a day; and all, of which those that ended first make room for new ones."""
DAY = timedelta(days=1)


class Refusal(StrEnum):
    """Why a new alert is not taken."""

    OPEN = "too_many_open"  # So many fire already.
    NEW = "too_many_new"  # So many were new within a day.


@dataclass
class Room:
    """What is taken up: alerts that fire, and that were new within a day."""

    open: int
    new: int

    def refusal(self) -> Refusal | None:
        """Why there is no room for one more; None: there is."""
        if self.open >= MOST_OPEN:
            return Refusal.OPEN
        return Refusal.NEW if self.new >= MOST_A_DAY else None

    def take(self, *, firing: bool) -> None:
        """One more."""
        self.new += 1
        self.open += firing
