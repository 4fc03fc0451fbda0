"""A quantile against its limit."""

import pytest

from controlplane.alerts.conditions.absolute import reading
from controlplane.alerts.conditions.finding import Reading
from controlplane.contract.bodies.slo import Limit


@pytest.mark.parametrize(
    ("value_s", "is_firing", "expected"),
    [
        (2.0, False, Reading.BREACH),
        (1.0, False, Reading.CLEAR),
        (0.95, True, Reading.HOLD),
        (0.9, True, Reading.CLEAR),
        (None, True, Reading.HOLD),
    ],
)
def test_a_firing_alert_is_called_over_below_its_limit(
    value_s: float | None, is_firing: bool, expected: Reading
) -> None:
    assert reading(value_s, Limit(metric="ttft", q=0.9, limit_s=1.0), is_firing=is_firing) is expected
