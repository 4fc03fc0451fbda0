"""What it costs to record one latency value: in the embedded engine, in the agent beside it, and in two rivals.

    python benchmarks/hot_path.py [--values 20000] [--rounds 15] [--seed 1] [--quick]

In the engine a value is a mark in a list and its share of the event that tells it: a list of gaps every 250 ms (8
values at 30 ms between tokens, 50 at 5 ms), or a step, which tells twelve that are counted (six durations, three
gauges, three sums). In the agent it is the share of parsing that event's JSON and of counting it, or counting alone.
The rivals record the same gaps in this process, as they would in the engine: the OpenTelemetry SDK with an exponential
histogram of 160 buckets and two attributes, and prometheus-client with vLLM's buckets, its labels bound once or looked
up each time.

Everybody records the same lognormal values (median 30 ms, sigma 0.6). Rounds interleave: each does all of them once, in
an order drawn anew. Shown are nanoseconds of CPU a value (of this thread, so that waiting for a core is not counted;
the garbage collector's runs are). The goal is 300, amortised: in the mean.
"""

import argparse
import gc
import json
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import orjson
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from prometheus_client import CollectorRegistry, Histogram

from agents.agent.reports.accumulator import Accumulator
from agents.agent.reports.latency_series import Distribution
from agents.engine.core.cheap_histogram import BucketCounts
from agents.engine.core.event_log import DEFAULT_CAPACITY, EventLog
from agents.engine.core.histogram_edges import TOKEN_SECONDS
from agents.engine.core.step import StepEngine
from agents.engine.core.step_report import StepClock, step_event
from agents.engine.core.step_work import StepWork
from controlplane.contract.step_limits import StepLimit

GOAL_NS = 300
PARTS = ("schedule", "draft", "forward", "sample", "commit")
STEP_VALUES = 12
WORK = StepWork(flops=10**9, read_bytes=10**7, write_bytes=10**5)
ATTRIBUTES = {"model": "m", "revision": "3"}

Work = Callable[[Sequence[float]], None]


def engine_gaps(log: EventLog, each: int, *, with_metrics: bool) -> Work:
    """A token's time noted, and every `each` of them told, by the engine's own code."""
    if with_metrics:
        counts = BucketCounts(TOKEN_SECONDS)
        log.add_consumer(lambda event: counts.observe_all(event["gaps"]))  # type: ignore[typeddict-item]
    steps: Any = SimpleNamespace(log=log, revision=3)

    def work(values: Sequence[float]) -> None:
        sequence: Any = SimpleNamespace(
            committed_at=[0.0], committed_outputs=0, num_outputs=0, prompt_length=100, cached_tokens=0, tenant=""
        )
        for start in range(0, len(values), each):
            for now in values[start : start + each]:  # The engine has its loop and its clock in any case.
                sequence.committed_at.append(now)
            sequence.num_outputs += each
            StepEngine.flush_gaps(steps, sequence)

    return work


def engine_steps(log: EventLog) -> Work:
    """A step's laps and the event that tells them."""
    plan: Any = SimpleNamespace(works=(), batched_tokens=12, preemptions=0, limit=StepLimit.NO_WORK)

    def work(values: Sequence[float]) -> None:
        for _ in range(len(values) // STEP_VALUES):
            clock = StepClock()
            for part in PARTS:
                clock.lap(part)
            log.append(step_event(3, clock, 0.004, plan, (), (2, 1, 0.25), WORK))

    return work


def agent_gaps(values: Sequence[float], each: int, *, parsing: bool) -> Work:
    """Events of `each` gaps as the engine sends them, parsed (or not) and counted."""
    head = {"kind": "gaps", "time": 1e9, "revision": 3, "prompt_tokens": 100, "cached_tokens": 0}
    starts = range(0, len(values), each)
    events = [{**head, "gaps": list(values[start : start + each])} for start in starts]
    return _counting(events, parsing)


def agent_steps(values: Sequence[float], *, parsing: bool) -> Work:
    durations = (*PARTS, "attention")
    rest = {"running": 2, "waiting": 1, "kv_usage": 0.25, "batched_tokens": 12, "draft_tokens": 0, "accepted_tokens": 0}
    head = {"kind": "step", "time": 1e9, "revision": 3, "preemptions": 0, "limit": "no_work", **rest}
    events = [
        {**head, **dict(zip(durations, values[start : start + len(durations)], strict=True))}
        for start in range(0, len(values) - STEP_VALUES + 1, STEP_VALUES)
    ]
    return _counting(events, parsing)


def _counting(events: list[dict[str, Any]], parsing: bool) -> Work:
    lines = [orjson.dumps({**event, "seq": seq}) for seq, event in enumerate(events, 1)]
    parsed = [orjson.loads(line) for line in lines]

    def work(_: Sequence[float]) -> None:
        accumulator = Accumulator(None, 5.0)
        accumulator.hello({"kind": "hello", "boot": "b", "oldest": 1, "model": "m"})
        if parsing:
            for line in lines:
                accumulator.count(orjson.loads(line))
        else:
            for event in parsed:
                accumulator.count(event)

    return work


def one_by_one(values: Sequence[float]) -> None:
    record = Distribution().record
    for value in values:
        record(value)


def at_once(values: Sequence[float]) -> None:
    Distribution().record_all(values)


def opentelemetry() -> Work:
    view = View(instrument_name="*", aggregation=ExponentialBucketHistogramAggregation(max_size=160))
    provider = MeterProvider(metric_readers=[InMemoryMetricReader()], views=[view])
    record = provider.get_meter("bench").create_histogram("itl", unit="s").record

    def work(values: Sequence[float]) -> None:
        for value in values:
            record(value, ATTRIBUTES)

    return work


def prometheus(*, bound: bool) -> Work:
    names = tuple(ATTRIBUTES)
    histogram = Histogram("itl", "Gaps.", names, registry=CollectorRegistry(), buckets=TOKEN_SECONDS)
    observe = histogram.labels(**ATTRIBUTES).observe

    def work(values: Sequence[float]) -> None:
        if bound:
            for value in values:
                observe(value)
        else:
            for value in values:
                histogram.labels(**ATTRIBUTES).observe(value)

    return work


def in_a_full_ring(make: Callable[[EventLog], Work], values: Sequence[float]) -> Work:
    """As in an engine that has run for some minutes: from then on memory is used again, not asked for."""
    log = EventLog()
    work = make(log)
    while log.newest < DEFAULT_CAPACITY:
        work(values)
    return work


def contestants(values: Sequence[float]) -> dict[str, Work]:
    return {
        "engine: gaps, 8 to an event": in_a_full_ring(partial(engine_gaps, each=8, with_metrics=False), values),
        "engine: gaps, 50 to an event": in_a_full_ring(partial(engine_gaps, each=50, with_metrics=False), values),
        "engine: gaps, 8 to an event, /metrics too": in_a_full_ring(
            partial(engine_gaps, each=8, with_metrics=True), values
        ),
        "engine: steps, 12 to an event": in_a_full_ring(engine_steps, values),
        "agent: gaps, 8 to an event, counted": agent_gaps(values, 8, parsing=False),
        "agent: gaps, 50 to an event, counted": agent_gaps(values, 50, parsing=False),
        "agent: gaps, 8 to an event, parsed and counted": agent_gaps(values, 8, parsing=True),
        "agent: gaps, 50 to an event, parsed and counted": agent_gaps(values, 50, parsing=True),
        "agent: steps, 12 to an event, counted": agent_steps(values, parsing=False),
        "agent: steps, 12 to an event, parsed and counted": agent_steps(values, parsing=True),
        "agent: Distribution.record": one_by_one,
        "agent: Distribution.record_all": at_once,
        "OpenTelemetry SDK, exponential, record": opentelemetry(),
        "prometheus-client, observe": prometheus(bound=True),
        "prometheus-client, labels() and observe": prometheus(bound=False),
    }


def measure(
    everybody: Mapping[str, Work], values: Sequence[float], rounds: int, chance: random.Random
) -> dict[str, list[float]]:
    """Nanoseconds a value of each round, by contestant."""
    found: dict[str, list[float]] = {name: [] for name in everybody}
    order = list(everybody)
    for turn in range(rounds + 1):  # The first warms up and is not counted.
        chance.shuffle(order)
        for name in order:
            began = time.thread_time_ns()
            everybody[name](values)
            if turn:
                found[name].append((time.thread_time_ns() - began) / len(values))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=20_000, help="values a round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="tiny, to see that it works")
    parser.add_argument("--json", action="store_true", help="every round's figures, as JSON")
    wanted = parser.parse_args()
    count, rounds = (600, 2) if wanted.quick else (wanted.values, wanted.rounds)
    chance = random.Random(wanted.seed)
    values = [0.03 * chance.lognormvariate(0.0, 0.6) for _ in range(count)]
    everybody = contestants(values)
    gc.collect()
    gc.freeze()  # As the engine's server does: what is collected from here on is what recording leaves behind.
    found = measure(everybody, values, rounds, chance)
    if wanted.json:
        print(json.dumps(found))
        return
    rivals = ", ".join(f"{name} {version(name)}" for name in ("opentelemetry-sdk", "prometheus-client", "orjson"))
    print(f"python {platform.python_version()}, {rivals}, {platform.machine()}")
    print(f"seed {wanted.seed}, {count} values a round, {rounds} rounds; nanoseconds a value\n")
    print("| | mean | median | quickest | slowest | of the goal |\n|---|---|---|---|---|---|")
    for name, times in found.items():
        mean, middle = statistics.mean(times), statistics.median(times)
        shown = " | ".join(f"{time:.0f}" for time in (mean, middle, min(times), max(times)))
        print(f"| {name} | {shown} | {mean / GOAL_NS:.2f} |")


if __name__ == "__main__":
    main()
