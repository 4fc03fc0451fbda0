"""The finish of a study, carried out: heats among the finalists, then pairs of one of them and the default; and of the
next, where that one was faster but for a limit, while there is time for as many pairs.

Guarantee: all of it is on the slice that the search never saw; what decides, and when it is settled, is `remeasure`.
Gone on with by another worker it takes every run from before, and keeps the design and the last look that were fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from controlplane.contract.bodies.studies import Evaluation, RunOrder, StudyCreate, StudyVerdict, Trial
from tuner.replay.replay import key
from tuner.search.charge import cheap_s, dear_s
from tuner.search.objective import Assessment, violations
from tuner.search.search import Outcome, Search
from tuner.study.heats import HEATS, standing, still_running
from tuner.study.remeasure import (
    BLOCKS_CHANGES,
    DEFAULT,
    INTERLEAVED,
    WINNER,
    Race,
    blocks,
    changes_of,
    design_for,
    most_pairs,
    order,
    verdict,
)
from tuner.study.time_plan import CAUTION, TimePlan
from tuner.study.trial_run import Measured, together

MARGINAL = 0.25
"""A winner that exceeded a limit by more than this in the search is not worth a re-measurement."""
Run = Callable[[dict[str, Any], RunOrder], Measured]
"""Measure a configuration in its place of the finish, and report it; or what came of that before."""
Plan = tuple[int, str, list[tuple[int, str]], str]
"""Most pairs, design, runs in order, and what to say of their length."""
Known = Callable[[dict[str, Any], int], Measured | None]
"""What came of a configuration in this heat before."""


class Changes(Protocol):
    """What changes of configuration cost where the runs are."""

    def charge(self, knobs: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> float:
        """Expected seconds of going to `knobs`, from `before` or else from what runs now."""


def over_all(runs: Sequence[Measured], spec: StudyCreate) -> dict[str, float]:
    """The limits over all requests of these runs together."""
    return violations(together(runs, spec), spec)


def finalists_of(search: Search, most: int) -> list[Outcome]:
    """What the search has found beside the default: its finalists; without any, what it would take."""
    found, best = search.finalists(most), search.best()
    return found or ([best] if best is not None and best.knobs != search.default else [])


def near_limits(finalists: Sequence[Outcome]) -> list[Outcome]:
    """Those worth a re-measurement."""
    return [one for one in finalists if one.assessment.worst <= MARGINAL]


class NotMeasured(Exception):
    """The finish came to no figures; its text says why."""


@dataclass(frozen=True)
class Begun:
    """Pairs that another worker has begun: how many at most, their design, the arm that ran first, and those that met
    the default, in their order.
    """

    pairs: int
    design: str
    first: str
    winners: Sequence[dict[str, Any]]

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> Begun | None:
        """`trials`: all of a study, in their order."""
        paired = [trial for trial in trials if trial.order.pairs is not None]
        if not paired:
            return None
        order = paired[0].order
        assert order.pairs is not None
        winners: list[dict[str, Any]] = []
        for trial in paired:
            if trial.order.arm == WINNER and trial.knobs not in winners:
                winners.append(trial.knobs)
        return cls(order.pairs, order.design, order.arm, winners)


@dataclass(frozen=True)
class Finished:
    """What came of the pairs. `excess`: the winner's violations over all its pairs together."""

    winner: Outcome
    race: Race
    excess: dict[str, float]

    def verdict(self, evaluation: Evaluation | None = None) -> StudyVerdict:
        """`evaluation`: the study's own, where it asked for one."""
        race = self.race
        return verdict(race.found, self.excess, race.unsure, evaluation, also_held=race.also_held)

    @property
    def is_better(self) -> bool:
        """Whether nothing but an evaluation is in the way."""
        return self.verdict() is StudyVerdict.BETTER


class Finish:
    """One study's finish. `run` measures on the second slice; `over_all`: the limits over several runs."""

    def __init__(
        self,
        spec: StudyCreate,
        node: Changes,
        time_plan: TimePlan,
        run: Run,
        progress: Callable[[str], None],
        *,
        known: Known = lambda _, __: None,
        begun: Begun | None = None,
        over_all: Callable[[Sequence[Measured], StudyCreate], Mapping[str, float]] = over_all,
    ) -> None:
        self._spec, self._node, self._time, self._run, self._progress = spec, node, time_plan, run, progress
        self._known, self._begun, self._over_all = known, begun, over_all

    def decide(self, finalists: Sequence[Outcome], default: dict[str, Any]) -> Finished:
        """`finalists`: at least one, the likeliest first. Raises NotMeasured. Where none is better, what came of the
        first that met the default."""
        first, *others = self._ranked(self._near(finalists))
        found = latest = self._raced(first, default, 0, self._planned(first, default))
        for place, winner in enumerate(others, start=1):
            if not self._may_go_on(latest, winner, default):
                break
            pairs = found.race.last
            try:
                latest = self._raced(winner, default, place, (pairs, INTERLEAVED, order(pairs), ""))
            except NotMeasured as error:
                self._progress(str(error))
                break
            if latest.is_better:
                return latest
        return found

    def _raced(self, winner: Outcome, default: dict[str, Any], place: int, plan: Plan) -> Finished:
        """Pairs of this one. `place`: so many before it have had theirs."""
        pairs, design, runs_in_order, about = plan
        limits = [key(limit.metric, limit.q) for limit in self._spec.held]
        race = Race(pairs, design, limits, self._spec.also, self._spec.also_tolerance)
        winners: list[Measured] = []
        excess: dict[str, float] = {}
        who = "the next finalist" if place else "winner"
        for pair, arm in runs_in_order:
            self._progress(f"{who} against default, measured again{about}: pair {pair + 1} of at most {pairs}")
            number = place * pairs + pair
            turn = RunOrder(heat=HEATS + number, pair=number, pairs=pairs, design=design, arm=arm)
            measured = self._run(winner.knobs if arm == WINNER else default, turn)
            if measured.assessment.objective_s is None:
                raise NotMeasured(f"the re-measurement of the {arm} failed: {measured.error or 'nothing was measured'}")
            race.add(arm, measured.assessment, measured.measurement)
            if arm == WINNER:
                winners.append(measured)
                excess |= measured.assessment.violations
            if race.settled:
                break
        return Finished(winner, race, {**excess, **self._over_all(winners, self._spec)})

    def _may_go_on(self, before: Finished, winner: Outcome, default: dict[str, Any]) -> bool:
        """Whether the next one meets the default: the one before was faster, something else was in its way, and there
        is time for as many pairs."""
        race = before.race
        if before.is_better or race.found.low <= 0 or race.design != INTERLEAVED:
            return False
        begun = self._begun is not None and winner.knobs in self._begun.winners
        return begun or self._affordable(winner, default) >= race.last

    def _planned(self, winner: Outcome, default: dict[str, Any]) -> Plan:
        """As begun, or as there is time for."""
        if self._begun is not None:
            begun = self._begun
            runs = order(begun.pairs) if begun.design == INTERLEAVED else blocks(begun.pairs, begun.first)
            return begun.pairs, begun.design, runs, ", gone on with"
        pairs = most_pairs(self._spec.finalist_repeats, self._affordable(winner, default))
        return pairs, *self._design(winner, default, pairs)

    def _near(self, finalists: Sequence[Outcome]) -> list[Outcome]:
        """The first, and those that the node can go to from there without a dear change."""
        limit_s = cheap_s(self._time.usual_s)
        first = finalists[0]
        return [one for one in finalists if one is first or self._node.charge(one.knobs, first.knobs) <= limit_s]

    def _ranked(self, finalists: Sequence[Outcome]) -> list[Outcome]:
        """By their heats, the best first, after those that have met the default; without time for heats, or anybody to
        run against, as they come."""
        ran = [] if self._begun is None else list(self._begun.winners)
        told: list[list[Assessment]] = [[] for _ in finalists]
        running = list(range(len(finalists)))
        for heat in range(HEATS if len(finalists) > 1 else 0):
            for place in running:
                known = self._known(finalists[place].knobs, heat) is not None
                short = self._time.left_s < self._spec.finalist_repeats * self._time.pair_s + self._time.usual_s
                if not known and (short or ran):
                    running = []
                    break
                self._progress(f"heat {heat + 1} of {HEATS}: {len(running)} finalists on fresh traffic")
                told[place].append(self._run(finalists[place].knobs, RunOrder(heat=heat)).assessment)
            if not running:
                break
            several = [finalists[place] for place in running]
            running = [running[place] for place in still_running(several, [told[place] for place in running])]
        found = [finalists[place] for place in standing(finalists, told)] if all(told) else list(finalists)
        return sorted(found, key=lambda one: ran.index(one.knobs) if one.knobs in ran else len(ran))

    def _affordable(self, winner: Outcome, default: dict[str, Any]) -> int:
        change_s = dear_s(self._node.charge(winner.knobs, default), self._time.usual_s)
        return self._time.affordable_pairs(BLOCKS_CHANGES * change_s)

    def _design(self, winner: Outcome, default: dict[str, Any], pairs: int) -> tuple[str, list[tuple[int, str]], str]:
        """How the two are measured again: the design, its runs in order, and what to say of its length."""
        run_s, charge_s = self._time.usual_s, self._node.charge(winner.knobs, default)
        limit_s, left_s = cheap_s(run_s), CAUTION * self._time.left_s
        design = design_for(pairs, run_s=run_s, change_s=charge_s, cheap_s=limit_s, left_s=left_s)
        if charge_s <= limit_s:
            return design, order(pairs), ""
        # The arm whose configuration is nearer to what the node runs now begins.
        winner_first = self._node.charge(winner.knobs) < self._node.charge(default)
        runs = order(pairs) if design == INTERLEAVED else blocks(pairs, WINNER if winner_first else DEFAULT)
        whole_s = 2 * pairs * run_s + changes_of(design, pairs) * charge_s
        how = "interleaved" if design == INTERLEAVED else "in blocks"
        return design, runs, f" {how}, about {whole_s:.0f} s with {charge_s:.0f} s for each change"
