"""Faults of eighteen kinds: how the pool is while each lasts, and what a good diagnosis names first."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from benchmarks.attribution_measures.simulated_pool import LENGTHS, NODES, RATE, TENANTS, USUAL_HOST, World
from controlplane.contract import metrics
from controlplane.contract.metrics import Metric
from controlplane.contract.reports.gpu_clocks import HEAT

ENGINE = ("tokenize", "prefill", "decode")
HOST_FIGURES: Mapping[str, Mapping[Metric, float]] = {
    "cpu": {
        metrics.HOST_OTHER_CPU: 0.62,
        metrics.HOST_RUN_DELAY: 0.5,
        metrics.HOST_PRESSURE_CPU: 0.6,
        metrics.CONTAINER_PRESSURE_CPU: 0.6,
    },
    "throttled": {
        metrics.HOST_THROTTLED: 0.5,
        metrics.HOST_CPU_LIMIT: 1.5,
        metrics.HOST_ENGINE_CPU: 0.18,
        metrics.CONTAINER_PRESSURE_CPU: 0.4,
    },
    "memory": {
        metrics.HOST_MAJOR_FAULTS: 1500.0,
        metrics.HOST_MEMORY_AVAILABLE: 0.03,
        metrics.CONTAINER_PRESSURE_MEMORY: 0.3,
        metrics.HOST_PRESSURE_MEMORY: 0.3,
    },
}
"""What a host is said to be: its CPUs taken by others, its container throttled, its memory short."""


@dataclass(frozen=True)
class Fault:
    """stages: any of them is right. place: (label, value) where it is, None: all of the pool; also: what says the same.
    cause: its kind. A fault that nothing measures is "unknown": its stage and place are all there is to tell. mark_s:
    how long before it began others did what they post a mark of; None: nobody posts one.
    """

    kind: str
    detail: str
    world: World
    stages: tuple[str, ...]
    cause: str
    place: tuple[str, str] | None = None
    also: tuple[tuple[str, str], ...] = ()
    mark_s: float | None = None


Lengths = tuple[tuple[int, float], ...]
"""Tokens of a prompt, and the share of such ones."""
Tenants = tuple[tuple[str, float], ...]
"""Each with its requests for each one that there are usually; their sum is 1 then."""


def with_share(usual: Lengths, length: int, share: float) -> Lengths:
    """One length has another share; the others share the rest as before."""
    rest = 1.0 - dict(usual)[length]
    return tuple((one, share if one == length else weight * (1 - share) / rest) for one, weight in usual)


def sending_more(usual: Tenants, tenant: str, times: float) -> Tenants:
    return tuple((name, weight * (times if name == tenant else 1.0)) for name, weight in usual)


def _stage(name: str, low: float, high: float) -> Callable[[random.Random], Fault]:
    def made(chance: random.Random) -> Fault:
        factor = chance.uniform(low, high)
        world = World(factors={name: factor})
        return Fault(name, f"x{factor:.2f}", world, (name,), "unknown")

    return made


def _load(chance: random.Random) -> Fault:
    factor = chance.uniform(4.4, 5.2)
    return Fault("load", f"x{factor:.2f}", World(rate=RATE * factor), ("queue",), "load")


def _one_node(chance: random.Random) -> Fault:
    node, factor = chance.choice(NODES), chance.uniform(2.0, 3.0)
    stages = chance.choice((("prefill",), ("decode",)))
    world = World(slow={("node", node): (stages, factor)})
    return Fault("one_node", f"{node} {stages[0]} x{factor:.2f}", world, stages, "one_node", ("node", node))


def _long_prompts(chance: random.Random) -> Fault:
    factor = chance.uniform(2.0, 3.5)
    world = World(slow={("prompt_bucket", "<=8k"): (("prefill",), factor)})
    return Fault("long_prompts", f"x{factor:.2f}", world, ("prefill",), "one_group", ("prompt_bucket", "<=8k"))


def _prompt_mix(chance: random.Random) -> Fault:
    share = chance.uniform(0.2, 0.4)
    lengths = with_share(LENGTHS, 4000, share)
    world = World(lengths=lengths)
    return Fault("prompt_mix", f"4 % to {share:.0%}", world, ("prefill",), "prompt_mix", ("prompt_bucket", "<=8k"))


def _answers(chance: random.Random) -> Fault:
    """They hold their seats for so much longer that others wait."""
    outputs = round(chance.uniform(140, 200))
    return Fault("answers", f"{World.outputs} to {outputs} tokens", World(outputs=outputs), ("queue",), "answer_mix")


def _cache_miss(chance: random.Random) -> Fault:
    share = chance.uniform(0.0, 0.1)
    place = ("cache_class", "miss")
    return Fault("cache_miss", f"60 % to {share:.0%}", World(hit_share=share), ("prefill",), "cache_miss", place)


def _config(chance: random.Random) -> Fault:
    stage, factor = chance.choice(("prefill", "decode")), chance.uniform(1.6, 2.6)
    world = World(factors={stage: factor}, revision=2)
    return Fault("config", f"{stage} x{factor:.2f}", world, (stage,), "config_change", None, (("revision", "2"),))


def _host(chance: random.Random) -> Fault:
    node, factor = chance.choice(NODES), chance.uniform(1.8, 3.0)
    what = chance.choice(list(HOST_FIGURES))
    world = World(slow={("node", node): (ENGINE, factor)}, host={node: HOST_FIGURES[what]})
    return Fault("host", f"{node} {what} x{factor:.2f}", world, ENGINE, "host", ("node", node))


def _gpu(chance: random.Random) -> Fault:
    node, factor = chance.choice(NODES), chance.uniform(1.6, 2.2)
    clock = USUAL_HOST[metrics.GPU_CLOCK] / factor
    figures = {metrics.GPU_CLOCK: clock, metrics.GPU_THROTTLE_REASON: float(HEAT), metrics.GPU_TEMPERATURE: 88.0}
    world = World(slow={("node", node): (("prefill", "decode"), factor)}, host={node: figures})
    return Fault("gpu", f"{node} x{factor:.2f}", world, ("prefill", "decode"), "host", ("node", node))


def _preemption(chance: random.Random) -> Fault:
    share = chance.uniform(0.1, 0.3)
    world = World(preempted=share, kv_usage=0.97)
    return Fault("preemption", f"{share:.0%} of requests", world, ("decode",), "preemption")


def _tenant(chance: random.Random) -> Fault:
    """A tenant sends several times as much, of long prompts."""
    times = chance.uniform(6.0, 10.0)
    tenants = sending_more(TENANTS, "batch", times)
    world = World(tenants=tenants, rate=RATE * sum(weight for _, weight in tenants))
    return Fault("tenant", f"x{times:.1f}", world, ("prefill",), "tenant_mix", ("tenant", "batch"))


def _drafts(chance: random.Random) -> Fault:
    share = chance.uniform(0.05, 0.2)
    return Fault("drafts", f"60 % to {share:.0%}", World(acceptance=share), ("decode",), "acceptance")


def _node_drafts(chance: random.Random) -> Fault:
    node, share = chance.choice(NODES), chance.uniform(0.05, 0.2)
    world = World(acceptances={node: share})
    return Fault("node_drafts", f"{node} 60 % to {share:.0%}", world, ("decode",), "acceptance", ("node", node))


def _deploy(chance: random.Random) -> Fault:
    """What others deployed makes all of the pool slower; their mark alone tells of it."""
    stage, factor = chance.choice(("prefill", "decode")), chance.uniform(1.6, 2.6)
    lag_s, world = chance.uniform(0.0, 120.0), World(factors={stage: factor})
    return Fault("deploy", f"{stage} x{factor:.2f}", world, (stage,), "change_event", mark_s=lag_s)


KINDS: dict[str, Callable[[random.Random], Fault]] = {
    "prefill": _stage("prefill", 1.6, 3.0),
    "decode": _stage("decode", 1.5, 2.5),
    "tokenize": _stage("tokenize", 40.0, 80.0),
    "send": _stage("send", 400.0, 800.0),
    "load": _load,
    "one_node": _one_node,
    "long_prompts": _long_prompts,
    "prompt_mix": _prompt_mix,
    "cache_miss": _cache_miss,
    "config": _config,
    "host": _host,
    "gpu": _gpu,
    "preemption": _preemption,
    "tenant": _tenant,
    "drafts": _drafts,
    "answers": _answers,
    "node_drafts": _node_drafts,
    "deploy": _deploy,
}
BATCH_IS_LONG = {"batch": ((300, 0.3), (1200, 0.4), (4000, 0.3))}
"""The prompts of the tenant `batch`, always."""


def usual(world: World) -> World:
    """With what is always so."""
    return replace(world, lengths_of=BATCH_IS_LONG)


def marked(made: Callable[[random.Random], Fault]) -> Callable[[random.Random], Fault]:
    """The same, and within five minutes before it others post a mark that has nothing to do with it."""

    def found(chance: random.Random) -> Fault:
        fault = made(chance)
        return fault if fault.mark_s is not None else replace(fault, mark_s=chance.uniform(0.0, 300.0))

    return found


def usually(made: Callable[[random.Random], Fault]) -> Callable[[random.Random], Fault]:
    """The same with what is always so."""

    def found(chance: random.Random) -> Fault:
        fault = made(chance)
        return replace(fault, world=usual(fault.world))

    return found
