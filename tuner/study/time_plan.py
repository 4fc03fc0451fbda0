"""How long a study's runs take, and what its time is divided into. Pure but for the clock.

Guarantee: time for the finish is kept back from the first trial on; what is kept back follows what runs really take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from controlplane.contract.bodies.studies import StudyCreate
from tuner.study.heats import HEATS

OVERHEAD_S = 2.5
"""Of a run: applying a configuration, warming up, draining. Only a first guess; the search goes by what it measures."""
SHORTEST_SPAN_S, LONGEST_SPAN_S = 4.0, 120.0
CAUTION = 0.85
"""Share of the time left that extra pairs may count on: runs are not all as fast as the usual one."""


@dataclass
class TimePlan:
    """`allowance_s`: set apart for changes of configuration that cost as much as several runs. `before_s`: spent by
    earlier workers.
    """

    spec: StudyCreate
    allowance_s: float = 0.0
    before_s: float = 0.0
    clock: Callable[[], float] = time.monotonic
    run_s: list[float] = field(default_factory=list)
    """Of one run each, the default's first; a dear change before it is charged apart."""

    def __post_init__(self) -> None:
        self._began = self.clock()

    @property
    def spent_s(self) -> float:
        return self.before_s + self.clock() - self._began

    @property
    def left_s(self) -> float:
        return self.spec.max_duration_s - self.spent_s

    @property
    def span_s(self) -> float:
        """How long a replay may last so that all trials and the finish, and all replays of each, fit into the study's
        time."""
        runs = self.spec.max_trials + self._heats + 2 * self.spec.finalist_repeats
        measuring_s = self.spec.max_duration_s - self.allowance_s
        return min(max(measuring_s / (runs * self.spec.replays) - OVERHEAD_S, SHORTEST_SPAN_S), LONGEST_SPAN_S)

    @property
    def usual_s(self) -> float:
        """A run of another configuration than the default, whose backlog may make its own run far longer."""
        ordered = sorted(self.run_s[1:])
        if ordered:
            return ordered[len(ordered) // 2]
        return min([self.spec.replays * (self.span_s + OVERHEAD_S), *self.run_s])

    @property
    def pair_s(self) -> float:
        """A run of the default, as slow as its first, and one of the winner."""
        slow = self.run_s[0] if self.run_s else self.usual_s
        return slow + self.usual_s

    def reserve_s(self, changes_s: float) -> float:
        """For the finish: heats, the pairs asked for, and the changes between them."""
        return self._heats * self.usual_s + self.spec.finalist_repeats * self.pair_s + changes_s

    def affordable_pairs(self, changes_s: float) -> int:
        """How many pairs the time left pays for, with some caution."""
        return int((CAUTION * self.left_s - changes_s) / self.pair_s)

    @property
    def _heats(self) -> int:
        return HEATS * self.spec.finalists if self.spec.finalists > 1 else 0
