"""One study, from the captured workload to its result. The worker around it claims, reports and proposes.

Guarantee: the default is measured as trial 0 under the same conditions as every other trial; the winner's figures
come from fresh runs, never from the ones it was chosen by; what could not be measured is reported, not dropped.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx

from controlplane.client import Client
from controlplane.contract.bodies.nodes import TrialConfig
from controlplane.contract.bodies.studies import FINALIST, Study, StudyResult, StudyVerdict, TrialReport, TrialState
from controlplane.contract.engine_address import Network
from controlplane.contract.errors import BadRequest, NotFound, TailwrightError
from controlplane.contract.knobs import QUANTIZATION, Quantization, difference
from controlplane.contract.share_text import share_text
from tuner.replay.replay import METRICS, key
from tuner.search import quality_gate
from tuner.search.charge import Budget, allowance_s, cheap_s
from tuner.search.objective import ERRORS, needed_quantiles
from tuner.search.search import Outcome, Search
from tuner.search.space import build_space
from tuner.study.finish import Finish, Finished, NotMeasured
from tuner.study.remeasure import BLOCKS_CHANGES, DEFAULT, WINNER, verdict
from tuner.study.study_text import summary_of
from tuner.study.time_plan import TimePlan
from tuner.study.trial_node import TrialNode, find_trial_node
from tuner.study.trial_run import Bench, Measured
from tuner.workload.capture import Slice, capture, slice_for_node
from tuner.workload.corpus import engine_tokenizer, read_tokens

logger = logging.getLogger(__name__)

CORPUS_TOKENS, HELD_OUT_TOKENS = 60_000, 4_000
FRESH_TOLD = ("slice", "slice_start_s", "primed", "compressed", "apart")
"""What is told of the slice that the finish replays."""
MARGINAL = 0.25
"""A winner that exceeded a limit by more than this in the search is not worth a re-measurement."""


@dataclass
class Hooks:
    """What the worker is told as a study goes on. `stop` ends it at the next wait. `networks`: where engines may be."""

    progress: Callable[[str], None]
    trial: Callable[[TrialReport], None]
    started: Callable[[str, dict[str, Any]], None]
    stop: threading.Event = field(default_factory=threading.Event)
    networks: Sequence[Network] = ()


class StudyRun:
    """One attempt at one study."""

    def __init__(self, client: Client, study: Study, hooks: Hooks) -> None:
        self._client, self._study, self._hooks = client, study, hooks
        self._spec = study.spec
        self._time = TimePlan(study.spec)
        self._reported = 0

    def run(self, now: datetime) -> StudyResult:
        """Capture, search, re-measure. Raises what made the study impossible; Stopped when it was cancelled."""
        _check(self._study)
        spec = self._spec
        nodes = self._client.nodes()
        default = self._default()
        found = find_trial_node(nodes, spec.pool)
        captured = capture(self._client, spec.pool, end=now, span_s=spec.workload_s)
        node = self._node = TrialNode(self._client, found, stop=self._hooks.stop, networks=self._hooks.networks)
        self._serving = max(1, captured.nodes)
        self._time.allowance_s = allowance_s(spec, found, default)
        try:
            most, span_s, wanted = node.max_total(), self._time.span_s, spec.trial_requests
            seen = slice_for_node(captured, span_s=span_s, requests=wanted, max_total=most)
            fresh = slice_for_node(captured, span_s=span_s, requests=wanted, max_total=most, apart_from=seen)
            told = {**seen.summary, "fresh_slice": {name: fresh.summary[name] for name in FRESH_TOLD}}
            self._hooks.started(node.name, {**told, "default_revision": self._study.default_revision})
            return self._study_on(node, default, seen, fresh)
        finally:
            node.close()

    def _default(self) -> dict[str, Any]:
        """The pool's revision when the study was claimed, whatever single nodes run: a canary is not the pool."""
        number = self._study.default_revision
        if number is None:
            raise NotFound(
                f"pool {self._spec.pool}: it has no revision in production yet; one is adopted when a serving node has "
                "reported what it runs",
                field="pool",
            )
        return self._client.config(number).knobs.knobs()

    def _study_on(self, node: TrialNode, default: dict[str, Any], seen: Slice, fresh: Slice) -> StudyResult:
        spec = self._spec
        self._hooks.progress("tokenising the replay's text")
        tokenize = engine_tokenizer(node.url, model=node.model)
        space = build_space(spec.space, default, node.capabilities())
        gated = QUANTIZATION in space.values or default[QUANTIZATION] != Quantization.NONE.value
        self._bench = Bench(
            node,
            spec,
            seen,
            fresh,
            read_tokens(tokenize, CORPUS_TOKENS),
            held_out=read_tokens(tokenize, HELD_OUT_TOKENS, held_out=True) if gated else (),
        )
        try:
            search = Search(
                space,
                default,
                constraints=[*(key(limit.metric, limit.q) for limit in spec.constraints), ERRORS, quality_gate.TOP1],
                seed=spec.seed,
                max_trials=spec.max_trials,
                suggested=[default | knobs for knobs in spec.suggested],
            )
            return self._conclude(search, default, self._search(search))
        finally:
            self._put_back(node.name, default)

    # -- search --------------------------------------------------------------------------------------------------

    def _search(self, search: Search) -> str:
        """Measure what the search asks for; returns why it ended."""
        while True:
            left_s, run_s = self._time.left_s - self._time.reserve_s(self._changes_s(search)), self._time.usual_s
            if search.outcomes and left_s < run_s:
                return f"out of time after {len(search.outcomes)} trials"
            candidate = search.ask(Budget(self._node.charge, run_s, left_s))
            if candidate is None:
                return search.why_over() or search.why_none()
            label = "the default" if candidate.number == 0 else _short(candidate.knobs, search.default)
            charge_s = self._node.charge(candidate.knobs)
            if charge_s > cheap_s(run_s):
                label += f" (the change takes about {charge_s:.0f} s)"
            self._hooks.progress(f"trial {candidate.number + 1} of at most {self._spec.max_trials}: {label}")
            began, spent_s = time.monotonic(), self._node.change_s
            measured = self._try(candidate.knobs)
            change_s = self._node.change_s - spent_s
            dear_s = change_s if change_s > cheap_s(run_s) else 0.0
            self._time.run_s.append(time.monotonic() - began - dear_s)
            search.tell(candidate, measured.assessment)
            self._report("search" if candidate.number else "default", candidate.knobs, measured, change_s)

    def _try(self, knobs: dict[str, Any], *, heat: int | None = None) -> Measured:
        """One run; what keeps it from being measured is its error."""
        try:
            return self._bench.measure(knobs, heat=heat)
        except TailwrightError as error:
            logger.warning("study %d: run failed: %s", self._study.id, error.message)
            return Measured.failed(error.message)

    def _again(self, knobs: dict[str, Any], heat: int) -> Measured:
        """One run of the finish."""
        spent_s = self._node.change_s
        measured = self._try(knobs, heat=heat)
        self._report(FINALIST, knobs, measured, self._node.change_s - spent_s)
        return measured

    def _report(self, kind: str, knobs: dict[str, Any], measured: Measured, change_s: float) -> None:
        gated = measured.measurement is None and not measured.error
        assessment = measured.assessment
        number, self._reported = self._reported, self._reported + 1
        self._hooks.trial(
            TrialReport(
                number=number,
                kind=kind,
                knobs=knobs,
                state=TrialState.FAILED if measured.error else TrialState.COMPLETE,
                feasible=assessment.feasible,
                objective_s=assessment.objective_s,
                violations={name: round(value, 6) for name, value in assessment.violations.items()},
                measurement=measured.measurement,
                quality=measured.quality,
                change_s=round(change_s, 3),
                error="not replayed: the quality gate was not passed" if gated else measured.error,
            )
        )

    # -- conclusion ----------------------------------------------------------------------------------------------

    def _conclude(self, search: Search, default: dict[str, Any], why: str) -> StudyResult:
        best = search.best()
        if search.outcomes[0].assessment.objective_s is None:
            return self._unproven(search, "the default could not be measured, so nothing can be compared with it", None)
        finalists = search.finalists(self._spec.finalists)
        if not finalists and best is not None and best.knobs != default:
            finalists = [best]
        if not finalists:
            return self._unproven(search, f"nothing measured was better than what runs now ({why})", None)
        near = [one for one in finalists if one.assessment.worst <= MARGINAL]
        if not near:
            nearest = min(finalists, key=lambda one: one.assessment.worst).assessment
            worst = max(nearest.violations, key=lambda name: nearest.violations[name])
            reason = f"no configuration kept the limits; the nearest exceeds {worst} by {share_text(nearest.worst)}"
            return self._unproven(search, f"{reason} ({why})", best)
        finish = Finish(self._spec, self._node, self._time, self._again, self._hooks.progress)
        try:
            return self._result(search, finish.decide(near, default), default)
        except NotMeasured as error:
            return self._unproven(search, str(error), best)

    def _result(self, search: Search, finished: Finished, default: dict[str, Any]) -> StudyResult:
        race, winner = finished.race, finished.winner.knobs
        found, unsure = race.found, race.unsure
        decided = verdict(found, finished.excess, unsure)
        means = {arm: sum(values) / len(values) for arm, values in race.objective.items()}
        payback_s = None
        if decided is StudyVerdict.BETTER:
            # The trial node's time, in what the pool's nodes save each second.
            payback_s = round(self._time.spent_s / (found.estimate * self._serving), 1)
        return StudyResult(
            verdict=decided,
            winner=winner,
            default=default,
            winner_objective_s=means[WINNER],
            default_objective_s=means[DEFAULT],
            improvement=found.estimate,
            interval=(found.low, found.high) if found.low > -math.inf else None,
            repeats=found.repeats,
            design=race.design,
            change_s=round(self._node.charge(winner, default), 3),
            payback_s=payback_s,
            default_revision=self._study.default_revision,
            summary=summary_of(
                self._spec,
                decided,
                winner,
                default,
                found,
                finished.excess,
                unsure,
                design=race.design,
                payback_s=payback_s,
            ),
            importances=search.importances(),
        )

    def _unproven(self, search: Search, reason: str, best: Outcome | None) -> StudyResult:
        measured = search.outcomes[0].assessment.objective_s
        return StudyResult(
            verdict=StudyVerdict.NOT_BETTER,
            winner=None if best is None else best.knobs,
            default=search.default,
            winner_objective_s=None if best is None else best.assessment.objective_s,
            default_objective_s=measured,
            default_revision=self._study.default_revision,
            summary=f"Keep what runs now: {reason}.",
            importances=search.importances(),
        )

    def _put_back(self, node: str, default: dict[str, Any]) -> None:
        """Leave the trial node as the pool is."""
        try:
            self._client.set_trial_config(node, TrialConfig(knobs=default))
        except (TailwrightError, httpx.HTTPError) as error:
            logger.warning("trial node %s was not put back: %r", node, error)

    def _changes_s(self, search: Search) -> float:
        """What going between the default and the best so far will cost in the re-measurement, at least."""
        best = search.best()
        if best is None or best.knobs == search.default:
            return 0.0
        charge_s = self._node.charge(best.knobs, search.default)
        return BLOCKS_CHANGES * charge_s if charge_s > cheap_s(self._time.usual_s) else 0.0


def _check(study: Study) -> None:
    """A client sees no stages, so only end-to-end metrics can be an objective or a constraint."""
    for metric, _ in needed_quantiles(study.spec):
        if metric not in METRICS:
            raise BadRequest(f"a replay measures {', '.join(METRICS)} from outside, not {metric!r}", field="objective")


def _short(knobs: dict[str, Any], default: dict[str, Any]) -> str:
    found = difference(knobs, default, unreported=True)
    changed = [f"{name}={value}" for name, value in knobs.items() if name in found]
    return ", ".join(changed) or "as the default"
