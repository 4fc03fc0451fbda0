"""What the database says of a pool's past that its windows do not: alerts, and changes of configuration. Pure data.

A regression's baseline must hold what is normal: not an alert's span, not windows of a configuration that was taken
back, and, where a judged change was accepted, what was normal before it moved by what the judge measured.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.contract.histogram import BASE

Span = tuple[float, float]
"""From (included) and until (excluded), seconds since the epoch; the end may be infinite."""

ENDS_ALARM_BUCKETS = 5
"""11 %: two equal arms differ by less, so that an unrelated alarm is not ended by the noise of a measurement."""


@dataclass(frozen=True)
class Move:
    """An accepted change of configuration, or another version of the engine, as one metric felt it.

    shifts: quantile to how far latencies moved, in buckets of the histogram axis (above 0: slower). None: nobody
    measured it, so that nothing before `at_s` tells what is normal now. engine: its version; `rollout_id` is
    then below 0, the ledger's entry that told of it.
    """

    rollout_id: int
    at_s: float
    shifts: Mapping[float, int] | None = field(hash=False)
    engine: str = ""

    def shift(self, q: float) -> int | None:
        """By the nearest quantile that was measured."""
        if self.shifts is None:
            return None
        return self.shifts[min(self.shifts, key=lambda known: (abs(known - q), -known))]

    def factor(self, q: float) -> float | None:
        """The same as a factor on latencies."""
        shift = self.shift(q)
        return None if shift is None else round(BASE**shift, 3)

    @property
    def accepts_slower(self) -> bool:
        """Whether evidence of a slowdown that has gathered at the change is about what was accepted."""
        return self.shifts is None or any(shift > 0 for shift in self.shifts.values())

    @property
    def ends_alarm(self) -> bool:
        """Whether what was accepted is so much slower that an alarm which is open at the change speaks of it."""
        return self.shifts is None or any(shift >= ENDS_ALARM_BUCKETS for shift in self.shifts.values())


@dataclass(frozen=True)
class PoolRecord:
    """alerts: metric to the spans of its regression alerts; taken_back: spans served by what was not kept; moves:
    metric to its accepted changes, oldest first; on_trial: nodes whose configuration a rollout is judging now, or that
    run one of their own; changing: spans in which a pool goes over to another configuration wave by wave."""

    alerts: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    taken_back: Sequence[Span] = ()
    moves: Mapping[str, Sequence[Move]] = field(default_factory=dict)
    on_trial: frozenset[str] = frozenset()
    changing: Sequence[Span] = ()

    def closed(self, metric: str) -> tuple[Span, ...]:
        """Spans that teach nothing of a metric."""
        return (*self.alerts.get(metric, ()), *self.taken_back)

    def begun_s(self) -> float:
        """When the earliest alert that is still open began; infinite when none is."""
        return min(
            (begin for spans in self.alerts.values() for begin, end in spans if end == math.inf), default=math.inf
        )


NOTHING_KNOWN = PoolRecord()
