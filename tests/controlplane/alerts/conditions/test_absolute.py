"""A quantile against its limit: hysteresis, and too few requests."""

from typing import Any

import pytest

from controlplane.alerts.conditions.absolute import observe
from controlplane.alerts.conditions.finding import Reading
from controlplane.contract.bodies.slo import Limit
from controlplane.evidence.sketch import Sketch

LIMIT = Limit(metric="ttft", q=0.9, limit_s=1.0)


@pytest.mark.parametrize(
    ("seconds", "firing", "reading"),
    [
        (2.0, False, Reading.BREACH),
        (0.95, False, Reading.CLEAR),
        (0.95, True, Reading.HOLD),
        (0.5, True, Reading.CLEAR),
    ],
)
def test_hysteresis(sketch: Any, seconds: float, firing: bool, reading: Reading) -> None:
    assert observe(sketch([seconds] * 50), LIMIT, min_count=30, firing=firing).reading is reading


def test_too_few_requests_decide_nothing(sketch: Any) -> None:
    assert observe(sketch([9.0] * 29), LIMIT, min_count=30, firing=False).reading is Reading.HOLD
    assert observe(Sketch(), LIMIT, min_count=1, firing=True).reading is Reading.HOLD
