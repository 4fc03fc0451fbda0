"""Why single points or spans of a report were not kept.

Guarantee: a refusal concerns one point only; each carries a reason out of `Reason` (for counters) and a message that
names the metric and the field (for the sender).
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

SHOWN = 5
DISTINCT = 50


class Reason(StrEnum):
    MALFORMED = "malformed"  # A single JSON point that is not what the schema says.
    METRIC = "metric"  # A name that is not kept here, or a kind or unit that is not the metric's.
    TEMPORALITY = "temporality"  # Cumulative where a delta is needed.
    TIMESTAMP = "timestamp"  # Missing, reversed, too old or too far in the future.
    VALUE = "value"  # NaN, infinite or negative.
    COUNTS = "counts"  # Buckets that contradict the point's own totals.
    LABEL = "label"  # An attribute too long or not a plain value.
    NODE = "node"  # A resource that the sender's token is not bound to.
    POOL = "pool"  # A resource of another pool than the sender's node was enrolled in.
    SERIES = "series"  # More distinct series than the store keeps.
    OTHER = "other"  # Another part of history has the same place in its stream.
    SPAN = "span"  # A span that is not a request's, or lacks what a request has.


@dataclass(frozen=True)
class Problem:
    """Why something cannot be kept, in the form in which it may be remembered: an exception that was raised holds what
    every function on its way held, and more each time that it is raised again."""

    reason: Reason
    message: str


class Refused(Exception):
    """Raised while one point is read; the caller counts it and goes on with the next. Never kept: see `problem`."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    @property
    def problem(self) -> Problem:
        """What may be remembered of it."""
        return Problem(self.reason, self.message)


class Refusals:
    """Counts refused points by reason, and keeps the distinct messages.

    Most reports have none, and there are thousands a second: nothing is made before it is asked for.
    """

    @cached_property
    def by_reason(self) -> Counter[Reason]:
        return Counter()

    @cached_property
    def messages(self) -> Counter[str]:
        return Counter()

    @cached_property
    def warnings(self) -> Counter[str]:
        return Counter()

    @property
    def count(self) -> int:
        return self.by_reason.total() if vars(self) else 0

    @property
    def any(self) -> bool:
        """Whether there is anything to say."""
        return bool(vars(self)) and bool(self.by_reason or self.warnings)

    def merge(self, other: "Refusals") -> None:
        """Take in another's."""
        self.by_reason.update(other.by_reason)
        for mine, theirs in ((self.messages, other.messages), (self.warnings, other.warnings)):
            for message, count in theirs.items():
                if message in mine or len(mine) < DISTINCT:
                    mine[message] += count

    def add(self, reason: Reason, message: str, count: int = 1) -> None:
        self.by_reason[reason] += count
        if message in self.messages or len(self.messages) < DISTINCT:
            self.messages[message] += count

    def warn(self, message: str) -> None:
        """A remark on a point that was kept (OTLP allows them beside zero rejected points)."""
        if message in self.warnings or len(self.warnings) < DISTINCT:
            self.warnings[message] += 1

    def text(self) -> str:
        """One line: refusals first, the most frequent first."""
        lines = [*self.messages.most_common(), *self.warnings.most_common()]
        shown = [f"{message} ({count} points)" if count > 1 else message for message, count in lines[:SHOWN]]
        if len(lines) > SHOWN:
            shown.append(f"and {len(lines) - SHOWN} more kinds of problem")
        return "; ".join(shown)


@dataclass(frozen=True)
class Outcome:
    """What became of one request: kept for the first time, recognised as repeats, and refused."""

    accepted: int
    repeated: int
    refusals: Refusals
