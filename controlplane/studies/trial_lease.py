"""Leases of trial nodes, and the trials that are taken under them (pure): who may take what, and whose report counts.

Guarantee: a trial is one lease's at a time and is measured once; what a worker sends under a lease that has ended is
refused, whoever has the trial by now (leases: Gray and Cheriton 1989; the token fences, as in Chubby's sequencers,
Burrows 2006). All times are of one clock, the service's.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from controlplane.contract.errors import Conflict
from controlplane.studies.machine import lease_deadline

MOST_TAKINGS = 4
"""A trial that so many workers were lost with is given up: it is likely what they were lost by."""


@dataclass(frozen=True)
class Hold:
    """A lease. `number`: the trial that was last taken under it."""

    token: int
    worker: str
    heard_at: datetime
    ended: bool = False
    number: int | None = None

    def holds(self, now: datetime) -> bool:
        return not self.ended and self.heard_at >= lease_deadline(now)


@dataclass(frozen=True)
class Task:
    """A trial. `hold`: the lease it was last taken under."""

    number: int
    hold: Hold
    takings: int = 1
    measured: bool = False


class Taking(StrEnum):
    """How a trial comes to a lease."""

    NEW = "new"  # There was none of this number.
    OVER = "over"  # Its worker was lost.
    SAME = "same"  # It was this lease's before: the question was asked twice.


class Refusal(StrEnum):
    """Why a report does not count."""

    LEASE_ENDED = "lease_ended"  # Its worker was silent for too long, or has released the node.
    STUDY_ENDED = "study_ended"  # Cancelled, finished or failed meanwhile.
    NOT_TAKEN = "not_taken"  # The lease is not the one that the trial was last taken under.


def taking(number: int, found: Task | None, hold: Hold, next_number: int, now: datetime) -> Taking:
    """How `hold` may take trial `number`, which is `found`. Raises `Conflict` (field `token` or `number`)."""
    if not hold.holds(now):
        raise Conflict(f"token: lease {hold.token} has ended", field="token")
    if found is None:
        if number != next_number:
            raise Conflict(f"number: the next trial is {next_number}, not {number}", field="number")
        return Taking.NEW
    if found.measured:
        raise Conflict(f"number: trial {number} is measured", field="number")
    if found.hold.token == hold.token:
        return Taking.SAME
    if found.hold.holds(now) and found.hold.number == number:
        raise Conflict(f"number: trial {number} is held by {found.hold.worker!r}", field="number")
    return Taking.OVER


def refusal(found: Task | None, hold: Hold, *, study_ended: bool, now: datetime) -> Refusal | None:
    """Why a report about `found` under `hold` does not count; None: it does."""
    if found is None or found.hold.token != hold.token:
        return Refusal.NOT_TAKEN if hold.holds(now) else Refusal.LEASE_ENDED
    if study_ended:
        return Refusal.STUDY_ENDED
    return None if hold.holds(now) else Refusal.LEASE_ENDED


def is_given_up(takings: int) -> bool:
    """Whether a trial whose worker was just lost, the last of so many, is not taken again."""
    return takings >= MOST_TAKINGS
