"""A pool that was served, as telemetry would tell it: by an engine whose step times are known, jittered."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from agents.engine.scheduling.step_plan import StepPlan
from controlplane.contract.bodies.workload import RequestRecord, Workload, WorkloadRequest
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.planning.whatif import StepWindow, TwinTask, WhatIfCreate
from controlplane.contract.reports.engine_event import EngineEvent
from tuner.twin.answer.forecast_error import WANTED
from tuner.twin.assumed_drafts import AssumedDrafter, Drafts
from tuner.twin.costs.step_terms import StepCost, terms_of
from tuner.twin.dealt_traffic import Scale, dealt
from tuner.twin.simulated_engine import EngineShape, SimulatedEngine, Story

TRUTH = StepCost((0.006, 6e-5, 2e-4, 2e-4, 1.5e-6, 4e-8))
START = datetime(2026, 11, 24, tzinfo=UTC)
SHAPE = EngineShape(1200)
WIDTH_S, RECEIVE_S, SEND_S = 5.0, 0.002, 0.001
JITTER = 0.05
PACE_EVERY_S = 0.5


def traffic(seed: int, requests: int, per_s: float) -> Workload:
    """Poisson arrivals, lengths of a heavy tail, a third with a prefix of their kind."""
    random = np.random.default_rng(seed)
    at_ms = np.cumsum(random.exponential(1000.0 / per_s, requests))
    found = []
    for number in range(requests):
        length = int(np.clip(random.lognormal(4.8, 0.8), 8, 1500))
        ids = [7 + place for place in range(length // 16)] if number % 3 == 0 else []
        found.append(
            WorkloadRequest(
                timestamp=float(at_ms[number]),
                input_length=length,
                output_length=int(np.clip(random.lognormal(3.6, 0.6), 2, 300)),
                hash_ids=ids,
            )
        )
    end = START + timedelta(milliseconds=float(at_ms[-1]) + 20_000)
    return Workload(pool="chat", start=START, end=end, nodes=1, requests=found)


def wandering(seed: int, sd: float, tau_s: float, until_s: float) -> Callable[[float], float]:
    """A pace by time: how many times as long steps take, 1 in the middle (an Ornstein-Uhlenbeck process of its
    logarithm, of standard deviation `sd`, which forgets within `tau_s`)."""
    random, kept = np.random.default_rng(seed), math.exp(-PACE_EVERY_S / tau_s)
    logs = [sd * float(random.standard_normal())]
    for drawn in random.standard_normal(int(until_s / PACE_EVERY_S) + 1).tolist():
        logs.append(kept * logs[-1] + math.sqrt(1 - kept**2) * sd * drawn)
    return lambda at_s: math.exp(logs[min(int(at_s / PACE_EVERY_S), len(logs) - 1)])


class Served:
    """What came of it. pace: how many times as long a step takes that follows one which ended then; between_s: what
    passes after each step, in no step's seconds. drafts: how often there are some, and how they are kept."""

    def __init__(
        self,
        workload: Workload,
        config: EngineConfig,
        seed: int = 1,
        pace: Callable[[float], float] = lambda _: 1.0,
        between_s: float = 0.0,
        drafts: Drafts = Drafts(),
    ) -> None:
        random = np.random.default_rng(seed)
        ended_s = 0.0
        self.windows: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.usage: dict[int, float] = {}
        self.steps: list[tuple[float, float, float, int]] = []

        def seconds_of(plan: StepPlan) -> float:
            took = pace(ended_s) * TRUTH.seconds(terms_of(plan)) * float(random.lognormal(0.0, JITTER))
            return took + between_s

        drafter = AssumedDrafter(drafts)
        self.drafted: dict[int, Counter[int]] = defaultdict(Counter)
        self.accepted: dict[int, Counter[int]] = defaultdict(Counter)
        self.deliveries: Counter[int] = Counter()

        def watch(plan: StepPlan, now: float, seconds: float) -> None:
            nonlocal ended_s
            ended_s = now + seconds
            seconds -= between_s
            for work in plan.works:
                self.deliveries[int(now // WIDTH_S)] += work.request.num_outputs > 0
                if work.draft_count:
                    self.drafted[int(now // WIDTH_S)].update(range(work.draft_count))
                    self.accepted[int(now // WIDTH_S)].update(range(drafter.accepted(work)))
            window = self.windows[int(now // WIDTH_S)]
            window[0] += 1
            window[1] += seconds
            usage = engine.scheduler.cache.stats().usage
            self.usage[int(now // WIDTH_S)] = usage
            self.steps.append((ended_s, seconds, usage, len(engine.scheduler.running)))

        engine = SimulatedEngine(SHAPE, config, TRUTH, drafts=drafts, seconds_of=seconds_of, watcher=watch)
        ((_, arrivals),) = dealt(workload, 1, Scale(), seed)
        late = [replace(one, at_s=one.at_s + RECEIVE_S) for one in arrivals]
        self.stories = engine.run(late)
        self.workload, self.config = workload, config

    def ttft(self) -> Sequence[float]:
        return [one.first_token_s - one.arrived_s + RECEIVE_S + SEND_S for one in self.stories if one.first_token_s]

    def figures(self, since_s: float) -> dict[str, float]:
        """Seconds of each quantile that a forecast tells, of the requests that came since."""
        late = [one for one in self.stories if one.arrived_s >= since_s and one.first_token_s and one.ended_s]
        parts = [self._record(number, one).parts for number, one in enumerate(late)]
        return {
            f"{metric}:{q:g}": float(np.quantile([one[metric] for one in parts if metric in one], q))
            for metric, q in WANTED
        }

    def task(self, asked: WhatIfCreate, *, by_place: bool = True) -> TwinTask:
        """by_place: whether the pool tells draft tokens by their place, too."""
        places = [sum(found.values(), Counter()) for found in (self.drafted, self.accepted)]
        drafted_at, accepted_at = ([float(one[place]) for place in range(len(places[0]))] for one in places)
        begin_s = START.timestamp()
        return TwinTask(
            asked=asked,
            config=self.config,
            revision=3,
            workload=self.workload,
            records=[self._record(number, story) for number, story in enumerate(self.stories)],
            windows=[
                StepWindow(
                    node="gpu-1",
                    start_s=begin_s + number * WIDTH_S,
                    width_s=WIDTH_S,
                    steps=int(steps),
                    seconds=seconds,
                    drafted=self.drafted[number].total(),
                    accepted=self.accepted[number].total(),
                    deliveries=self.deliveries[number],
                    kv_usage=self.usage[number],
                )
                for number, (steps, seconds) in sorted(self.windows.items())
            ],
            drafted_at=drafted_at if by_place else [],
            accepted_at=accepted_at if by_place else [],
        )

    def events(self) -> list[EngineEvent]:
        """What the engine would have told its agent, in order of time; all of a step is its forward pass."""
        found: list[tuple[float, dict[str, Any]]] = []
        for ended_s, seconds, usage, running in self.steps:
            step = dict.fromkeys(("schedule", "draft", "sample", "commit"), 0.0)
            step |= {"forward": seconds, "kv_usage": usage}
            counts = dict.fromkeys(("waiting", "batched_tokens", "draft_tokens", "accepted_tokens", "preemptions"), 0)
            found.append((ended_s, {"kind": "step", "running": running, **step, **counts}))
        for number, story in enumerate(self.stories):
            found.append((story.ended_s or 0.0, self._finished(self._record(number, story), number)))
        ordered = sorted(found, key=lambda one: one[0])
        begin_s = START.timestamp()
        return [
            {**event, "seq": seq, "time": begin_s + at_s, "revision": 1}  # type: ignore[misc]
            for seq, (at_s, event) in enumerate(ordered, 1)
        ]

    def _finished(self, record: RequestRecord, number: int) -> dict[str, Any]:
        parts = dict.fromkeys(("tokenize", "send", "unaccounted"), 0.0) | {"tpot": None} | record.parts
        return {
            "kind": "finished",
            "request_id": record.request_id,
            "finish_reason": record.finish_reason,
            "arrival": record.arrival.timestamp(),
            "prompt_tokens": record.prompt_tokens,
            "cached_tokens": record.cached_tokens,
            "output_tokens": record.output_tokens,
            "block_size": self.workload.block_size,
            "block_hashes": self.workload.requests[number].hash_ids,
            **parts,
        }

    def _record(self, number: int, story: Story) -> RequestRecord:
        request = self.workload.requests[number]
        assert story.scheduled_s is not None and story.first_token_s is not None and story.ended_s is not None
        queue, prefill = story.scheduled_s - story.arrived_s, story.first_token_s - story.scheduled_s
        decode = story.ended_s - story.first_token_s
        ttft = RECEIVE_S + queue + prefill + SEND_S
        e2e = ttft + decode
        parts = {"receive": RECEIVE_S, "queue": queue, "prefill": prefill, "decode": decode, "ttft": ttft, "e2e": e2e}
        if story.outputs > 1:
            parts["tpot"] = (e2e - ttft) / (story.outputs - 1)
        return RequestRecord(
            node="gpu-1",
            pool="chat",
            model="m",
            revision=3,
            request_id=str(number),
            arrival=START + timedelta(milliseconds=request.timestamp),
            prompt_tokens=request.input_length,
            cached_tokens=story.cached_tokens,
            output_tokens=story.outputs,
            finish_reason="length",
            parts=parts,
        )
