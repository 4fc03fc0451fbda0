"""The search: which configuration to measure next. Optuna inside, ask and tell outside; nothing here measures anything.

Guarantee: trial 0 is what the pool runs now and scores 0; no configuration is proposed twice, none that is known not
to run; a crash or a failed application is kept as a large violation, so that the search learns from it; equal seeds
and equal answers give equal proposals. With a `Budget`, a change that costs as much as several runs comes only after as
many runs, so that restarts do not eat the study, and never when the time left cannot pay for it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import optuna

from controlplane.contract.knobs import (
    MAX_NUM_BATCHED_TOKENS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
    QUANTIZATION,
    EngineConfig,
    Quantization,
    canonical_json,
)
from tuner.search.charge import Budget
from tuner.search.objective import Assessment, constraint_value, score
from tuner.search.quality_gate import TOP1
from tuner.search.space import Space

logger = logging.getLogger(__name__)
_TRIES = 4
_RANDOM_TRIES = 200
Allowed = Callable[[Mapping[str, Any]], bool]
IMPROVES = 0.98
"""A trial counts as progress when its objective is at most this share of the best one so far."""


@dataclass
class Candidate:
    """A configuration to measure; hand it back with `tell`."""

    number: int
    knobs: dict[str, Any]
    trial: optuna.trial.Trial | None


@dataclass(frozen=True)
class Outcome:
    """A measured configuration."""

    number: int
    knobs: dict[str, Any]
    assessment: Assessment


class Search:
    """One study's search. `constraints` are the names that every assessment's violations may have, in a fixed order."""

    def __init__(
        self,
        space: Space,
        default: Mapping[str, Any],
        *,
        constraints: Sequence[str],
        seed: int = 0,
        max_trials: int = 12,
        patience: int | None = None,
        sampler: str | None = None,
        storage: str | None = None,
        name: str | None = None,
    ) -> None:
        self.space = space
        self.default = dict(default)
        self.outcomes: list[Outcome] = []
        self._constraints = list(constraints)
        self._max_trials = max_trials
        self._patience = patience if patience is not None else max(4, max_trials // 2)
        self._random = random.Random(seed)
        self._default_s: float | None = None
        self._waiting = [knobs for knobs in _first_points(space, self.default) if not space.infeasible(knobs)]
        self._seen: dict[str, Assessment | None] = {}
        self._runs_since_dear = 0
        self._unaffordable = False
        self._unfit: set[str] = set()  # Weight formats that failed the quality gate: no need to fail again.
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            storage=storage, study_name=name, sampler=make_sampler(sampler, seed, startup=len(self._waiting) + 1)
        )

    # -- ask, tell -----------------------------------------------------------------------------------------------

    def ask(self, budget: Budget | None = None) -> Candidate | None:
        """The next configuration; None when the search is over (see `why_over` and `why_none`)."""
        if self.why_over():
            return None
        number = len(self.outcomes)
        if number == 0:
            return self._candidate(0, self.default, self._enqueued(self.default))
        self._unaffordable = False
        found = self._next(number, budget, patient=True)
        if found is None and budget is not None:
            found = self._next(number, budget, patient=False)
        if found is not None and budget is not None:
            self._runs_since_dear = self._runs_since_dear + 1 if budget.cheap(found.knobs) else 0
        return found

    def _next(self, number: int, budget: Budget | None, *, patient: bool) -> Candidate | None:
        """`patient`: a dear change has to wait for its turn."""

        def may(knobs: Mapping[str, Any]) -> bool:
            return self._fresh(knobs) and self._pays(knobs, budget, patient)

        self._waiting = [knobs for knobs in self._waiting if self._fresh(knobs)]
        for place, knobs in enumerate(self._waiting):
            if may(knobs):
                del self._waiting[place]
                return self._candidate(number, knobs, self._enqueued(knobs))
        return self._suggested(number, may, budget) or self._unseen(number, may)

    def _pays(self, knobs: Mapping[str, Any], budget: Budget | None, patient: bool) -> bool:
        if budget is None or budget.cheap(knobs):
            return True
        if not budget.affords(knobs):
            self._unaffordable = True
            return False
        most = max(1, self._max_trials // 4)
        return not patient or self._runs_since_dear >= min(budget.runs_to_wait(knobs), most)

    def tell(self, candidate: Candidate, assessment: Assessment) -> None:
        """What came of a candidate. Hand in `objective.crashed()` for one that could not be measured."""
        if candidate.number == 0:
            self._default_s = assessment.objective_s
        self._seen[canonical_json(candidate.knobs)] = assessment
        if assessment.violations.get(TOP1, 0.0) > 0:
            self._unfit.add(str(candidate.knobs[QUANTIZATION]))
        self.outcomes.append(Outcome(candidate.number, candidate.knobs, assessment))
        if candidate.trial is not None:
            self._learn(candidate.trial, assessment)

    # -- what came of it -----------------------------------------------------------------------------------------

    def best(self) -> Outcome | None:
        """The fastest feasible outcome; without one, the one nearest to feasible; None when all crashed."""
        measured = [outcome for outcome in self.outcomes if outcome.assessment.objective_s is not None]
        return min(measured, key=_rank, default=None)

    def why_over(self) -> str:
        """Why no further trial is wanted; empty while one is."""
        if len(self.outcomes) >= self._max_trials:
            return f"{self._max_trials} trials measured"
        if self._stale() >= self._patience:
            return f"no progress in {self._patience} trials"
        if self.outcomes and not self.space.values:
            return "the search space holds one configuration only"
        return ""

    def why_none(self) -> str:
        """Why the last `ask` found nothing, where `why_over` does not say."""
        if self._unaffordable:
            return "what was not measured yet needs a change for which no time is left"
        return "every configuration of the space was measured"

    def importances(self) -> dict[str, float]:
        """Share of each knob in the objective's variation (PED-ANOVA, arXiv:2304.10255); empty when not to be had."""
        names = [name for name, values in self.space.values.items() if len(values) > 1]
        if len(self.outcomes) < 4 or len(names) < 2:
            return {}
        try:
            found = optuna.importance.get_param_importances(
                self._study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
            )
        except (ValueError, RuntimeError, ImportError, ZeroDivisionError) as error:
            logger.info("no importances: %s", error)
            return {}
        return {name: round(float(share), 4) for name, share in found.items() if share == share}

    # -- inside --------------------------------------------------------------------------------------------------

    def _stale(self) -> int:
        """Trials since the last progress."""
        best: tuple[bool, float] | None = None
        stale = 0
        for outcome in self.outcomes:
            if outcome.assessment.objective_s is None:
                stale += 1
                continue
            rank = _rank(outcome)
            if best is None or rank[0] < best[0] or (rank[0] == best[0] and rank[1] < best[1] * IMPROVES):
                best, stale = rank, 0
            else:
                stale += 1
        return stale

    def _candidate(self, number: int, knobs: dict[str, Any], trial: optuna.trial.Trial | None) -> Candidate:
        self._seen[canonical_json(knobs)] = None
        return Candidate(number, knobs, trial)

    def _enqueued(self, knobs: Mapping[str, Any]) -> optuna.trial.Trial:
        self._study.enqueue_trial(self.space.params(knobs))
        return self._study.ask(self.space.distributions())

    def _suggested(self, number: int, may: Allowed, budget: Budget | None) -> Candidate | None:
        """The sampler's proposal; one seen before is answered from memory, and the sampler asked again.

        After a proposal whose change has to wait, the sampler is held to the weight format that the node runs.
        """
        hold = False
        for _ in range(_TRIES):
            if hold and QUANTIZATION in self.space.values:
                self._study.enqueue_trial({QUANTIZATION: str(self.outcomes[-1].knobs[QUANTIZATION])})
            trial = self._study.ask(self.space.distributions())
            knobs = self.space.knobs(trial.params)
            if may(knobs):
                return self._candidate(number, knobs, trial)
            if self._fresh(knobs):
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)  # Nothing was learned of it.
                hold = budget is not None
                continue
            known = self._seen.get(canonical_json(knobs))
            self._learn(trial, known or Assessment(None, dict.fromkeys(self._constraints, 10.0)))
        return None

    def _unseen(self, number: int, may: Allowed) -> Candidate | None:
        """A random configuration that was not measured yet; None when there seems to be none left."""
        for _ in range(_RANDOM_TRIES):
            params = {
                name: self._random.choice(values) if name == QUANTIZATION else self._random.randrange(len(values))
                for name, values in self.space.values.items()
            }
            knobs = self.space.knobs(params)
            if may(knobs):
                return self._candidate(number, knobs, self._enqueued(knobs))
        return None

    def _fresh(self, knobs: Mapping[str, Any]) -> bool:
        """Not measured yet, and not known to be of no use."""
        known = canonical_json(knobs) in self._seen or knobs[QUANTIZATION] in self._unfit
        return not known and not self.space.infeasible(knobs)

    def _learn(self, trial: optuna.trial.Trial, assessment: Assessment) -> None:
        everywhere = assessment.worst if assessment.objective_s is None else 0.0
        for name in self._constraints:
            # What was not measured counts as held, unless nothing was.
            trial.set_constraint(name, constraint_value(assessment.violations.get(name, everywhere)))
        self._study.tell(trial, score(assessment.objective_s, self._default_s))


def _rank(outcome: Outcome) -> tuple[bool, float]:
    """Feasible ones first, by objective; then the others by how far they exceed their limits."""
    assessment = outcome.assessment
    if assessment.feasible:
        assert assessment.objective_s is not None
        return (False, assessment.objective_s)
    return (True, assessment.worst)


def _first_points(space: Space, default: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is measured before a model guides: the engine's own defaults, and one step in each direction from there.

    Production may run far from the good region; the engine's defaults are a second, independent starting point.
    """
    engine = EngineConfig().knobs()
    start = dict(default) | {name: engine[name] for name in space.values}
    steps: list[dict[str, Any]] = [{}]
    if NUM_SPECULATIVE_TOKENS in space.values:
        steps.append({NUM_SPECULATIVE_TOKENS: 3})
    if Quantization.INT8.value in space.values.get(QUANTIZATION, []):
        steps.append({QUANTIZATION: Quantization.INT8.value})
    if {MAX_NUM_BATCHED_TOKENS, PREFILL_CHUNK_SIZE} <= space.values.keys():
        steps.append({MAX_NUM_BATCHED_TOKENS: 256, PREFILL_CHUNK_SIZE: 128})
    return [space.knobs(space.params(start | step)) for step in steps]


def make_sampler(name: str | None, seed: int, *, startup: int) -> optuna.samplers.BaseSampler:
    """ "gp" (needs torch) or "tpe"; None: the first that can be had. A Gaussian process needs fewer trials."""
    if name is None:
        name = "gp" if find_spec("torch") else "tpe"
    if name == "gp":
        import torch

        # One thread: the tuner shares its processors with the engine it measures.
        torch.set_num_threads(1)
        return optuna.samplers.GPSampler(
            seed=seed, n_startup_trials=startup, independent_sampler=optuna.samplers.RandomSampler(seed=seed)
        )
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup, multivariate=True, constant_liar=False)
