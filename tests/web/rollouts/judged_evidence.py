"""Evidence as the real judge writes it, of made-up traffic: for what a page says of it."""

from functools import cache
from typing import Any

import numpy as np

from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.histogram import axis_position
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.compared_line import LEAST_TICKS as PAST_TICKS
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.judge import Judge
from controlplane.rollouts.judging.judging_plan import plan_of
from controlplane.rollouts.judging.served import Outcomes

SPEC = RolloutCreate(
    pool="chat",
    revision=2,
    metrics=["ttft"],
    levels={"ttft": [0.5, 0.9]},
    limits=[Limit(metric="ttft", q=0.95, limit_s=5.0)],
    tolerance=0.25,
)
JUDGED_FROM = "2026-03-01T11:55:00+00:00"


@cache
def judged(slower: float = 1.0, ticks: int = 60, *, past: bool = True) -> dict[str, Any]:
    """As the controller writes it. slower: the canary; past: whether the time before is known."""
    random = np.random.default_rng(7)

    def arm(requests: int, factor: float) -> dict[str, Sketch]:
        found = {}
        for bucket, scale in (("<=128", 0.1), ("<=2k", 0.6)):
            for name, part in (("miss", 1.0), ("hit", 0.3)):
                values = scale * part * factor * np.exp(0.4 * random.normal(size=requests // 4))
                found[f"{bucket} {name}"] = sketch_of(values)
        return found

    def window(factor: float) -> dict[str, Window]:
        return {"ttft": Window(arm(80, 1.0), arm(20, factor))}

    plan = plan_of(SPEC)
    assert plan is not None
    judge = Judge.start(plan, control="concurrent", harm_part=0.5)
    if past:
        judge.rehearse({"ttft": [window(1.0)["ttft"] for _ in range(PAST_TICKS)]}, gap_ticks=2.0)
    for _ in range(ticks):
        judge.feed(window(slower), Outcomes(80, 4, 20, 1, {"shed": 4}, {"timeout": 1}))
        judge.look()
    verdict = judge.verdict()
    return judge.evidence() | {
        "verdict": None if verdict is None else verdict.value,
        "judged_from": JUDGED_FROM,
        "judged_until": "2026-03-01T12:00:00+00:00",
        "judged_s": 5.0 * ticks,
    }


def sketch_of(values: np.ndarray) -> Sketch:
    found = Sketch(total=float(values.sum()), minimum=float(values.min()), maximum=float(values.max()))
    for value in values:
        found.counts[axis_position(float(value))] += 1
    return found
