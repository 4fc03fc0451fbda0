"""The search: which configuration to measure next; nothing here measures anything.

Guarantee: trial 0 is what the pool runs now and scores 0; none is proposed that is known not to run, and of those that
were measured the incumbent alone, again, which also says how noisy a run is; a weight format that fails the quality
gate leaves the space; a crash is kept, so that what lies beside it is doubted; equal seeds and equal answers give equal
proposals. It ends when the next trial is expected to gain less than it is worth. With a `Budget`, a change
that costs as much as several runs comes only after as many runs, so that restarts do not eat the study, and never when
the time left cannot pay for it. What others measure at the same time counts as a run of the usual outcome until it is
told (a constant liar, Ginsbourger et al. 2010), so that two do not measure one thing. Of several objectives it seeks
the front, by expected hypervolume improvement; the incumbent is then the best in the first that is hardly worse than
the default in any other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from controlplane.contract.knobs import QUANTIZATION, canonical_json
from controlplane.contract.share_text import share_text
from tuner.search.belief import LIKELY, Belief, believe, models_of
from tuner.search.charge import Budget
from tuner.search.first_points import first_points
from tuner.search.forecasts import Forecasts
from tuner.search.front import expected_gain
from tuner.search.kept_trials import KeptTrials
from tuner.search.objective import Assessment, mean_assessment
from tuner.search.quality_gate import is_unfit
from tuner.search.random_rival import RandomRival, random_rival
from tuner.search.space import Space
from tuner.search.surrogate import Array

LEAST_GAIN, SURE = 0.015, 0.8
"""A next trial that is expected to make the best less than so much better (log ratio; of several objectives the share
of what the front covers) does not pay, once something that was measured keeps the limits with this probability: what a
lucky run lets in is no end."""
LEAST_TRIALS = 6
"""So many are measured before that is asked: fewer do not tell how large a gain may be."""
LEAST_CHANCE = 0.01
"""What is better than the default and keeps the limits with less than this probability is no finalist."""
_LEAST = 1e-12
SIDE = 1.96
"""Standard deviations from the middle to an end of a 95 % interval."""
FIRST = 3
"""Trials before a model guides, where nobody has suggested any."""
REPEAT_EVERY = 4
"""At most one of so many trials measures the incumbent again."""


@dataclass(frozen=True)
class Candidate:
    """A configuration to measure; hand it back with `tell`."""

    number: int
    knobs: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """A measured configuration. Of finalists what is believed: `gain` on the default (log ratio), and `feasible`, the
    probability that it keeps the limits."""

    number: int
    knobs: dict[str, Any]
    assessment: Assessment
    gain: float = 0.0
    feasible: float = 1.0


@dataclass(frozen=True)
class FrontPoint:
    """A configuration of the front. `number`: its first trial; `values`: (expected, low, high) by objective in the
    search's order, seconds, the interval of 95 %; `feasible`: the probability that it keeps the limits."""

    number: int
    runs: int
    knobs: dict[str, Any]
    values: list[tuple[float, float, float]]
    feasible: float


class Search:
    """One study's search. `constraints` are the names that every assessment's violations may have, in a fixed order.

    `suggested`: configurations that somebody forecasts to be good, best first; they are measured before the usual ones.
    """

    def __init__(
        self,
        space: Space,
        default: Mapping[str, Any],
        *,
        constraints: Sequence[str],
        seed: int = 0,
        max_trials: int = 12,
        suggested: Sequence[Mapping[str, Any]] = (),
        remembered: Sequence[Mapping[str, Any]] = (),
        kept: KeptTrials | None = None,
        also: Sequence[str] = (),
        also_tolerance: float = 0.1,
        forecasts: Forecasts | None = None,
        objective: str = "",
    ) -> None:
        """`remembered`: what was good before, measured before the usual first points. `kept`: where Optuna finds the
        trials. `also`: further objectives, and the share by which the best may be worse than the default in one.
        `forecasts`: of the pool's twin, by name of limit and objective, of which `objective` is the first; where they
        point to is measured right after the default, unless somebody suggests others.
        """
        self.space = space
        self.default = dict(default)
        self.outcomes: list[Outcome] = []
        self._constraints = list(constraints)
        self._max_trials = max_trials
        self._candidates = space.configurations(Random(seed))
        self._also, self._worse_by = list(also), math.log1p(also_tolerance)
        self._default = Assessment(None, {})
        known = [space.complete(space.chosen(self.default | dict(knobs))) for knobs in suggested or remembered]
        first = known if suggested else (known + first_points(space, self.default))[:FIRST]
        self._waiting = [knobs for knobs in first if not space.infeasible(knobs)]
        self._pending: dict[int, dict[str, Any]] = {}
        self._seen: set[str] = set()
        self._runs_since_dear = 0
        self._gain: float | None = None  # What the next trial is expected to gain.
        self._unaffordable = False
        self._unfit: set[str] = set()  # Weight formats that failed the quality gate.
        self._known: tuple[int, list[Outcome], Belief | None] = (0, [], None)
        self._kept = kept
        self._forecasts, self._objective = forecasts, objective
        self._points_first = forecasts is not None and not suggested  # What somebody suggests comes first.
        self._pointed_to: dict[str, Any] | None = None

    # -- what others do ------------------------------------------------------------------------------------------

    def catch_up(self, measured: Sequence[Outcome], pending: Mapping[int, dict[str, Any]]) -> None:
        """`measured`: all trials so far, by whomever; those that were not told are. `pending`: what others measure, by
        the trial's number.
        """
        known = {outcome.number for outcome in self.outcomes}
        for outcome in measured:
            if outcome.number not in known:
                self.tell(Candidate(outcome.number, outcome.knobs), outcome.assessment)
        self._pending = dict(pending)

    @property
    def waits(self) -> bool:
        """Whether others measure something that this search will be told."""
        return bool(self._pending)

    # -- ask, tell -----------------------------------------------------------------------------------------------

    def ask(self, budget: Budget | None = None) -> Candidate | None:
        """The next configuration; None when the search is over (see `why_over` and `why_none`)."""
        number = len(self.outcomes) + len(self._pending)
        if number == 0:
            return Candidate(0, self.default)
        if self.why_over():
            return None
        self._unaffordable = False
        found = self._next(number, budget, patient=True)
        if found is None and budget is not None:
            found = self._next(number, budget, patient=False)
        if found is None or self.why_over():
            return None
        if budget is not None:
            self._runs_since_dear = self._runs_since_dear + 1 if budget.cheap(found.knobs) else 0
        return found

    def tell(self, candidate: Candidate, assessment: Assessment) -> None:
        """What came of a candidate. Hand in `objective.crashed()` for one that could not be measured."""
        if candidate.number == 0:
            self._default = assessment
            self._pointed_to = self._best_forecast()
        if is_unfit(assessment.violations):
            self._unfit.add(str(candidate.knobs[QUANTIZATION]))
        self.outcomes.append(Outcome(candidate.number, candidate.knobs, assessment))
        if self._kept is not None:
            self._kept.keep(candidate.number, candidate.knobs, assessment, self._constraints)

    # -- what came of it -----------------------------------------------------------------------------------------

    def best(self) -> Outcome | None:
        """The incumbent: the measured one that is worth most, by its gain and the probability that it keeps the limits;
        None when all crashed. Its assessment is that of all its runs together.
        """
        measured, belief = self._choice()
        if belief is None:
            return measured[0] if measured else None
        return measured[int(belief.log_worth.argmax())]

    def finalists(self, most: int) -> list[Outcome]:
        """Up to `most` measured configurations besides the default that may be better than it, what is worth most
        first. The default runs no heats: who is likely worse than it in a further objective would win them, and be
        refused."""
        measured, belief = self._choice()
        _, unbound = self._measured()
        if belief is None or unbound is None:
            return []
        gains, feasible = -belief.objective.mean, belief.feasible
        chances = np.exp(belief.objective.log_below()) * feasible
        no_worse = np.exp(belief.log_feasible - unbound.log_feasible)
        found = [
            replace(measured[place], gain=float(gains[place]), feasible=float(feasible[place]))
            for place in np.argsort(-belief.log_worth, kind="stable").tolist()
            if measured[place].knobs != self.default and chances[place] >= LEAST_CHANCE and no_worse[place] >= LIKELY
        ]
        return found[:most]

    def front(self) -> list[FrontPoint]:
        """Of the measured configurations those that likely keep the limits and that no such one likely beats in all
        objectives together, the first objective's best first."""
        measured, belief = self._measured()
        defaults = [self._default.objective_s, *self._also_default().values()]
        if belief is None or None in defaults:
            return []
        runs = Counter(canonical_json(outcome.knobs) for outcome in self.outcomes)
        found = []
        for place in np.flatnonzero(belief.offered):
            values = [
                _interval(own or 0.0, float(one.mean[place]), float(one.sd[place]))
                for own, one in zip(defaults, (belief.objective, *belief.also), strict=True)
            ]
            number, knobs = measured[place].number, measured[place].knobs
            found.append(FrontPoint(number, runs[canonical_json(knobs)], knobs, values, float(belief.feasible[place])))
        return sorted(found, key=lambda point: point.values[0][0])

    def why_over(self) -> str:
        """Why no further trial is wanted; empty while one is."""
        if len(self.outcomes) + len(self._pending) >= self._max_trials:
            return f"{self._max_trials} trials measured"
        if self.outcomes and not self.space.values:
            return "the search space holds one configuration only"
        gain, enough = self._gain, len(self.outcomes) >= LEAST_TRIALS
        if gain is not None and gain < LEAST_GAIN and enough and self._is_sure():
            return f"a further trial is expected to gain {share_text(gain, 1)}"
        return ""

    def why_none(self) -> str:
        """Why the last `ask` found nothing, where `why_over` does not say."""
        if self._unaffordable:
            return "what was not measured yet needs a change for which no time is left"
        return "every configuration of the space was measured"

    def importances(self) -> dict[str, float]:
        """Share of each knob in the objective's variation over the space, as believed: its main effect's variance
        (functional ANOVA, Hutter et al. 2014). Empty before there are four trials.
        """
        belief = self._belief(self._candidates) if len(self.outcomes) >= 4 and len(self.space.values) > 1 else None
        if belief is None:
            return {}
        mean, places = belief.objective.mean, self.space.places(self._candidates)
        effects = {}
        for column, name in enumerate(self.space.values):
            found, member = np.unique(places[:, column], return_inverse=True)
            counts = np.bincount(member, minlength=len(found))
            levels = np.bincount(member, weights=mean) / counts
            effects[name] = float(np.sum(counts * (levels - mean.mean()) ** 2) / len(mean))
        whole = sum(effects.values())
        return {name: round(effect / whole, 4) for name, effect in effects.items()} if whole > 0 else {}

    def random_rival(
        self,
        *,
        spent_s: float,
        run_s: float,
        change_s: Callable[[Mapping[str, Any], Mapping[str, Any]], float],
        winner: Mapping[str, Any] | None = None,
    ) -> RandomRival | None:
        """What random search would have found in `spent_s`, beside this search's winner; None where nothing was
        measured, or to be chosen from."""
        models = models_of(
            self.space,
            self._runs(),
            self._constraints,
            self._default.objective_s,
            self._also_default(),
            self._forecasts,
            self._objective,
        )
        if models is None:
            return None
        fit = [knobs for knobs in self._candidates if knobs[QUANTIZATION] not in self._unfit]
        return random_rival(
            self.space,
            models,
            self.default,
            fit,
            spent_s=spent_s,
            run_s=run_s,
            change_s=change_s,
            worse_by=self._worse_by,
            winner=winner,
        )

    # -- inside --------------------------------------------------------------------------------------------------

    def _next(self, number: int, budget: Budget | None, *, patient: bool) -> Candidate | None:
        """`patient`: a dear change has to wait for its turn."""
        begun = [*(outcome.knobs for outcome in self.outcomes), *self._pending.values()]
        self._seen = {canonical_json(knobs) for knobs in begun}
        self._waiting = [knobs for knobs in self._waiting if self._fresh(knobs)]
        first = [] if self._pointed_to is None or not self._fresh(self._pointed_to) else [self._pointed_to]
        for knobs in [*first, *self._waiting]:
            if self._pays(knobs, budget, patient):
                return Candidate(number, knobs)
        if not self.outcomes:  # The default is being measured, and nothing to be said before.
            return None
        fresh = [knobs for knobs in self._candidates if self._fresh(knobs) and self._pays(knobs, budget, patient)]
        again = self._again(number, budget)
        asked = fresh if again is None else [*fresh, again]
        if not asked:
            return None
        belief = self._belief(asked, supposed=True)
        if belief is None:  # Everything crashed so far: the one farthest from all that did.
            tried = self.space.places(begun)
            apart = np.abs(self.space.places(asked)[:, None] - tried[None]).sum(axis=2).min(axis=1)
            return Candidate(number, asked[int(apart.argmax())])
        # Of what is infeasible for certain the least so is still found: hence logarithms.
        gains = np.log(self._expected(belief) + _LEAST) + belief.log_feasible
        if not self._waiting:
            self._gain = float(np.exp(gains.max()))
        return Candidate(number, asked[int(gains.argmax())])

    def _best_forecast(self) -> dict[str, Any] | None:
        """Where the twin points to, by the default's run."""
        if self._forecasts is None or not self._points_first or self._default.objective_s is None:
            return None
        others = [knobs for knobs in self._candidates if knobs != self.default]
        found = self._forecasts.best(self.space, others, self.default, self._default, self._objective)
        return None if found is None else dict(found)

    def _again(self, number: int, budget: Budget | None) -> dict[str, Any] | None:
        """The incumbent, where it may be measured again."""
        best = self.best()
        if best is None or best.assessment.objective_s is None or number - self._repeated_at() < REPEAT_EVERY:
            return None
        return best.knobs if budget is None or budget.cheap(best.knobs) else None

    def _pays(self, knobs: Mapping[str, Any], budget: Budget | None, patient: bool) -> bool:
        if budget is None or budget.cheap(knobs):
            return True
        if not budget.affords(knobs):
            self._unaffordable = True
            return False
        most = max(1, self._max_trials // 4)
        return not patient or self._runs_since_dear >= min(budget.runs_to_wait(knobs), most)

    def _repeated_at(self) -> int:
        """The newest trial of a configuration that one before it was of; 0 without one."""
        seen: set[str] = set()
        newest = 0
        for number, knobs in sorted([*((one.number, one.knobs) for one in self.outcomes), *self._pending.items()]):
            if canonical_json(knobs) in seen:
                newest = number
            seen.add(canonical_json(knobs))
        return newest

    def _fresh(self, knobs: Mapping[str, Any]) -> bool:
        """Not measured yet, and not known to be of no use."""
        return knobs[QUANTIZATION] not in self._unfit and canonical_json(knobs) not in self._seen

    def _expected(self, belief: Belief) -> Array:
        """What each is expected to make better, did it keep the limits: the best by a log ratio; of several objectives
        the share that it adds to what their front covers."""
        if not self._also:
            return belief.objective.improvement(self._reference())
        _, known = self._measured()
        assert known is not None
        corner = known.corner
        return expected_gain([belief.objective, *belief.also], known.points(corner), corner) / known.covered(corner)

    def _choice(self) -> tuple[list[Outcome], Belief | None]:
        """As `_measured`, where what may be worse than the default in a further objective may break a limit."""
        measured, belief = self._measured()
        if belief is None or not self._also:
            return measured, belief
        place = next((place for place, outcome in enumerate(measured) if outcome.knobs == self.default), None)
        bounds = [self._worse_by + (0.0 if place is None else float(one.mean[place])) for one in belief.also]
        return measured, belief.no_worse(bounds)

    def _also_default(self) -> dict[str, float | None]:
        return {name: self._default.also.get(name) for name in self._also}

    def _reference(self) -> float:
        """What a trial has to improve on: an objective that is for certain worth as much as the incumbent. One that may
        break a limit is slower by that, so that the search goes where limits are kept more surely.
        """
        _, belief = self._measured()
        assert belief is not None
        return belief.otherwise - float(np.exp(belief.log_worth.max()))

    def _is_sure(self) -> bool:
        """Whether something measured surely keeps the limits."""
        _, belief = self._measured()
        return belief is not None and bool((belief.feasible >= SURE).any())

    def _measured(self) -> tuple[list[Outcome], Belief | None]:
        """Each configuration that could be measured and whose format is permitted, once, with all its runs together."""
        if self._known[0] == len(self.outcomes):
            return self._known[1:]
        runs: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            if outcome.assessment.objective_s is not None and outcome.knobs[QUANTIZATION] not in self._unfit:
                runs.setdefault(canonical_json(outcome.knobs), []).append(outcome)
        measured = [
            Outcome(own[0].number, own[0].knobs, mean_assessment([one.assessment for one in own]))
            for own in runs.values()
        ]
        belief = self._belief([outcome.knobs for outcome in measured]) if measured else None
        self._known = (len(self.outcomes), measured, belief)
        return measured, belief

    def _belief(self, asked: Sequence[Mapping[str, Any]], *, supposed: bool = False) -> Belief | None:
        """`supposed`: what others measure came to what is usual."""
        runs = self._runs()
        if supposed and runs:
            usual = mean_assessment([assessment for _, assessment in runs])
            runs += [(knobs, usual) for knobs in self._pending.values()]
        default_s = self._default.objective_s
        also = self._also_default()
        return believe(self.space, runs, asked, self._constraints, default_s, also, self._forecasts, self._objective)

    def _runs(self) -> list[tuple[dict[str, Any], Assessment]]:
        return [(outcome.knobs, outcome.assessment) for outcome in self.outcomes if not self._gated(outcome)]

    def _gated(self, outcome: Outcome) -> bool:
        return is_unfit(outcome.assessment.violations)


def _interval(default_s: float, mean: float, sd: float) -> tuple[float, float, float]:
    """The expected value and the ends of its interval, seconds, of a log ratio to the default."""
    return (
        default_s * math.exp(mean),
        default_s * math.exp(mean - SIDE * sd),
        default_s * math.exp(mean + SIDE * sd),
    )
