"""What binds: shares of all steps, and in words whether anything does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.advice.binding_limits import binds, is_idle
from controlplane.advice.pool_figures import Readings
from controlplane.contract.step_limits import LIFTED_BY, StepLimit
from tests.controlplane.advice.advised_pool import BUSY, figures

KEPT_UP = {"limits": {StepLimit.NO_WORK: 90.0, StepLimit.DRAFTS: 10.0}, "waiting": Readings(240, 0, 0.0, 5.0)}
IDLE = KEPT_UP | {"step_parts": {"step_forward": 30.0}}


@given(st.dictionaries(st.sampled_from(list(StepLimit)), st.integers(0, 10**9).map(float)))
def test_shares_add_up_to_one_and_the_largest_is_first(limits: dict[StepLimit, float]) -> None:
    found = binds(figures(limits=limits))
    told = [one.share for one in found.shares]
    assert told == sorted(told, reverse=True) and found.steps == sum(limits.values())
    assert sum(told) == pytest.approx(1.0 if any(limits.values()) else 0.0)
    assert all(one.lifted_by == LIFTED_BY.get(one.limit) and one.share > 0 for one in found.shares)


def test_what_binds_is_said_with_the_knob_that_lifts_it() -> None:
    found = binds(BUSY)
    assert found.sentence == (
        "40.0 % of the steps were bound, most by max_num_seqs, which max_num_seqs lifts; "
        "requests waited in 40.0 % of the nodes' time."
    )
    assert found.busy_share == pytest.approx(0.7) and found.host_share == pytest.approx(1 / 6)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"requests": 0}, "Nothing binds: no request ended"),
        (IDLE, "Nothing binds: steps computed in 2.5 % of the time, nobody waited."),
        (KEPT_UP, "Nothing bound a step: each computed all that was there; nobody waited."),
        ({"limits": {}}, "No node tells what bound its steps; requests waited in 40.0 %"),
        ({"limits": {}, "waiting": None}, "no node tells whether requests waited"),
        ({"waiting": Readings(240, 0, 0.0, 5.0)}, "requests waited within steps"),
    ],
)
def test_where_nothing_binds_or_nobody_tells_that_is_said(changed: dict[str, object], said: str) -> None:
    assert said in binds(figures(**changed)).sentence


def test_what_is_not_known_says_what_would_bring_it() -> None:
    missing = binds(figures(limits={}, waiting=None, step_parts={}, flops=None)).missing
    assert len(missing) == 4 and "--enable-mfu-metrics" in missing[3]
    assert "--scheduler-cls" in missing[0] and "requests.waiting" in missing[1]
    assert binds(BUSY).missing == []


def test_a_pool_whose_busy_time_nobody_tells_is_not_called_idle() -> None:
    assert is_idle(figures(**IDLE)) and not is_idle(figures(**IDLE | {"step_parts": {}}))
    assert not is_idle(figures(**IDLE | {"waiting": Readings(240, 1, 1.0, 5.0)}))
