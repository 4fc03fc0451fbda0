"""A canary whose latencies were counted in somebody else's wide buckets."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from controlplane.contract.bodies.rollouts import RolloutCreate, Verdict
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.judge import Judge
from controlplane.rollouts.judging.judging_plan import plan_of
from controlplane.telemetry.otlp.buckets import from_spans

BOUNDS = [0.0001, 0.06, 0.08, 0.1, 0.25, 0.5, 1.0]


def scraped(values: "np.ndarray[Any, Any]") -> Sketch:
    """Values as /metrics shows them: counts between bounds."""
    counts = np.histogram(values, BOUNDS)[0].tolist()
    axis = from_spans(
        [(low, high, count) for low, high, count in zip(BOUNDS, BOUNDS[1:], counts, strict=False) if count], 0
    )
    sketch = Sketch(relative_error=axis.error, minimum=BOUNDS[0], maximum=BOUNDS[-1])
    sketch.counts[axis.low : axis.low + len(axis.counts)] = axis.counts
    return sketch


def judged(make: Callable[..., Sketch], factor: float, *, tolerance: float, ticks: int = 150) -> Judge:
    rng = np.random.default_rng(3)

    def window(scale: float) -> Window:
        return Window(
            {"": make(rng.uniform(0.11, 0.15, 40))},
            {"": make(scale * rng.uniform(0.11, 0.15, 40))},
        )

    plan = plan_of(RolloutCreate(pool="p", revision=1, metrics=["ttft"], tolerance=tolerance))
    assert plan is not None
    judge = Judge.start(plan, control="concurrent")
    judge.rehearse({"ttft": [window(1.0) for _ in range(60)]})
    for _ in range(ticks):
        judge.feed({"ttft": window(factor)})
        judge = Judge.model_validate_json(judge.model_dump_json())
    return judge


def test_a_slowdown_that_hides_inside_a_bucket_is_never_called_not_worse(make_sketch: Callable[..., Sketch]) -> None:
    """Half as slow again, and all of it between 0.1 s and 0.25 s."""
    blind = judged(scraped, 1.5, tolerance=0.2)
    assert blind.verdict() is None
    account = blind.evidence()["metrics"]["ttft"]
    assert account["finding"] != "not_worse"
    assert account["accuracy"]["relative_error"] == pytest.approx(1.5)
    assert "± 150 %: from /metrics buckets" in account["accuracy"]["statement"]
    assert "cannot show" in account["accuracy"]["statement"]
    seeing = judged(make_sketch, 1.5, tolerance=0.2)
    assert seeing.verdict() is Verdict.WORSE and "accuracy" not in seeing.evidence()["metrics"]["ttft"]


def test_harm_that_crosses_a_bound_is_still_seen() -> None:
    assert judged(scraped, 3.0, tolerance=0.2).verdict() is Verdict.WORSE


def test_a_tolerance_as_wide_as_the_buckets_may_be_shown(make_sketch: Callable[..., Sketch]) -> None:
    wide = judged(scraped, 1.0, tolerance=1.0)
    assert math.isfinite(wide.streams["ttft"].log_not_worse())
    assert wide.verdict() is None  # Still coarser: 150 % against a tolerance of 100 %.
    assert judged(make_sketch, 1.0, tolerance=0.5).verdict() is Verdict.NOT_WORSE
