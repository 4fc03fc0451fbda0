"""Small made series, two for each symptom of the catalogue: one in which it must fire, and one in which it must not.

A series says what the nodes report in the window that begins `t` seconds after its start. Each is about one pool,
`main`, of nodes `a` and `b`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Report = tuple[str, str, float | list[float], Mapping[str, str]]
"""Node, metric (short name), a number or a histogram's values, further labels."""
Window = Callable[[float], Iterator[Report]]


@dataclass(frozen=True)
class Series:
    """healthy: must never fire. wrong: begins after `calm_s` of health, and must fire within fires_s seconds of it.

    on: what the alert is about beside pool and symptom. quantized: nodes that run int8.
    """

    healthy: Window
    wrong: Window
    fires_s: tuple[float, float]
    on: Mapping[str, str] = field(default_factory=dict)
    calm_s: float = 300.0
    lasts_s: float = 900.0
    step_s: float = 10.0
    quantized: Sequence[str] = ()


def gauges(**by_node: Mapping[str, float]) -> Window:
    """The same in each window."""

    def window(t: float) -> Iterator[Report]:
        for node, values in by_node.items():
            for metric, value in values.items():
                yield node, metric, float(value), {}

    return window


def both(**values: float) -> Window:
    return gauges(a=values, b=values)


def only_a(good: Mapping[str, float], bad: Mapping[str, float]) -> Window:
    return gauges(a=bad, b=good)


def ended(stop: int, every_s: float = 5.0, **others: int) -> Window:
    """Requests that end in every `every_s` seconds on node a, by finish reason."""

    def window(t: float) -> Iterator[Report]:
        if t % every_s == 0:
            for reason, count in {"stop": stop, **others}.items():
                yield "a", "requests", float(count), {"finish_reason": reason}

    return window


def together(*windows: Window) -> Window:
    def window(t: float) -> Iterator[Report]:
        for one in windows:
            yield from one(t)

    return window


def values(node: str, metric: str, middle_s: float, count: int, **labels: str) -> Window:
    """Of a histogram: scattered as latencies are, another draw in each window."""

    def window(t: float) -> Iterator[Report]:
        drawn = np.random.default_rng([int(t), sum(map(ord, node + metric))]).lognormal(0.0, 0.3, count)
        yield node, metric, list(middle_s * drawn), labels

    return window


def from_(start_s: float, window: Window) -> Window:
    return lambda t: window(t) if t >= start_s else iter(())


def falling(per_hour: float, start: float = 0.6) -> Window:
    """Memory that falls by a share an hour, with a wobble of half a per cent."""

    def window(t: float) -> Iterator[Report]:
        level = start - per_hour * t / 3600.0 + 0.005 * np.sin(t / 700.0)
        yield "a", "host_memory_available", float(max(level, 0.0)), {}

    return window


def cached(hits: float) -> Window:
    return both(prefix_queries=4000.0, prefix_hits=hits)


def steps(bound: float) -> Window:
    def window(t: float) -> Iterator[Report]:
        for limit, count in (("max_num_seqs", bound), ("no_work", 100.0 - bound)):
            yield "a", "step_limit", count, {"limit": limit}

    return window


def prompts(short_s: float, long_s: float) -> Window:
    return together(
        values("a", "ttft", short_s, 36, prompt_bucket="<=512"), values("a", "ttft", long_s, 4, prompt_bucket="<=8k")
    )


NODE_A = {"node": "a"}
SERIES: dict[str, Series] = {
    "acceptance_low": Series(
        both(draft_tokens=200.0, accepted_tokens=120.0), both(draft_tokens=200.0, accepted_tokens=20.0), (120, 400)
    ),
    "prefix_hits_low": Series(cached(2400.0), cached(200.0), (300, 1000), lasts_s=1500, calm_s=600),
    "kv_near_full": Series(both(kv_usage=0.7), only_a({"kv_usage": 0.7}, {"kv_usage": 0.98}), (60, 150), on=NODE_A),
    "preemptions": Series(
        together(ended(5), gauges(a={"preemptions": 0.0})),
        together(ended(5), gauges(a={"preemptions": 1.0})),
        (60, 400),
        on=NODE_A,
    ),
    "waiting_with_free_kv": Series(
        both(waiting=0.0, kv_usage=0.3),
        only_a({"waiting": 0.0, "kv_usage": 0.3}, {"waiting": 4.0, "kv_usage": 0.3}),
        (60, 240),
        on=NODE_A,
    ),
    "idle_with_queue": Series(
        both(waiting=2.0, running=8.0),
        only_a({"waiting": 2.0, "running": 8.0}, {"waiting": 3.0, "running": 0.0}),
        (30, 90),
        on=NODE_A,
    ),
    "errors": Series(ended(20), ended(18, error=2), (30, 200)),
    "refusals": Series(ended(20), ended(15, refused=5), (60, 250)),
    "unaccounted": Series(
        both(unaccounted_share=0.01),
        only_a({"unaccounted_share": 0.01}, {"unaccounted_share": 0.2}),
        (300, 700),
        on=NODE_A,
    ),
    "node_silent": Series(
        both(running=1.0), gauges(b={"running": 1.0}), (240, 480), on=NODE_A, calm_s=600, lasts_s=900
    ),
    "memory_creeping": Series(
        falling(0.0), falling(0.08), (0, 14400), on=NODE_A, calm_s=0, lasts_s=14400, step_s=300.0
    ),
    "cold_start": Series(
        together(values("a", "ttft", 0.2, 4), values("b", "ttft", 0.2, 4), both(running=1.0)),
        together(
            *(values("b", "ttft", 0.2, 4), gauges(b={"running": 1.0})),
            *(from_(3600, values("a", "ttft", 0.5, 4)), from_(3600, gauges(a={"running": 1.0}))),
        ),
        (3600, 4100),
        on=NODE_A,
        calm_s=0,
        lasts_s=4500,
        step_s=15.0,
    ),
    "long_prompts_behind_tail": Series(prompts(0.2, 0.2), prompts(0.2, 2.0), (300, 1300), lasts_s=1500),
    "drafts_on_short_outputs": Series(
        together(ended(5), both(output_tokens=1000.0, draft_tokens=500.0, accepted_tokens=300.0)),
        together(ended(50), both(output_tokens=250.0, draft_tokens=900.0, accepted_tokens=90.0)),
        (300, 1200),
        lasts_s=1500,
    ),
    "quantization_slower": Series(
        together(*(values(n, "step_forward", 0.02, 20) for n in "ab"), both(running=4.0)),
        together(values("a", "step_forward", 0.04, 20), values("b", "step_forward", 0.02, 20), both(running=4.0)),
        (300, 1000),
        lasts_s=1200,
        quantized=("a",),
    ),
    "network_share": Series(
        together(values("a", "client_e2e", 2.0, 4), values("a", "client_network", 0.05, 4)),
        together(values("a", "client_e2e", 2.0, 4), values("a", "client_network", 1.0, 4)),
        (120, 400),
    ),
    "host_busy": Series(
        both(host_run_delay=0.3, host_other_cpu=0.02),
        only_a({"host_run_delay": 0.05, "host_other_cpu": 0.3}, {"host_run_delay": 0.4, "host_other_cpu": 0.4}),
        (120, 300),
        on=NODE_A,
    ),
    "gpu_throttled": Series(
        both(gpu_throttle_reason=4.0),  # The power cap.
        only_a({"gpu_throttle_reason": 4.0}, {"gpu_throttle_reason": 0x40 + 4}),
        (120, 300),
        on=NODE_A,
    ),
    "clock_off": Series(
        both(clock_offset=0.2, clock_offset_error=0.01),
        only_a({"clock_offset": 3.0, "clock_offset_error": 5.0}, {"clock_offset": -3.0, "clock_offset_error": 0.01}),
        (300, 500),
        on=NODE_A,
    ),
    "step_limit_binds": Series(steps(20.0), steps(97.0), (300, 1100), on=NODE_A, lasts_s=1500),
}
