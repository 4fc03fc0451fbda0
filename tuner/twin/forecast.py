"""A forecast: the twin fitted to a pool's own telemetry, checked against what was measured, then run as asked.

Guarantee: the error that is told is of requests that its fit did not see; the same task gives the same answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import QUANTIZATION, EngineConfig, parse_config
from controlplane.contract.metrics import TPOT
from controlplane.contract.planning.whatif import (
    ChangeOver,
    ForecastClass,
    Forecasted,
    OtherForecast,
    Scenario,
    TwinTask,
    WhatIf,
)
from tuner.twin.answer.change_over import Way, change_over
from tuner.twin.answer.extrapolation import beyond, untold
from tuner.twin.answer.forecast_error import WANTED, error_of, good_error_of
from tuner.twin.answer.forecast_interval import quantiles_of
from tuner.twin.answer.forecast_text import summary_of
from tuner.twin.answer.good_share import good_requests, share_of
from tuner.twin.costs.cost_range import cost_range
from tuner.twin.costs.nonnegative_fit import Row, fit
from tuner.twin.costs.pace_wander import costs_around, wander
from tuner.twin.costs.step_pause import pause
from tuner.twin.costs.step_terms import NAMES, StepCost, of_piece
from tuner.twin.dealt_traffic import Scale
from tuner.twin.known_pool import Known, drafts_of, known_of, shape_of
from tuner.twin.outside_steps import around
from tuner.twin.pool_run import Pool, PoolRun, Serve, embedded, run_pool
from tuner.workload.rescale import cut

MIDDLE_REQUESTS = 300
"""Of a replica, that the middle of a configuration is forecast of where no intervals are asked for."""
WARM_UP = 0.2
"""Share of the span that fills queues and caches and is not scored: every replica starts empty."""
_HALF = 0.5
"""How much of a step's fixed part more devices split; none of it, or all, for the interval's ends: telemetry does not
tell the reading of weights from launches."""


@dataclass(frozen=True)
class Planner:
    """Whose scheduler plans. draws: resampled fits for the interval, each a run more. pauses: whether what passes
    between two steps is in no step's seconds. prompts_apart: whether the time of prompts is fitted to, too.
    taken_between_steps: whether what a request waits for the step in progress is told as what came before."""

    serve: Serve = embedded
    draws: int = 5
    pauses: bool = True
    prompts_apart: bool = False
    taken_between_steps: bool = False


def forecast(task: TwinTask, planner: Planner = Planner()) -> WhatIf:
    """Raises `NotFound` where there is too little to fit to, `BadRequest` for what the twin knows nothing of."""
    asked = task.asked
    config = _config_of(task, asked.knobs)
    known = known_of(task)
    pool = _pool(known, planner)
    half = run_pool(pool, known.workload, Scale())
    error, measured = error_of(known, half)
    good_error = good_error_of(known, half) if asked.good else None
    windows = known.rows(known.until_s)
    apart = known.prompt_rows(known.until_s) if planner.prompts_apart else []
    last = fit([*windows, *apart], planner.draws if asked.intervals else 0, asked.seed)
    between_s = _pause(known, replace(pool, cost=last.cost), known.until_s) if planner.pauses else 0.0
    far = wander(windows, last.cost)
    costs = [cost.after(between_s) for cost in costs_around(last, far)]
    as_is = [_run(known, pool, cost, Scale(), number) for number, cost in enumerate(costs)]
    told = _Told([*windows, *apart], last.cost, between_s)
    question = _Question(known, pool, costs, told, as_is[0], error, good_error)
    changed, because = question.answered(config)
    answer = WhatIf(
        asked=asked,
        start=task.workload.start,
        end=task.workload.end,
        revision=task.revision,
        forecast_class=_class_of(because),
        because=because,
        as_is=_scenario(pool, as_is, Scale(), known, error, good_error),
        changed=changed,
        change=question.change_over(config),
        others=[_other(question, knobs) for knobs in asked.others],
        measured=measured,
        error=error,
        good_error=good_error,
        fit={
            **dict(zip(NAMES, costs[0].seconds_each, strict=True)),
            "pause": between_s,
            "median_error": last.median_error,
            "wander": far - 1.0,
        },
        summary="",
    )
    return answer.model_copy(update={"summary": summary_of(answer)})


@dataclass(frozen=True)
class _Told:
    """What steps were seen to cost, and what passes between two."""

    rows: Sequence[Row]
    cost: StepCost
    between_s: float

    def ends(self, piece: int) -> tuple[list[StepCost], list[str]]:
        """Costs for which a step with a piece of so many tokens is cheapest and dearest, and why they are to be counted
        with; nothing where what was seen tells them well enough."""
        step = of_piece(piece)
        low, high = cost_range(self.rows, self.cost, step)
        because = untold(piece, low.seconds(step), high.seconds(step))
        return [one.after(self.between_s) for one in (low, high) if because], because


@dataclass(frozen=True)
class _Question:
    """The pool, fitted, whose traffic is served as asked. as_is: one run of it unchanged."""

    known: Known
    pool: Pool
    costs: Sequence[StepCost]
    told: _Told
    as_is: PoolRun
    error: Mapping[str, float]
    good_error: float | None

    def answered(self, config: EngineConfig) -> tuple[Scenario, list[str]]:
        """The pool with this configuration, and in what that goes beyond what was seen."""
        task, known, pool = self.known.task, self.known, self.pool
        asked = task.asked
        scale, devices = Scale(asked.load, asked.prompts, asked.outputs), asked.model_parallel
        changed = self._changed(config)
        ends, untold_because = self.told.ends(known.largest_piece(config)) if config != task.config else ([], [])
        costs = _costs_over([self.costs[0], *ends, *self.costs[1:]], devices)
        runs = [_run(known, changed, cost, scale, number, devices) for number, cost in enumerate(costs)]
        because = [*beyond(task, config, self.as_is, runs[0], pool.drafts), *untold_because]
        if known.kv_blocks is None:
            because += ["its KV cache was next to empty, so that its size is not known: it is taken as ample"]
        return _scenario(changed, runs, scale, known, self.error, self.good_error), because

    def middle(self, config: EngineConfig) -> tuple[dict[str, Forecasted], list[str]]:
        """By one run of the span's first requests, and in what that goes beyond what was seen."""
        task, known, pool = self.known.task, self.known, self._changed(config)
        asked = task.asked
        few = replace(known, workload=cut(known.workload, 0, MIDDLE_REQUESTS * pool.replicas))
        scale = Scale(asked.load, asked.prompts, asked.outputs)
        run = _run(few, pool, _costs_over(self.costs, asked.model_parallel)[0], scale, 0, asked.model_parallel)
        _, untold_because = self.told.ends(known.largest_piece(config))
        because = [*beyond(task, config, self.as_is, run, self.pool.drafts), *untold_because]
        return quantiles_of([run], WANTED, self.error, WARM_UP * float(run.at_s[-1])), because

    def change_over(self, config: EngineConfig) -> ChangeOver | None:
        """By the pool's own costs, and the slow and the quick pace."""
        task, known, asked = self.known.task, self.known, self.known.task.asked
        scale, devices = Scale(asked.load, asked.prompts, asked.outputs), asked.model_parallel
        few = [self.costs[0], *self.costs[-2:]]
        way = Way(
            now=[_sized(known, self.pool, cost, scale) for cost in few],
            then=[_sized(known, self._changed(config), cost, scale, devices) for cost in _costs_over(few, devices)[:3]],
            workload=known.workload,
            scale=scale,
            since_s=_scored_since_s(known, scale),
            until_s=known.until_s / scale.load,
            error=self.error,
            seed=asked.seed,
        )
        return change_over(way, task.change_class, task.change_s, WANTED)

    def _changed(self, config: EngineConfig) -> Pool:
        return replace(self.pool, config=config, replicas=self.known.task.asked.replicas or self.pool.replicas)


def _other(question: _Question, knobs: Mapping[str, Any]) -> OtherForecast:
    try:
        config = _config_of(question.known.task, knobs)
    except BadRequest as error:
        return OtherForecast(knobs=dict(knobs), refused=error.message)
    if question.known.task.asked.intervals:
        told, because = question.answered(config)
        quantiles = told.quantiles
    else:
        quantiles, because = question.middle(config)
    return OtherForecast(knobs=dict(knobs), forecast_class=_class_of(because), because=because, quantiles=quantiles)


def _class_of(because: Sequence[str]) -> ForecastClass:
    return ForecastClass.EXTRAPOLATED if because else ForecastClass.CALIBRATED


def _config_of(task: TwinTask, knobs: Mapping[str, Any]) -> EngineConfig:
    wanted = parse_config(knobs, base=task.config, prefix="knobs.")
    if wanted.quantization is not task.config.quantization:
        raise BadRequest(
            f"knobs.{QUANTIZATION}: the twin knows the steps of {task.config.quantization.value} alone; what "
            f"{wanted.quantization.value} costs, and what it does to answers, a study on a trial node measures",
            field=f"knobs.{QUANTIZATION}",
        )
    return wanted


def _pool(known: Known, planner: Planner) -> Pool:
    """The pool as it is, fitted to the first half."""
    task, half_s = known.task, known.half_s
    apart = known.prompt_rows(half_s) if planner.prompts_apart else []
    pool = Pool(
        shape_of(known, 1.0, 1.0),
        task.config,
        fit([*known.rows(half_s), *apart], 0, known.task.asked.seed).cost,
        replicas=max(1, task.workload.nodes),
        drafts=drafts_of(known),
        around=around(known.records, taken_between_steps=planner.taken_between_steps),
        serve=planner.serve,
    )
    return replace(pool, cost=pool.cost.after(_pause(known, pool, half_s))) if planner.pauses else pool


def _pause(known: Known, pool: Pool, until_s: float) -> float:
    """What passes between two steps, by the median time per output token. until_s: of requests that came before."""
    seen = [
        one.parts[TPOT.short]
        for one in known.records
        if TPOT.short in one.parts and one.output_tokens > 1 and known.at_s(one) < until_s
    ]
    if not seen:
        return 0.0

    def told_s(between_s: float) -> float | None:
        run = run_pool(replace(pool, cost=pool.cost.after(between_s)), known.workload, Scale())
        values = run.values[TPOT.short][run.at_s < until_s]
        values = values[~np.isnan(values)]
        return float(np.median(values)) if values.size else None

    return pause(told_s, median(seen))


def _costs_over(costs: Sequence[StepCost], devices: int) -> list[StepCost]:
    """Of a model over so many times as many devices. costs: as of `costs_around`, the slow and the quick pace last."""
    if devices == 1:
        return list(costs)
    return [*(cost.over(devices, _HALF) for cost in costs), costs[-2].over(devices, 0.0), costs[-1].over(devices, 1.0)]


def _run(known: Known, pool: Pool, cost: StepCost, scale: Scale, seed: int, devices: int = 1) -> PoolRun:
    return run_pool(_sized(known, pool, cost, scale, devices), known.workload, scale, known.task.asked.seed + seed)


def _sized(known: Known, pool: Pool, cost: StepCost, scale: Scale, devices: int = 1) -> Pool:
    """devices: over which each replica's cache lies, in times as many as now."""
    shape = shape_of(known, scale.prompts, scale.outputs)
    return replace(pool, cost=cost, shape=replace(shape, num_blocks=shape.num_blocks * devices))


def _scored_since_s(known: Known, scale: Scale) -> float:
    return WARM_UP * known.until_s / scale.load


def _scenario(
    pool: Pool,
    runs: Sequence[PoolRun],
    scale: Scale,
    known: Known,
    error: Mapping[str, float],
    good_error: float | None,
) -> Scenario:
    since_s = _scored_since_s(known, scale)
    first, requests = runs[0], known.workload.requests
    scored = first.at_s >= since_s
    good = None
    if good_error is not None:
        shares = [
            share_of({name: values[scored] for name, values in run.values.items()}, known.task.asked.good)
            for run in runs
        ]
        span_s = max(float(first.at_s[-1]) - since_s, 1e-9)
        good = good_requests(shares, good_error, int(scored.sum()) / span_s)
    tokens = sum(one.output_length for one in requests) * scale.outputs
    return Scenario(
        knobs=pool.config.knobs(),
        replicas=pool.replicas,
        requests=int(scored.sum()) - first.refused,
        refused=first.refused,
        busy=first.busy,
        cached=first.cached,
        quantiles=quantiles_of(runs, WANTED, error, since_s),
        good=good,
        node_hours_per_million=pool.replicas * float(first.at_s[-1]) / 3600 * 1e6 / tokens if tokens else None,
    )
