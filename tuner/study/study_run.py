"""One study, from the captured workload to its result. The worker around it claims, reports and proposes.

Guarantee: the default is measured as trial 0 under the same conditions as every other trial; the winner's figures
come from fresh runs, never from the ones it was chosen by; a study that another worker began goes on where that one
was: with its traffic, its trials, its heats and its pairs.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import httpx

from controlplane.client import Client
from controlplane.contract.bodies.nodes import NodeView, TrialConfig
from controlplane.contract.bodies.studies import (
    FINALIST,
    Evaluation,
    RandomSearch,
    Study,
    StudyResult,
    StudyVerdict,
    Trial,
    TwinBeside,
)
from controlplane.contract.engine_address import Network
from controlplane.contract.errors import BadSettings, Conflict, NotFound, TailwrightError
from controlplane.contract.knobs import QUANTIZATION, Quantization, canonical_json
from controlplane.contract.planning.cost_text import costs_text
from controlplane.contract.planning.draft_acceptance import DraftAcceptance
from controlplane.contract.planning.trial_leases import NodeWanted, StudyPlan
from controlplane.contract.share_text import share_text
from tuner.capacity.carried_load import over_runs
from tuner.evaluation.evaluation_command import Evaluations
from tuner.replay.replay import Stopped, key
from tuner.search import quality_gate
from tuner.search.charge import allowance_s, dear_s
from tuner.search.forecasts import Forecasts
from tuner.search.kept_trials import KeptTrials
from tuner.search.objective import ERRORS
from tuner.search.search import Outcome, Search
from tuner.search.space import Space, build_space, held_whole, with_starts
from tuner.search.space_told import space_told
from tuner.study.evaluation_pair import evaluated
from tuner.study.finish import Begun, Finish, Finished, NotMeasured, finalists_of, near_limits
from tuner.study.further_findings import cost_alone, costs_by_pairs, front_of
from tuner.study.measuring import Measuring
from tuner.study.remeasure import DEFAULT, WINNER
from tuner.study.renewals import HEARTBEAT_S, NodeHold, either, tried_again
from tuner.study.study_plan import engine_of, slices_of
from tuner.study.study_planning import (
    IN_PRODUCTION,
    acceptance_of_runs,
    drafts_of,
    study_planned,
    with_forecasts,
)
from tuner.study.study_text import carries_text, nothing_kept, summary_of, upper_first
from tuner.study.time_plan import TimePlan
from tuner.study.trial_log import TrialLog
from tuner.study.trial_node import TrialNode, find_trial_nodes
from tuner.study.trial_run import Bench
from tuner.twin.studies.twin_beside import held_against, question_of
from tuner.workload.corpus import engine_tokenizer, read_tokens
from tuner.workload.own_prompts import OwnPrompts, own_prompts
from tuner.workload.wanted_traffic import wanted_traffic

logger = logging.getLogger(__name__)
T = TypeVar("T")

CORPUS_TOKENS = 60_000
SETTLE = timedelta(seconds=2)
"""The newest requests may still be on their way from agents to the service."""
NODE_POLL_S = 2.0
"""How often a trial node is asked for while others hold all."""


@dataclass
class Hooks:
    """What the worker is told as a study goes on, and its name. `stop` ends it at the next wait. `networks`: where
    engines may be. `storage`: the URL of Optuna's. `evaluations`: the commands that a study may name.
    """

    worker: str
    progress: Callable[[str], None]
    started: Callable[[str, dict[str, Any]], None]
    stop: threading.Event = field(default_factory=threading.Event)
    networks: Sequence[Network] = ()
    storage: str | None = None
    heartbeat_s: float = HEARTBEAT_S
    evaluations: Evaluations = field(default_factory=Evaluations)


class StudyRun:
    """One worker's part in a study: all that it still wants, or (`help`) some of its trials."""

    def __init__(self, client: Client, study: Study, hooks: Hooks) -> None:
        self._client, self._study, self._hooks = client, study, hooks
        self._spec = study.spec
        self._time = TimePlan(study.spec, before_s=study.active_s)

    def run(self) -> StudyResult:
        """Capture, search, re-measure. Raises what made the study impossible; Stopped when it was cancelled."""
        spec, claimed_at = self._spec, self._study.started_at
        assert claimed_at is not None
        newest = claimed_at - SETTLE  # By the service's clock: this worker's may be wrong.
        if spec.evaluation:  # Not after hours of trials.
            self._hooks.evaluations.named(spec.evaluation, self._hooks.worker)
        default = self._default()
        plan = self._kept_plan()
        look = partial(self._found, plan)
        views = look()
        traffic = None if plan else wanted_traffic(self._client, spec, end=newest)
        with self._held_node(views, default, look) as (node, hold, view):
            searched = {*spec.space, *(name for knobs in spec.suggested for name in knobs)}
            default = with_starts(default, searched, node.capabilities().declared)
            allowed_s = allowance_s(spec, view, default)
            self._time = TimePlan(spec, allowed_s, self._study.active_s)  # From now: the wait for a node is no part.
            if traffic is not None:
                planned = partial(study_planned, self._client, self._study, span_s=self._time.span_s, end=newest)
                wanted = planned(traffic(node.max_total()), default, engine_of(view), max_total=node.max_total())
                self._hooks.progress("asking the twin where to begin")
                wanted = with_forecasts(self._client, self._study, wanted, self._space(node, wanted))
                plan = self._asked(partial(self._client.keep_study_plan, self._study.id, self._hooks.worker, wanted))
            assert plan is not None
            told = {**plan.seen, "fresh_slice": plan.fresh, "engine": plan.engine}
            told["remembered_of"] = [one.study_id for one in plan.remembered]
            told["space"] = self._space_told(node, plan)
            self._hooks.started(node.name, {**told, "default_revision": self._study.default_revision})
            measuring, search, log = self._prepared(node, hold, plan)
            if dealt := measuring.bench.described():
                told["prompts"] |= dealt
                self._hooks.started(node.name, {**told, "default_revision": self._study.default_revision})
            self._node, self._serving, self._backend = node, plan.serving, str(plan.engine.get("backend", ""))
            self._in_production, self._default_drafts = plan.seen.get(IN_PRODUCTION), drafts_of(plan.default)
            self._tokens_per_s = plan.seen.get("captured", {}).get("output_tokens_per_s")
            return self._conclude(measuring, search, log, measuring.search(search))

    def help(self) -> bool:
        """Measure trials of a study that is another worker's while it wants some; whether it wants no more. Raises
        Stopped when every node is held.
        """
        plan = self._kept_plan()
        if plan is None:
            return False
        if any(trial.kind == FINALIST for trial in self._client.trials(self._study.id)):
            return True
        pools = {self._spec.pool, f"{self._spec.pool}-trial"}
        nodes = find_trial_nodes(self._client.nodes(), self._spec.pool)
        views = [view for view in nodes if view.pool in pools and engine_of(view) == plan.engine]
        if not views:
            return False
        with self._held_node(views, plan.default) as (node, hold, _):
            measuring, search, _ = self._prepared(node, hold, plan, own=False)
            why = measuring.search(search)
            logger.info("study %d: helped on %s until %s", self._study.id, node.name, why)
            return True

    def _asked(self, act: Callable[[], T]) -> T:
        return tried_again(act, self._hooks.stop)

    def _kept_plan(self) -> StudyPlan | None:
        try:
            return self._asked(partial(self._client.study_plan, self._study.id))
        except NotFound:
            return None

    def _found(self, plan: StudyPlan | None) -> list[NodeView]:
        """The trial nodes of now that fit, at least one. Raises NotFound."""
        return self._fitting(find_trial_nodes(self._client.nodes(), self._spec.pool), plan)

    def _fitting(self, views: Sequence[NodeView], plan: StudyPlan | None) -> list[NodeView]:
        """Nodes whose figures can be compared with what was measured before. Raises NotFound without one."""
        if plan is None:
            return list(views)
        found = [view for view in views if engine_of(view) == plan.engine]
        if not found:
            names = ", ".join(view.node for view in views)
            raise NotFound(
                f"no trial node like the one that the study began on: {names} run another engine or model than "
                f"{plan.engine}. Ask for the study again.",
                field="trial_node",
            )
        return found

    @contextmanager
    def _held_node(
        self, views: Sequence[NodeView], default: dict[str, Any], look: Callable[[], Sequence[NodeView]] | None = None
    ) -> Iterator[tuple[TrialNode, NodeHold, NodeView]]:
        """The first of these that nobody else holds, put back and given back afterwards. `look`: which there are by
        then, while all are held; None: it does not wait for one."""
        view, hold = self._taken(views, look)
        try:
            with hold:
                stop = either(self._hooks.stop, hold.lost)
                node = TrialNode(self._client, view, stop=stop, networks=self._hooks.networks)
                try:
                    yield node, hold, view
                finally:
                    node.close()
                    if node.change_s > 0 and not hold.ended_by_service:
                        self._put_back(view.node, default)
        finally:
            hold.release()

    def _taken(
        self, views: Sequence[NodeView], look: Callable[[], Sequence[NodeView]] | None
    ) -> tuple[NodeView, NodeHold]:
        while True:
            held: list[str] = []
            for view in views:
                wanted = NodeWanted(worker=self._hooks.worker, node=view.node)
                try:
                    lease = self._asked(partial(self._client.take_trial_node, self._study.id, wanted))
                except Conflict as error:
                    if error.detail.get("field") != "node":
                        raise Stopped(error.message) from error
                    held.append(error.message.removeprefix("node: "))
                    continue
                return view, NodeHold(self._client, lease, every_s=self._hooks.heartbeat_s)
            if look is None:
                raise Stopped("every trial node is held")
            self._hooks.progress(f"waits for a trial node: {'; '.join(held)}")
            if self._hooks.stop.wait(NODE_POLL_S):
                raise Stopped("the study was stopped")
            with suppress(NotFound):  # Those that are held have gone for a while: it still waits for them.
                views = self._asked(look)

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

    def _space_told(self, node: TrialNode, plan: StudyPlan) -> dict[str, Any]:
        able, spec, space = node.capabilities(), self._spec, self._space(node, plan)
        told = space_told(space, spec.space, plan.default, able, spec.suggested)
        return {**told, "forecasts": len(plan.forecasts), "why_no_forecasts": plan.why_no_forecasts}

    def _space(self, node: TrialNode, plan: StudyPlan) -> Space:
        return build_space(self._spec.space, plan.default, node.capabilities(), self._spec.suggested)

    def _prepared(
        self, node: TrialNode, hold: NodeHold, plan: StudyPlan, *, own: bool = True
    ) -> tuple[Measuring, Search, TrialLog]:
        """What measures, what proposes, and what was measured."""
        spec, default = self._spec, plan.default
        stop = either(self._hooks.stop, hold.lost)
        log = TrialLog(self._client, self._study.id, hold, stop)
        self._hooks.progress("tokenising the replay's text")
        tokenize = engine_tokenizer(node.url, model=node.model)
        able, space = node.capabilities(), self._space(node, plan)
        gated = QUANTIZATION in space.values or default[QUANTIZATION] != Quantization.NONE.value
        seen, fresh = slices_of(plan)
        asked = quality_gate.TOKENS if gated else 0
        text = OwnPrompts((), ())
        if spec.prompts:
            requests, about = len(seen.workload.requests) + len(fresh.workload.requests), plan.seen.get("prompts", {})
            text = own_prompts(self._client, spec, about, tokenize, requests=requests, quality=asked)
        bench = Bench(
            node,
            spec,
            seen,
            fresh,
            read_tokens(tokenize, CORPUS_TOKENS),
            held_out=text.held_out or (read_tokens(tokenize, asked, held_out=True) if gated else ()),
            own=text.replayed,
        )
        search = Search(
            space,
            default,
            constraints=[*(key(limit.metric, limit.q) for limit in spec.held), ERRORS, *quality_gate.GATES],
            seed=spec.seed,
            max_trials=spec.max_trials,
            suggested=held_whole(space, default, spec.suggested, able.declared),
            remembered=[one.knobs for one in plan.remembered],
            kept=self._kept(space) if own else None,
            also=[one.name for one in spec.also],
            also_tolerance=spec.also_tolerance,
            forecasts=Forecasts(space, plan.forecasts) if plan.forecasts else None,
            objective=spec.objectives[0].name,
        )
        measuring = Measuring(spec, bench, log, self._time, stop=stop, progress=self._hooks.progress, own=own)
        return measuring, search, log

    # -- conclusion ----------------------------------------------------------------------------------------------

    def _conclude(self, measuring: Measuring, search: Search, log: TrialLog, why: str) -> StudyResult:
        best, default = search.best(), search.default
        self._twin = self._forecasts(log.search)
        self._carried = {
            trial.number: trial.measurement.carried for trial in log.search if trial.measurement is not None
        }
        if log.default is None or log.default.objective_s is None:
            return self._unproven(search, log, why, None)
        if none := nothing_kept(self._spec, log.search):
            mend = "looser limits, or lighter traffic, would tell them apart"
            return self._unproven(search, log, f"{none} ({why}); {mend}", None)
        finalists = finalists_of(search, self._spec.finalists)
        if not finalists:
            return self._unproven(search, log, f"nothing measured was better than what runs now ({why})", None)
        near = near_limits(finalists)
        if not near:
            nearest = min(finalists, key=lambda one: one.assessment.worst).assessment
            worst = max(nearest.violations, key=lambda name: nearest.violations[name])
            reason = f"no configuration kept the limits; the nearest exceeds {worst} by {share_text(nearest.worst)}"
            return self._unproven(search, log, f"{reason} ({why})", best)
        finish = Finish(
            self._spec,
            self._node,
            self._time,
            measuring.again,
            self._hooks.progress,
            known=measuring.known,
            begun=Begun.of(log.trials),
        )
        try:
            return self._result(search, finish.decide(near, default), default, log)
        except NotMeasured as error:
            return self._unproven(search, log, str(error), best)

    def _random(self, search: Search, log: TrialLog, winner: Mapping[str, Any] | None = None) -> RandomSearch | None:
        """What random search would have found in the time that the search's runs and dear changes took."""
        run_s = self._time.usual_s
        found = search.random_rival(
            spent_s=sum((trial.took_s or 0.0) + dear_s(trial.change_s or 0.0, run_s) for trial in log.search),
            run_s=run_s,
            change_s=lambda before, after: dear_s(self._node.charge(after, before), run_s),
            winner=winner,
        )
        if found is None:
            return None
        rounded = {name: round(getattr(found, name), 4) for name in ("improvement", "low", "high")}
        return RandomSearch(trials=found.trials, own=None if found.own is None else round(found.own, 4), **rounded)

    def _result(self, search: Search, finished: Finished, default: dict[str, Any], log: TrialLog) -> StudyResult:
        race, winner = finished.race, finished.winner.knobs
        found, unsure = race.found, race.unsure
        evaluation = self._evaluated(winner, default) if finished.is_better else None
        decided = finished.verdict(evaluation)
        own = (trial.quality for trial in log.trials if canonical_json(trial.knobs) == canonical_json(winner))
        quality = next(filter(None, own), {})
        means = {arm: sum(values) / len(values) for arm, values in race.objective.items()}
        carries = over_runs(race.loads[WINNER], self._spec.load), over_runs(race.loads[DEFAULT], self._spec.load)
        also = race.also_found
        costs = costs_by_pairs(self._spec, race, *carries, self._tokens_per_s)
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
            winner_carries=carries[0],
            default_carries=carries[1],
            costs=costs,
            also=also,
            front=front_of(self._spec, search),
            improvement=found.estimate,
            interval=(found.low, found.high) if found.low > -math.inf else None,
            repeats=found.repeats,
            design=race.design,
            change_s=round(self._node.charge(winner, default), 3),
            payback_s=payback_s,
            acceptance=self._acceptance(log),
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
                carries=carries,
                quality=quality,
                evaluation=evaluation,
                also=also,
                costs=costs,
            ),
            quality=quality,
            evaluation=evaluation,
            random_search=self._random(search, log, winner),
            importances=search.importances(),
            twin=self._twin,
        )

    def _forecasts(self, trials: Sequence[Trial]) -> list[TwinBeside]:
        """The twin's of these runs, beside what was measured; a twin that cannot tell costs the study nothing."""
        asked = question_of(self._study, trials, self._backend)
        if asked is None:
            return []
        self._hooks.progress("the twin forecasts what was measured")
        try:
            return held_against(self._spec, trials, self._client.what_if(asked).others)
        except (TailwrightError, httpx.HTTPError) as error:
            logger.info("study %d: no forecasts beside its runs: %s", self._study.id, error)
            return []

    def _acceptance(self, log: TrialLog) -> DraftAcceptance | None:
        return acceptance_of_runs(self._in_production, log.trials, self._default_drafts)

    def _evaluated(self, winner: dict[str, Any], default: dict[str, Any]) -> Evaluation | None:
        """By the study's own command; None where it names none."""
        spec, hooks = self._spec, self._hooks
        if not spec.evaluation:
            return None
        return evaluated(
            spec,
            self._node,
            {WINNER: winner, DEFAULT: default},
            hooks.evaluations.named(spec.evaluation, hooks.worker),
            timeout_s=hooks.evaluations.timeout_s,
            stop=self._node.stop,
            progress=hooks.progress,
        )

    def _unproven(self, search: Search, log: TrialLog, reason: str, best: Outcome | None) -> StudyResult:
        measured = search.outcomes[0].assessment.objective_s
        carried = self._carried.get(search.outcomes[0].number)
        told = "" if carried is None else f" {upper_first(carries_text(self._spec, None, carried))}."
        costs = cost_alone(self._spec, carried, self._tokens_per_s)
        if costs is not None:
            told += f" {upper_first(costs_text(costs, self._spec))}."
        return StudyResult(
            verdict=StudyVerdict.NOT_BETTER,
            winner=None if best is None else best.knobs,
            default=search.default,
            winner_objective_s=None if best is None else best.assessment.objective_s,
            default_objective_s=measured,
            winner_carries=None if best is None else self._carried.get(best.number),
            default_carries=carried,
            costs=costs,
            front=front_of(self._spec, search),
            acceptance=self._acceptance(log),
            default_revision=self._study.default_revision,
            summary=f"Keep what runs now: {reason}.{told}",
            random_search=None if measured is None else self._random(search, log),
            importances=search.importances(),
            twin=self._twin,
        )

    def _kept(self, space: Space) -> KeptTrials | None:
        """Where Optuna finds this study's trials; without it the study goes on."""
        if self._hooks.storage is None:
            return None
        study = self._study
        try:
            name = f"study {study.id} of pool {study.spec.pool}, {study.created_at:%Y-%m-%d %H:%M:%S}"
            return KeptTrials(self._hooks.storage, name, space, [one.name for one in study.spec.objectives])
        except BadSettings as error:
            logger.warning("study %d: its trials are not in Optuna's storage: %s", study.id, error.message)
            return None

    def _put_back(self, node: str, default: dict[str, Any]) -> None:
        """Leave the trial node as the pool is."""
        try:
            self._client.set_trial_config(node, TrialConfig(knobs=default))
        except (TailwrightError, httpx.HTTPError) as error:
            logger.warning("trial node %s was not put back: %r", node, error)
