"""A forecast: the twin fitted to a pool's own telemetry, checked against what was measured, then run as asked.

Guarantee: the error that is told is of requests that its fit did not see; the same task gives the same answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

import numpy as np

from controlplane.contract.bodies.workload import RequestRecord, Workload
from controlplane.contract.errors import BadRequest, NotFound
from controlplane.contract.knobs import QUANTIZATION, EngineConfig, parse_config
from controlplane.contract.metrics import E2E, PREFILL, QUEUE, TPOT, TTFT
from controlplane.contract.planning.whatif import (
    ChangeOver,
    ForecastClass,
    Forecasted,
    OtherForecast,
    Scenario,
    StepWindow,
    TwinTask,
    WhatIf,
)
from tuner.twin.assumed_drafts import Drafts
from tuner.twin.change_over import Way, change_over
from tuner.twin.costs.nonnegative_fit import Row, fit
from tuner.twin.costs.pace_wander import costs_around, wander
from tuner.twin.costs.prompt_spans import prompt_rows
from tuner.twin.costs.step_pause import pause
from tuner.twin.costs.step_terms import NAMES, StepCost
from tuner.twin.costs.telemetry_fit import kv_tokens, rows
from tuner.twin.dealt_traffic import Scale
from tuner.twin.extrapolation import beyond
from tuner.twin.forecast_interval import interval, of_metric
from tuner.twin.forecast_text import summary_of
from tuner.twin.outside_steps import around
from tuner.twin.pool_run import Pool, PoolRun, Serve, embedded, run_pool
from tuner.twin.seen_hits import with_seen_hits
from tuner.twin.simulated_engine import EngineShape
from tuner.workload.rescale import cut

WANTED: Sequence[tuple[str, float]] = [
    *((TTFT.short, q) for q in (0.5, 0.95, 0.99)),
    *((metric.short, q) for metric in (TPOT, E2E) for q in (0.5, 0.95)),
]
FEWEST_REQUESTS, FEWEST_WINDOWS = 30, 8
WARM_UP = 0.2
"""Share of the span that fills queues and caches and is not scored: every replica starts empty."""
_AMPLE_BLOCKS = 4
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


def key(metric: str, q: float) -> str:
    """The contract's name of a quantile: "ttft:0.95"."""
    return f"{metric}:{q:g}"


@dataclass(frozen=True)
class Known:
    """What telemetry tells of the pool. Seconds since `begin`, its first request; longest_s: all but one request in a
    hundred last no longer; half_s: half of the requests came before; until_s: what began later may still run."""

    task: TwinTask
    workload: Workload
    begin: datetime
    records: Sequence[RequestRecord]
    longest_s: float
    half_s: float
    until_s: float
    kv_blocks: int | None

    def at_s(self, record: RequestRecord) -> float:
        return (record.arrival - self.begin).total_seconds()

    def rows(self, to_s: float) -> list[Row]:
        """Of the windows that end by then, in their order."""
        found = rows(self.records, self._windows(to_s), self.task.config.max_num_batched_tokens)
        if len(found) < FEWEST_WINDOWS:
            raise NotFound(
                f"pool {self.task.asked.pool}: {len(found)} windows with steps in the part of the span that the twin "
                f"is fitted to, of {FEWEST_WINDOWS} or more: ask for a longer window_s, or wait for traffic",
                field="window_s",
            )
        return found

    def prompt_rows(self, to_s: float) -> list[Row]:
        """Of the time of prompts in the same windows."""
        return prompt_rows(self.records, self._windows(to_s), self.task.config.max_num_batched_tokens)

    def _windows(self, to_s: float) -> list[StepWindow]:
        """In the first ones requests still ran that came before the span, and are not known: they are left out, as far
        as enough others are there."""
        begin_s = self.begin.timestamp()
        since_s = begin_s + min(self.longest_s, self.half_s / 4)
        chosen = [one for one in self.task.windows if since_s <= one.start_s <= begin_s + to_s - one.width_s]
        return sorted(chosen, key=lambda one: one.start_s)


def forecast(task: TwinTask, planner: Planner = Planner()) -> WhatIf:
    """Raises `NotFound` where there is too little to fit to, `BadRequest` for what the twin knows nothing of."""
    asked = task.asked
    config = _config_of(task, asked.knobs)
    known = _known(task)
    pool = _pool(known, planner)
    error, measured = _error(known, pool)
    windows = known.rows(known.until_s)
    apart = known.prompt_rows(known.until_s) if planner.prompts_apart else []
    last = fit([*windows, *apart], planner.draws, asked.seed)
    between_s = _pause(known, replace(pool, cost=last.cost), known.until_s) if planner.pauses else 0.0
    far = wander(windows, last.cost)
    costs = [cost.after(between_s) for cost in costs_around(last, far)]
    as_is = [_run(known, pool, cost, Scale(), number) for number, cost in enumerate(costs)]
    question = _Question(known, pool, costs, as_is[0], error)
    changed, because = question.answered(config)
    answer = WhatIf(
        asked=asked,
        start=task.workload.start,
        end=task.workload.end,
        revision=task.revision,
        forecast_class=_class_of(because),
        because=because,
        as_is=_scenario(pool, as_is, Scale(), known, error),
        changed=changed,
        change=question.change_over(config),
        others=[_other(question, knobs) for knobs in asked.others],
        measured=measured,
        error=error,
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
class _Question:
    """The pool, fitted, whose traffic is served as asked. as_is: one run of it unchanged."""

    known: Known
    pool: Pool
    costs: Sequence[StepCost]
    as_is: PoolRun
    error: Mapping[str, float]

    def answered(self, config: EngineConfig) -> tuple[Scenario, list[str]]:
        """The pool with this configuration, and in what that goes beyond what was seen."""
        task, known, pool = self.known.task, self.known, self.pool
        asked = task.asked
        scale, devices = Scale(asked.load, asked.prompts, asked.outputs), asked.model_parallel
        changed = self._changed(config)
        costs = _costs_over(self.costs, devices)
        runs = [_run(known, changed, cost, scale, number, devices) for number, cost in enumerate(costs)]
        because = beyond(task, config, self.as_is, runs[0], drafts_known=bool(pool.drafts.kept))
        if known.kv_blocks is None:
            because += ["its KV cache was next to empty, so that its size is not known: it is taken as ample"]
        return _scenario(changed, runs, scale, known, self.error), because

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
            since_s=WARM_UP * known.until_s / scale.load,
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
    told, because = question.answered(config)
    return OtherForecast(
        knobs=dict(knobs), forecast_class=_class_of(because), because=because, quantiles=told.quantiles
    )


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


def _known(task: TwinTask) -> Known:
    records = sorted(
        (
            one
            for one in task.records
            if one.output_tokens and {QUEUE.short, PREFILL.short, E2E.short} <= one.parts.keys()
        ),
        key=lambda one: one.arrival,
    )
    if len(records) < FEWEST_REQUESTS:
        raise NotFound(
            f"pool {task.asked.pool}: {len(records)} finished requests in the last {task.asked.window_s:g} s; the twin "
            f"wants {FEWEST_REQUESTS} or more: ask for a longer window_s, or wait for traffic",
            field="window_s",
        )
    workload = cut(with_seen_hits(task.workload, records), 0, len(task.workload.requests))
    begin = task.workload.start + timedelta(milliseconds=task.workload.requests[0].timestamp)
    whole_s = (task.workload.end - begin).total_seconds()
    longest_s = float(np.quantile([one.parts[E2E.short] for one in records], 0.99))
    half_s = (records[len(records) // 2].arrival - begin).total_seconds()
    held = kv_tokens(records, task.windows)
    blocks = None if held is None else max(1, round(held / task.workload.block_size))
    return Known(task, workload, begin, records, longest_s, half_s, max(half_s, whole_s - longest_s), blocks)


def _pool(known: Known, planner: Planner) -> Pool:
    """The pool as it is, fitted to the first half."""
    task, half_s = known.task, known.half_s
    apart = known.prompt_rows(half_s) if planner.prompts_apart else []
    pool = Pool(
        _shape(known, 1.0, 1.0),
        task.config,
        fit([*known.rows(half_s), *apart], 0, known.task.asked.seed).cost,
        replicas=max(1, task.workload.nodes),
        drafts=_drafts(known),
        around=around(known.records, taken_between_steps=planner.taken_between_steps),
        serve=planner.serve,
    )
    return replace(pool, cost=pool.cost.after(_pause(known, pool, half_s))) if planner.pauses else pool


def _drafts(known: Known) -> Drafts:
    windows, config = known.task.windows, known.task.config
    return Drafts.seen(
        sum(window.drafted for window in windows),
        sum(window.accepted for window in windows),
        sum(max(0, one.output_tokens - 1) for one in known.records),
        config.draft_length(1),
    )


def _shape(known: Known, prompts: float, outputs: float) -> EngineShape:
    """An unknown KV cache is taken as ample; a known one holds the largest request at least, for it was served."""
    size = known.task.workload.block_size
    largest = max(one.input_length * prompts + one.output_length * outputs for one in known.workload.requests)
    one = int(largest // size) + 2
    blocks = known.kv_blocks
    if blocks is None:
        blocks = min(1_000_000, _AMPLE_BLOCKS * one * known.task.config.max_num_seqs)
    return EngineShape(max(blocks, one), size)


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


def _error(known: Known, pool: Pool) -> tuple[dict[str, float], dict[str, float]]:
    """Forecast / measured - 1 of what came in the second half, and what was measured of it."""
    half_s = known.half_s
    run = run_pool(pool, known.workload, Scale())
    late = (run.at_s >= half_s) & (run.at_s < known.until_s)
    measured, error = {}, {}
    for metric, q in WANTED:
        real = [
            one.parts[metric]
            for one in known.records
            if half_s <= known.at_s(one) < known.until_s
            and metric in one.parts
            and (metric != TPOT.short or one.output_tokens > 1)
        ]
        twin = run.values[metric][late]
        twin = twin[~np.isnan(twin)]
        if real and twin.size and (value := float(np.quantile(real, q))) > 0.0:
            measured[key(metric, q)] = value
            error[key(metric, q)] = float(np.quantile(twin, q)) / value - 1.0
    return error, measured


def _costs_over(costs: Sequence[StepCost], devices: int) -> list[StepCost]:
    """Of a model over so many times as many devices. costs: as of `costs_around`, the slow and the quick pace last."""
    if devices == 1:
        return list(costs)
    return [*(cost.over(devices, _HALF) for cost in costs), costs[-2].over(devices, 0.0), costs[-1].over(devices, 1.0)]


def _run(known: Known, pool: Pool, cost: StepCost, scale: Scale, seed: int, devices: int = 1) -> PoolRun:
    return run_pool(_sized(known, pool, cost, scale, devices), known.workload, scale, known.task.asked.seed + seed)


def _sized(known: Known, pool: Pool, cost: StepCost, scale: Scale, devices: int = 1) -> Pool:
    """devices: over which each replica's cache lies, in times as many as now."""
    shape = _shape(known, scale.prompts, scale.outputs)
    return replace(pool, cost=cost, shape=replace(shape, num_blocks=shape.num_blocks * devices))


def _scenario(pool: Pool, runs: Sequence[PoolRun], scale: Scale, known: Known, error: Mapping[str, float]) -> Scenario:
    since_s = WARM_UP * known.until_s / scale.load
    quantiles = {}
    for metric, q in WANTED:
        values = [value for run in runs if (value := run.quantile(metric, q, since_s)) is not None]
        if values:
            low, middle, high = interval(values, of_metric(error, metric))
            quantiles[key(metric, q)] = Forecasted(value_s=middle, low_s=low, high_s=high)
    first = runs[0]
    return Scenario(
        knobs=pool.config.knobs(),
        replicas=pool.replicas,
        requests=int((first.at_s >= since_s).sum()) - first.refused,
        refused=first.refused,
        busy=first.busy,
        cached=first.cached,
        quantiles=quantiles,
    )
