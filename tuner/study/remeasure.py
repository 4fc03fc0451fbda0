"""The last word on a study: finalists measured again, on traffic that the search never saw. Pure.

Guarantee: BETTER only when the interval of the improvement over the default lies above zero AND the winner held every
limit in its fresh runs, all together and with a margin for noise, AND is in no further objective worse than the default
by more than the study's tolerance, with the same margin. First the finalists alone run heats (`heats.py`), which choose
one; then that one and the default run pairs, of which no heat is one, so that the choice does not flatter the figures.
Where it was faster for certain and a limit was in its way, the next one does. That adds no error: to go on, the first
must have been found faster, so that of those that are not, the first to race is the only one that can mislead, and it
does with the paired test's own probability (a fixed sequence, Maurer et al. 1995).

Runs of pairs go A B B A A B ..., so that a drift of the machine hits both alike, and both runs of a pair replay the
same requests. Where each change between the two costs more time than there is, they go in blocks, A A B B B A: a steady
drift still hits both alike, any other is not excluded, and the result says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.contract.bodies.studies import (
    AlsoFound,
    Evaluation,
    Objective,
    StudyVerdict,
)
from controlplane.contract.planning.measurement import CarriedLoad, Measurement
from tuner.search.objective import Assessment, constraint_value, mean_ratio
from tuner.study.paired_test import (
    FEWEST_PAIRS,
    MOST_PAIRS,
    Counts,
    Improvement,
    counts_sd,
    is_hopeless,
    log_ratios,
    look,
    look_once,
    upper_mean,
)

DEFAULT, WINNER = "default", "winner"
USUAL_PAIRS = 12
"""So many pairs at most, unless more were asked for: they find 15 % at 10 % noise nine times of ten (ten pairs do in
85 %)."""
SURE = 0.95
"""How certain it has to be that a limit holds, beyond the noise of the runs."""
ALSO_SURE = 0.975
"""Of each end of a further objective's interval."""

INTERLEAVED, BLOCKS = "interleaved", "blocks"
BLOCKS_CHANGES = 2
"""Changes between the arms of the blocks, once the outer arm runs."""


def changes_of(design: str, repeats: int) -> int:
    """How often the node goes from one arm to the other."""
    return repeats if design == INTERLEAVED else BLOCKS_CHANGES


def design_for(repeats: int, *, run_s: float, change_s: float, cheap_s: float, left_s: float) -> str:
    """Interleaved while a change is cheap, or while the time left pays for all of its changes; else blocks."""
    whole_s = 2 * repeats * run_s + (changes_of(INTERLEAVED, repeats) + 1) * change_s
    return INTERLEAVED if change_s <= cheap_s or whole_s <= left_s else BLOCKS


def blocks(repeats: int, outer: str) -> list[tuple[int, str]]:
    """(pair, arm) in the order of the runs: half of the arm `outer`, all of the other, the rest of `outer`."""
    inner = WINNER if outer == DEFAULT else DEFAULT
    first = (repeats + 1) // 2
    return [
        *((pair, outer) for pair in range(first)),
        *((pair, inner) for pair in range(repeats)),
        *((pair, outer) for pair in range(first, repeats)),
    ]


def order(repeats: int) -> list[tuple[int, str]]:
    """(pair, arm) in the order of the runs: each pair once in each arm, the first arm alternating."""
    runs: list[tuple[int, str]] = []
    for pair in range(repeats):
        arms = (DEFAULT, WINNER) if pair % 2 == 0 else (WINNER, DEFAULT)
        runs.extend((pair, arm) for arm in arms)
    return runs


def most_pairs(wanted: int, affordable: int) -> int:
    """The last look: what was asked for, and more while there is time. Fixed before the first pair."""
    return max(FEWEST_PAIRS, wanted, min(affordable, USUAL_PAIRS, MOST_PAIRS))


@dataclass
class Race:
    """The pairs of winner and default, as they come in. `last`: how many there are at most; `also`: further objectives,
    and the share `worse_by` by which the winner may be worse in one."""

    last: int
    design: str
    limits: Sequence[str]
    also: Sequence[Objective] = ()
    worse_by: float = 0.0
    objective: dict[str, list[float]] = field(default_factory=lambda: {DEFAULT: [], WINNER: []})
    excess: list[Mapping[str, float]] = field(default_factory=list)
    """The winner's violations, run by run."""
    counts: dict[str, Counts] = field(default_factory=dict)
    """By arm, where the objective counts good requests."""
    beside: dict[str, list[Mapping[str, float]]] = field(default_factory=lambda: {DEFAULT: [], WINNER: []})
    """By arm, run by run, the further objectives by name."""
    loads: dict[str, list[CarriedLoad]] = field(default_factory=lambda: {DEFAULT: [], WINNER: []})
    """By arm, run by run, where the objective is the largest load."""

    def add(self, arm: str, assessment: Assessment, measurement: Measurement | None = None) -> None:
        assert assessment.objective_s is not None
        self.objective[arm].append(assessment.objective_s)
        self.beside[arm].append(assessment.also)
        if measurement is not None and measurement.good is not None:
            good, of, runs = self.counts.get(arm, (0, 0, 0))
            self.counts[arm] = (good + measurement.good, of + measurement.requests, runs + 1)
        if measurement is not None and measurement.carried is not None:
            self.loads[arm].append(measurement.carried)
        if arm == WINNER:
            self.excess.append(assessment.violations)

    @property
    def pairs(self) -> int:
        """Whole ones."""
        return min(len(values) for values in self.objective.values())

    @property
    def found(self) -> Improvement:
        """After the whole pairs, at least one."""
        ratios = self._ratios()
        least_sd = counts_sd(self.counts[DEFAULT], self.counts[WINNER]) if self.counts else 0.0
        return look_once(ratios, least_sd) if self.design == BLOCKS else look(ratios, self.last, least_sd)

    @property
    def unsure(self) -> list[str]:
        """Limits that may not hold: the bound of the winner's typical run lies beyond them."""
        return [
            name
            for name in self.limits
            if upper_mean([constraint_value(one.get(name, 0.0)) for one in self.excess], SURE) > 0
        ]

    @property
    def broken(self) -> list[str]:
        """Limits that surely do not hold: the bound of the winner's typical run from below lies beyond them."""
        return [
            name
            for name in self.limits
            if upper_mean([-constraint_value(one.get(name, 0.0)) for one in self.excess], SURE) < 0
        ]

    @property
    def also_found(self) -> list[AlsoFound]:
        """The further objectives over the whole pairs; of which one was measured in none of them is left out."""
        return [found for one in self.also if (found := self._also_found(one)) is not None]

    @property
    def also_held(self) -> bool:
        """Whether each was measured, and is hardly worse than the default's."""
        return sum(one.held for one in self.also_found) == len(self.also)

    def _also_found(self, one: Objective) -> AlsoFound | None:
        pairs = [
            (before[one.name], after[one.name])
            for before, after in zip(self.beside[DEFAULT], self.beside[WINNER], strict=False)
            if before.get(one.name) and after.get(one.name)
        ]
        if not pairs:
            return None
        defaults, winners = zip(*pairs, strict=True)
        worse = [math.log(after / before) for before, after in pairs]
        high, end = upper_mean(worse, SURE), upper_mean(worse, ALSO_SURE)
        middle = math.fsum(worse) / len(worse)
        return AlsoFound(
            objective=one.objective,
            objective_q=one.objective_q,
            default_s=mean_ratio(defaults),
            winner_s=mean_ratio(winners),
            improvement=-math.expm1(middle),
            interval=None if end == math.inf else (-math.expm1(end), -math.expm1(2.0 * middle - end)),
            worse_at_most=None if high == math.inf else math.expm1(high),
            held=high <= math.log1p(self.worse_by),
        )

    @property
    def settled(self) -> bool:
        """Whether no further pair is wanted. Blocks are never cut short."""
        if self.pairs >= self.last:
            return True
        if self.design == BLOCKS or self.pairs < FEWEST_PAIRS or len(set(map(len, self.objective.values()))) > 1:
            return False
        found = self.found
        known = bool(self.broken) or (not self.unsure and self.also_held)
        return found.high < 0 or is_hopeless(self._ratios()) or (found.low > 0 and known)

    def _ratios(self) -> list[float]:
        return log_ratios(self.objective[DEFAULT][: self.pairs], self.objective[WINNER][: self.pairs])


def verdict(
    found: Improvement,
    violations: Mapping[str, float],
    unsure: Sequence[str] = (),
    evaluation: Evaluation | None = None,
    *,
    also_held: bool = True,
) -> StudyVerdict:
    """`violations`: of the winner, over all its fresh runs together. `unsure`: limits that may not hold. `evaluation`:
    the study's own, where it asked for one. `also_held`: whether no further objective may have become worse."""
    held = all(excess <= 0 for excess in violations.values()) and not unsure and also_held
    held = held and (evaluation is None or evaluation.held)
    return StudyVerdict.BETTER if held and found.low > 0 else StudyVerdict.NOT_BETTER
