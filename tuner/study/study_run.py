"""One study, from the captured workload to its result. The worker around it claims, reports and proposes.

Guarantee: the default is measured as trial 0 under the same conditions as every other trial; the winner's figures
come from fresh runs, never from the ones it was chosen by; what could not be measured is reported, not dropped.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx

from controlplane.client import Client
from controlplane.contract.bodies.nodes import TrialConfig
from controlplane.contract.bodies.studies import Study, StudyResult, StudyVerdict, TrialReport, TrialState
from controlplane.contract.engine_address import Network
from controlplane.contract.errors import BadRequest, NotFound, TailwrightError
from controlplane.contract.knobs import QUANTIZATION, Quantization, difference
from controlplane.contract.share_text import share_text
from tuner.replay.replay import METRICS, ReplayResult, key
from tuner.search import quality_gate
from tuner.search.charge import Budget, allowance_s, cheap_s
from tuner.search.objective import ERRORS, needed_quantiles, violations
from tuner.search.search import Outcome, Search
from tuner.search.space import build_space
from tuner.study.remeasure import (
    BLOCKS_CHANGES,
    DEFAULT,
    INTERLEAVED,
    MOST_TIMES,
    WINNER,
    Improvement,
    blocks,
    changes_of,
    design_for,
    improvement,
    looks_at,
    order,
    verdict,
)
from tuner.study.study_text import summary_of
from tuner.study.trial_node import TrialNode, find_trial_node
from tuner.study.trial_run import Bench, Measured, together
from tuner.workload.capture import Slice, capture, slice_for_node
from tuner.workload.corpus import engine_tokenizer, read_tokens

logger = logging.getLogger(__name__)

OVERHEAD_S = 2.5
"""Of a run: applying a configuration, warming up, draining. Only a first guess; the search goes by what it measures."""
SHORTEST_SPAN_S, LONGEST_SPAN_S = 4.0, 120.0
CORPUS_TOKENS, HELD_OUT_TOKENS = 60_000, 4_000
_CAUTION = 0.85
"""Share of the time left that extra pairs may count on: runs are not all as fast as the usual one."""
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

    def __init__(self, client: Client, study: Study, hooks: Hooks, *, sampler: str | None = None) -> None:
        self._client, self._study, self._hooks, self._sampler = client, study, hooks, sampler
        self._spec = study.spec
        self._began = time.monotonic()
        self._run_s: list[float] = []  # Of one run each; a dear change before it is charged apart.
        self._allowance_s = 0.0

    def run(self, now: datetime) -> StudyResult:
        """Capture, search, re-measure. Raises what made the study impossible; Stopped when it was cancelled."""
        _check(self._study)
        spec = self._spec
        nodes = self._client.nodes()
        default = self._default()
        found = find_trial_node(nodes, spec.pool)
        captured = capture(self._client, spec.pool, end=now, span_s=spec.workload_s)
        node = self._node = TrialNode(self._client, found, stop=self._hooks.stop, networks=self._hooks.networks)
        self._allowance_s = allowance_s(spec, found, default)
        try:
            piece = slice_for_node(
                captured, span_s=self._span_s(), requests=spec.trial_requests, max_total=node.max_total()
            )
            self._hooks.started(node.name, {**piece.summary, "default_revision": self._study.default_revision})
            return self._study_on(node, default, piece)
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

    def _study_on(self, node: TrialNode, default: dict[str, Any], piece: Slice) -> StudyResult:
        spec = self._spec
        self._hooks.progress("tokenising the replay's text")
        tokenize = engine_tokenizer(node.url, model=node.model)
        space = build_space(spec.space, default, node.capabilities())
        gated = QUANTIZATION in space.values or default[QUANTIZATION] != Quantization.NONE.value
        self._bench = Bench(
            node,
            spec,
            piece.workload,
            read_tokens(tokenize, CORPUS_TOKENS),
            prime=piece.prime,
            held_out=read_tokens(tokenize, HELD_OUT_TOKENS, held_out=True) if gated else (),
        )
        try:
            search = Search(
                space,
                default,
                constraints=[*(key(limit.metric, limit.q) for limit in spec.constraints), ERRORS, quality_gate.TOP1],
                seed=spec.seed,
                max_trials=spec.max_trials,
                sampler=self._sampler,
            )
            return self._conclude(search, default, self._search(search))
        finally:
            self._put_back(node.name, default)

    # -- search --------------------------------------------------------------------------------------------------

    def _search(self, search: Search) -> str:
        """Measure what the search asks for; returns why it ended."""
        while True:
            left_s, run_s = self._left_s() - self._reserve_s(search), self._usual_run_s()
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
            self._run_s.append(time.monotonic() - began - dear_s)
            search.tell(candidate, measured.assessment)
            kind = "search" if candidate.number else "default"
            self._report(candidate.number, kind, candidate.knobs, measured, change_s)

    def _try(self, knobs: dict[str, Any], *, salt: int = 0) -> Measured:
        """One run; what keeps it from being measured is its error."""
        try:
            return self._bench.measure(knobs, salt=salt)
        except TailwrightError as error:
            logger.warning("study %d: run failed: %s", self._study.id, error.message)
            return Measured.failed(error.message)

    def _report(self, number: int, kind: str, knobs: dict[str, Any], measured: Measured, change_s: float) -> None:
        gated = measured.measurement is None and not measured.error
        assessment = measured.assessment
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
        if best is None or best.knobs == default:
            return self._unproven(search, f"nothing measured was better than what runs now ({why})", None)
        if best.assessment.worst > MARGINAL:
            worst = max(best.assessment.violations, key=lambda name: best.assessment.violations[name])
            reason = (
                f"no configuration kept the limits; the nearest exceeds {worst} by {share_text(best.assessment.worst)}"
            )
            return self._unproven(search, f"{reason} ({why})", best)
        return self._validate(search, best, default)

    def _validate(self, search: Search, best: Outcome, default: dict[str, Any]) -> StudyResult:
        spec = self._spec
        seconds: dict[str, list[float]] = {DEFAULT: [], WINNER: []}
        runs: list[ReplayResult] = []
        excess: dict[str, float] = {}
        repeats = self._repeats(search)
        design, runs_in_order, about = self._design(best, default, repeats)
        looks = looks_at(spec.finalist_repeats, repeats, design)
        for step, (pair, arm) in enumerate(runs_in_order, 1):
            most = f" ({2 * repeats} where that decides nothing)" if step <= 2 * looks[0] < 2 * repeats else ""
            enough = 2 * looks[0] if most else 2 * repeats
            self._hooks.progress(f"winner against default, measured again{about}: run {step} of {enough}{most}")
            knobs = best.knobs if arm == WINNER else default
            spent_s = self._node.change_s
            measured = self._try(knobs, salt=1 + pair)
            change_s = self._node.change_s - spent_s
            self._report(len(search.outcomes) + step - 1, "finalist", knobs, measured, change_s)
            if measured.assessment.objective_s is None or measured.result is None:
                reason = f"the re-measurement of the {arm} failed: {measured.error or 'nothing was measured'}"
                return self._unproven(search, reason, best)
            seconds[arm].append(measured.assessment.objective_s)
            if arm == WINNER:
                runs.append(measured.result)
                excess |= measured.assessment.violations
            early = step == 2 * looks[0] < len(runs_in_order)
            if early and improvement(seconds[DEFAULT], seconds[WINNER], looks=len(looks)).decided:
                break
        # The limits are judged over all fresh runs together; the quality gate's word stands beside them.
        excess |= violations(together(runs, spec), spec.constraints)
        found = improvement(seconds[DEFAULT], seconds[WINNER], looks=len(looks))
        return self._result(search, best, default, found, excess, seconds, design)

    def _design(self, best: Outcome, default: dict[str, Any], repeats: int) -> tuple[str, list[tuple[int, str]], str]:
        """How the two are measured again: the design, its runs in order, and what to say of its length."""
        run_s, charge_s = self._usual_run_s(), self._node.charge(best.knobs, default)
        limit_s, left_s = cheap_s(run_s), _CAUTION * self._left_s()
        design = design_for(repeats, run_s=run_s, change_s=charge_s, cheap_s=limit_s, left_s=left_s)
        if charge_s <= limit_s:
            return design, order(repeats), ""
        # The arm whose configuration is nearer to what the node runs now begins.
        winner_first = self._node.charge(best.knobs) < self._node.charge(default)
        runs = order(repeats) if design == INTERLEAVED else blocks(repeats, WINNER if winner_first else DEFAULT)
        whole_s = 2 * repeats * run_s + changes_of(design, repeats) * charge_s
        how = "interleaved" if design == INTERLEAVED else "in blocks"
        return design, runs, f" {how}, about {whole_s:.0f} s with {charge_s:.0f} s for each change"

    def _result(
        self,
        search: Search,
        best: Outcome,
        default: dict[str, Any],
        found: Improvement,
        excess: dict[str, float],
        seconds: dict[str, list[float]],
        design: str,
    ) -> StudyResult:
        decided = verdict(found, excess)
        charge_s = self._node.charge(best.knobs, default)
        means = {arm: sum(values) / len(values) for arm, values in seconds.items()}
        return StudyResult(
            verdict=decided,
            winner=best.knobs,
            default=default,
            winner_objective_s=means[WINNER],
            default_objective_s=means[DEFAULT],
            improvement=found.estimate,
            interval=(found.low, found.high),
            repeats=found.repeats,
            design=design,
            change_s=round(charge_s, 3),
            default_revision=self._study.default_revision,
            summary=summary_of(self._spec, decided, best.knobs, default, found, excess, design=design),
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

    # -- time ----------------------------------------------------------------------------------------------------

    def _span_s(self) -> float:
        """How long a replay may last so that all trials and the re-measurement fit into the study's time."""
        runs = self._spec.max_trials + 2 * self._spec.finalist_repeats
        measuring_s = self._spec.max_duration_s - self._allowance_s
        return min(max(measuring_s / runs - OVERHEAD_S, SHORTEST_SPAN_S), LONGEST_SPAN_S)

    def _left_s(self) -> float:
        return self._spec.max_duration_s - (time.monotonic() - self._began)

    def _usual_run_s(self) -> float:
        """A run of another configuration than the default, whose backlog may make its own run far longer."""
        ordered = sorted(self._run_s[1:])
        if ordered:
            return ordered[len(ordered) // 2]
        return min([self._span_s() + OVERHEAD_S, *self._run_s])

    def _repeats(self, search: Search) -> int:
        """The most pairs of the re-measurement: what was asked for, and more where the search left time for them.

        Fixed before the first pair is seen, so that the interval keeps its meaning (`looks_at`).
        """
        wanted = self._spec.finalist_repeats
        changes_s = self._changes_s(search)
        pair_s = (self._reserve_s(search) - changes_s) / wanted
        return max(wanted, min(MOST_TIMES * wanted, int((_CAUTION * self._left_s() - changes_s) / pair_s)))

    def _reserve_s(self, search: Search) -> float:
        """Time for the re-measurement: half its runs are of the default, as slow as trial 0 was; and the changes."""
        slow = self._run_s[0] if self._run_s else self._usual_run_s()
        return self._spec.finalist_repeats * (slow + self._usual_run_s()) + self._changes_s(search)

    def _changes_s(self, search: Search) -> float:
        """What going between the default and the best so far will cost in the re-measurement, at least."""
        best = search.best()
        if best is None or best.knobs == search.default:
            return 0.0
        charge_s = self._node.charge(best.knobs, search.default)
        return BLOCKS_CHANGES * charge_s if charge_s > cheap_s(self._usual_run_s()) else 0.0


def _check(study: Study) -> None:
    """A client sees no stages, so only end-to-end metrics can be an objective or a constraint."""
    for metric, _ in needed_quantiles(study.spec):
        if metric not in METRICS:
            raise BadRequest(f"a replay measures {', '.join(METRICS)} from outside, not {metric!r}", field="objective")


def _short(knobs: dict[str, Any], default: dict[str, Any]) -> str:
    found = difference(knobs, default, unreported=True)
    changed = [f"{name}={value}" for name, value in knobs.items() if name in found]
    return ", ".join(changed) or "as the default"
