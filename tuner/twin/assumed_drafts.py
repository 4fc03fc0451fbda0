"""Drafts as the twin assumes them: how often there is one, and how likely each place of it is kept.

The twin has no text, so nothing can be looked up or verified; what it needs of speculation is how many tokens a step
gives. Deterministic: the random number of a place is the engine's own for its request and place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.engine.request.params import uniform
from agents.engine.scheduling.drafter import Drafter
from agents.engine.scheduling.request import Request
from agents.engine.scheduling.step_plan import Work

_HALVINGS = 40
LEAST_REACHED = 30
"""Drafts that were kept up to a place; where fewer were, it goes as the one before."""


@dataclass(frozen=True)
class Drafts:
    """offered: share of decode steps in which there is something to draft. kept: chance that place i is kept when all
    before it were; places beyond the last go as the last. by_place: whether each was seen by itself."""

    offered: float = 0.0
    kept: tuple[float, ...] = ()
    by_place: bool = False

    @classmethod
    def seen(cls, drafted: float, accepted: float, deliveries: float, length: int) -> "Drafts":
        """From totals alone: all places alike, and offered as often as they were, for one that looks in the text finds
        nothing to repeat, mostly.

        deliveries: of tokens after first ones, each by one step; length: tokens of each draft, 0 if not known."""
        if not drafted:
            return cls()
        offered = min(1.0, drafted / (length * deliveries)) if length and deliveries else 1.0
        return cls(offered, (_chance(min(1.0, accepted / drafted), max(1, length)),))

    def at_places(self, drafted: Sequence[float], accepted: Sequence[float]) -> "Drafts":
        """The same, kept at each place as often as was seen there. drafted, accepted: tokens by place."""
        kept: list[float] = []
        before = 1.0  # Share of drafts of which all places before were kept, however long they were.
        for proposed, taken in zip(drafted, accepted, strict=True):
            if proposed * before < LEAST_REACHED:
                break
            share = min(before, taken / proposed)
            kept.append(share / before)
            before = share
        return replace(self, kept=tuple(kept), by_place=True) if kept else self


def _chance(share: float, length: int) -> float:
    """Of each place when those before it were kept, so that of a draft this share is: what comes after a place that is
    not kept is not kept either."""
    low, high = share, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        kept = sum(middle**place for place in range(1, length + 1)) / length
        low, high = (middle, high) if kept < share else (low, middle)
    return high


class AssumedDrafter(Drafter):
    """Reserves what is asked for, as often as there is a draft; `accepted` says how many of a work's are kept."""

    def __init__(self, drafts: Drafts) -> None:
        self._drafts = drafts

    @property
    def has_any(self) -> bool:
        """Whether there ever is a draft that may be kept."""
        return bool(self._drafts.kept and self._drafts.offered)

    def reserve(self, request: Request, limit: int) -> int:
        if not self.has_any:
            return 0
        offered = self._drafts.offered
        if offered < 1.0 and uniform(request.params.seed, 2 * request.num_outputs) >= offered:
            return 0
        return limit

    def propose(self, works: Sequence[Work], spare: int) -> int:
        return 0

    def commit(self, work: Work, accepted: int) -> None:
        """Nothing is kept."""

    def accepted(self, work: Work) -> int:
        """How many of the work's drafts are kept: the places before the first that is not."""
        if not work.draft_count:
            return 0
        kept = self._drafts.kept
        left, chance = uniform(work.request.params.seed, 2 * work.request.num_outputs + 1), 1.0
        for place in range(work.draft_count):
            chance *= kept[min(place, len(kept) - 1)]
            if left >= chance:
                return place
        return work.draft_count
