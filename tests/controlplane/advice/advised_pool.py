"""A pool that is busy and queues, as figures: two nodes, ten minutes, ten requests a second."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from controlplane.advice.mix_advice import MeasuredTraffic
from controlplane.advice.pool_figures import PoolFigures, Readings, Step
from controlplane.contract.bodies.nodes import EffectiveConfig, NodeRole, NodeView
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.knobs import ChangeClass, EngineConfig
from controlplane.contract.planning.traffic_mix import mix_of
from controlplane.contract.step_limits import StepLimit
from tuner.workload.generate import CONV, generate

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def node(name: str = "gpu-1", backend: str = "embedded", **effective: Any) -> NodeView:
    told: dict[str, Any] = {"revision": 1, "knobs": {}, "formats": ["none", "int8", "int4"], **effective}
    of = EffectiveConfig.model_validate(told)
    return NodeView(
        node=name, pool="chat", role=NodeRole.SERVING, backend=backend, connected=True, healthy=True, effective=of
    )


BUSY = PoolFigures(
    pool="chat",
    start=START,
    end=START + timedelta(minutes=10),
    measured_s=600.0,
    step_s=60.0,
    requests=6000,
    steps=[Step(600.0 + 30 * place, 60_000.0, 30_000.0, 2) for place in range(-5, 5)],
    nodes=2,
    seconds={"queue": 600.0, "prefill": 900.0, "decode": 1400.0, "e2e": 3000.0},
    prompt_tokens=600_000.0,
    output_tokens=300_000.0,
    ttft_p95_s=0.8,
    ttft_p99_s=1.4,
    stalls=0.25,
    by_prompt={"<=128": 5000.0, "<=2k": 1000.0},
    queries=600_000.0,
    hits=150_000.0,
    findable=0.5,
    preempted=60.0,
    limits={StepLimit.MAX_NUM_SEQS: 300.0, StepLimit.TOKEN_BUDGET: 100.0, StepLimit.NO_WORK: 600.0},
    step_parts={"step_forward": 700.0, "step_sample": 100.0, "step_schedule": 40.0},
    waiting=Readings(240, 96, 14.0, 5.0),
    running=Readings(240, 180, 32.0, 5.0),
    kv=Readings(240, 0, 0.83, 5.0),
    config=EngineConfig(),
    serving=[node("gpu-1"), node("gpu-2")],
    flops=6e15,
    moved=2.4e14,
)


LIMITS = [Limit(metric="itl", q=0.99, limit_s=0.2), Limit(metric="e2e", q=0.95, limit_s=30)]
TUNED = StudyCreate(pool="chat", objective="ttft", objective_q=0.99, constraints=LIMITS, trial_requests=200)


@cache
def measured_then() -> MeasuredTraffic:
    """What the pool's last promoted study was measured on."""
    return MeasuredTraffic(7, TUNED, START, mix_of(generate(CONV, seed=1, rate_per_s=5, requests=1500)))


def figures(**changed: Any) -> PoolFigures:
    return replace(BUSY, **changed)


COSTS = {ChangeClass.RESTART: {"count": 2, "last_s": 90.0, "mean_s": 80.0, "warm_up_s": 10.0}}
"""What restarts have cost on a node."""
