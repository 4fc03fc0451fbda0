"""A limit is broken where the canary breaks it and the control keeps it, and nowhere else."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from controlplane.contract.bodies.slo import Limit
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.limit_watch import LimitWatch

LIMIT = Limit(metric="ttft", q=0.95, limit_s=1.0)


def watched(make: Callable[..., Sketch], control_s: float, canary_s: float, *, concurrent: bool = True) -> bool:
    """Medians in seconds; p95 is e times as much. Ten minutes at three requests a second and arm."""
    rng = np.random.default_rng(1)

    def arm(median_s: float) -> dict[str, Sketch]:
        return {"": make(median_s * np.exp(0.6 * rng.normal(size=15)))}

    watch = LimitWatch.start(LIMIT, 1.5)
    past = [Window(arm(control_s), arm(control_s) if concurrent else {}) for _ in range(120)]
    pairs = past if concurrent else [Window(a.control, b.control) for a, b in zip(past[:60], past[60:], strict=True)]
    watch.rehearse(past, pairs, concurrent=concurrent)
    for _ in range(120):
        watch = LimitWatch.model_validate_json(watch.model_dump_json())
        watch.feed(Window(arm(control_s) if concurrent else {}, arm(canary_s)), concurrent=concurrent)
        watch.settle(math.log(500.0))
    return watch.stream.is_worse


@pytest.mark.parametrize("concurrent", [True, False])
@pytest.mark.parametrize(
    ("control_s", "canary_s", "broken"),
    [
        (0.1, 0.8, True),
        (0.1, 0.25, False),  # Far slower, and within the limit.
        (0.8, 0.8, False),  # Both break it.
        (0.8, 0.1, False),
        (0.5, 2.0, True),  # Both break it, the canary far more often.
    ],
)
def test_broken_where_the_control_keeps_it(
    make_sketch: Callable[..., Sketch], control_s: float, canary_s: float, broken: bool, concurrent: bool
) -> None:
    assert watched(make_sketch, control_s, canary_s, concurrent=concurrent) is broken
