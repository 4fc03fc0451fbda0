"""The real embedded engine over a clock that only its own steps move: each takes the processor time that it took.

So a busy machine changes no figure: what is measured is an engine with a core to itself. On a GPU, where the processor
waits for the device, a step takes what it took by the wall, until the device was done. What lies around steps (HTTP,
tokenizing) is left out on both sides.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.options import EngineOptions
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.drafter import Drafter
from agents.engine.scheduling.request import Request
from agents.engine.scheduling.step_plan import StepPlan
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.reports.engine_event import EngineEvent, StepEvent
from tuner.twin.costs.nonnegative_fit import Row
from tuner.twin.costs.step_terms import summed, terms_of
from tuner.twin.simulated_engine import Arrival, EngineShape

NO_TERMS = summed(())


@dataclass(frozen=True)
class StepTold:
    """What a node tells of a step: `StepEvent`'s counts, and when it ended on the engine's clock, seconds. deliveries:
    to how many requests it gave tokens after their first."""

    ended_s: float
    took_s: float
    drafted: int
    accepted: int
    kv_usage: float
    deliveries: int = 0
    drafted_at: Sequence[int] = ()
    accepted_at: Sequence[int] = ()


@dataclass(frozen=True)
class RequestTold:
    """What a node tells of a request; seconds of the engine's clock."""

    arrived_s: float
    scheduled_s: float
    first_s: float
    last_s: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass
class Served:
    """Seconds of each request, in order of arrival, and a row for each step. told_steps, told_requests: what a node
    would tell of them."""

    ttft_s: list[float] = field(default_factory=list)
    tpot_s: list[float] = field(default_factory=list)
    e2e_s: list[float] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)
    told_steps: list[StepTold] = field(default_factory=list)
    told_requests: list[RequestTold] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Seconds."""
        return {
            "ttft:0.95": float(np.quantile(self.ttft_s, 0.95)),
            "ttft:0.99": float(np.quantile(self.ttft_s, 0.99)),
            "tpot:0.5": float(np.quantile(self.tpot_s, 0.5)),
        }


class RecordedEngine:
    """One model, loaded once; each `serve` begins with an empty cache and a configuration of its own."""

    def __init__(self, model: Path, kv_bytes: int, **options: Any) -> None:
        """options: those of `EngineOptions` besides."""
        torch.set_num_threads(1)
        made = EngineOptions(model=model, kv_cache_memory_bytes=kv_bytes, **options)
        log = EventLog()
        log.add_consumer(self._hear)
        self._heard: StepEvent | None = None
        self._engine = StepEngine(made, log)
        self._clock = time.thread_time if self._engine.device.type == "cpu" else time.perf_counter
        with torch.inference_mode():
            self._engine.warm_up()
        pool = self._engine.pool
        self.shape = EngineShape(pool.num_blocks, pool.block_size, self._engine.model_config.cache_groups())

    def serve(self, arrivals: Sequence[Arrival], config: EngineConfig) -> Served:
        engine, found = self._engine, Served()
        scheduler = engine.scheduler
        if config.quantization != scheduler.config.quantization:
            engine.swap_weights(config.quantization)
        engine.pool.reset_cache()
        scheduler.config = config
        left = list(reversed(arrivals))
        marks: dict[Request, list[float]] = {}
        now, terms = 0.0, NO_TERMS
        schedule = type(scheduler).schedule

        def seen(drafter: Drafter, _: float) -> StepPlan:
            nonlocal terms
            plan = schedule(scheduler, drafter, now)
            terms = terms_of(plan)  # Now: what is committed moves the plan's requests on.
            return plan

        scheduler.schedule = seen  # type: ignore[method-assign, assignment]
        with torch.inference_mode():
            while left or scheduler.has_work:
                if not scheduler.has_work:
                    now = max(now, left[-1].at_s)
                while left and left[-1].at_s <= now:
                    one = left.pop()
                    request = Request(str(len(marks)), one.prompt(), SamplingParams(one.outputs), arrived_at=one.at_s)
                    marks[request] = []
                    if scheduler.add(request):
                        raise RuntimeError("a request was refused")
                began = self._clock()
                outputs = engine.step()
                took_s = self._clock() - began
                found.steps.append(Row(terms, took_s))
                now += took_s
                if self._heard is not None:
                    deliveries = sum(bool(output.tokens and marks[output.request]) for output in outputs)
                    found.told_steps.append(_step_told(self._heard, now, took_s, deliveries))
                    self._heard = None
                for output in outputs:
                    if output.tokens:
                        marks[output.request] += [now] * len(output.tokens)
        for request, given in marks.items():
            found.ttft_s.append(given[0] - request.arrived_at)
            found.e2e_s.append(given[-1] - request.arrived_at)
            if len(given) > 1:
                found.tpot_s.append((given[-1] - given[0]) / (len(given) - 1))
            found.told_requests.append(_request_told(request, given))
        return found

    def _hear(self, event: EngineEvent) -> None:
        if event["kind"] == "step":
            self._heard = event


def _step_told(event: StepEvent, ended_s: float, took_s: float, deliveries: int) -> StepTold:
    return StepTold(
        ended_s,
        took_s,
        event["draft_tokens"],
        event["accepted_tokens"],
        event["kv_usage"],
        deliveries,
        event.get("drafted_per_position", ()),
        event.get("accepted_per_position", ()),
    )


def _request_told(request: Request, given: Sequence[float]) -> RequestTold:
    assert request.scheduled_at is not None
    return RequestTold(
        request.arrived_at,
        request.scheduled_at,
        given[0],
        given[-1],
        request.prompt_length,
        request.cached_tokens,
        len(given),
    )
