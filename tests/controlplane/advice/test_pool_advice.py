"""Whether a pool is advised on at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.advice.pool_advice import advice_of
from controlplane.advice.pool_figures import FEWEST_REQUESTS, IDLE_SHARE, Readings
from controlplane.contract.planning.advice import AdviceState
from controlplane.contract.step_limits import StepLimit
from tests.controlplane.advice.advised_pool import BUSY, figures

NOBODY = Readings(100, 0, 0.0, 5.0)


@given(st.integers(0, FEWEST_REQUESTS - 1))
def test_never_of_too_few_requests(requests: int) -> None:
    found = advice_of(figures(requests=requests), 2)
    assert found.techniques == [] and found.state in (AdviceState.TOO_LITTLE, AdviceState.IDLE)
    assert str(requests) in found.because


@given(st.floats(0, IDLE_SHARE * 1199), st.integers(1, 10**6))
def test_never_of_an_idle_pool(seconds: float, requests: int) -> None:
    limits = {StepLimit.NO_WORK: 9.0}
    idle = figures(requests=requests, waiting=NOBODY, limits=limits, step_parts={"step_forward": seconds})
    found = advice_of(idle, 2)
    assert (found.state, found.techniques) == (AdviceState.IDLE, []) and "idle" in found.because


def test_a_busy_pool_is() -> None:
    found = advice_of(BUSY, 2)
    assert found.state is AdviceState.ADVISED and found.techniques
    assert found.because == "By 6,000 requests in 600 s."


@pytest.mark.parametrize("changed", [{"requests": 0, "steps": [], "measured_s": 0.0, "nodes": 0}])
def test_a_pool_that_nobody_has_heard_of_is_idle(changed: dict[str, object]) -> None:
    found = advice_of(figures(**changed), 2)
    assert found.state is AdviceState.IDLE and found.worksheet.requests_per_s.mean == 0.0
