"""Order by virtual arrival, and what a policy refuses."""

from typing import Any

import pytest
from pydantic import ValidationError

from agents.engine.scheduling.policy import Policy, SchedulingPolicy
from controlplane.contract.errors import BadRequest

BY_PRIORITY = Policy(scheduling_policy=SchedulingPolicy.PRIORITY, priority_aging_s=10.0)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("scheduling_policy", "lifo"),
        ("priority_aging_s", 0),
        ("long_prompt_threshold", -1),
        ("max_long_prefills", 0),
        ("long_patience_s", -0.1),
        ("max_waiting", -1),
        ("max_waiting_tokens", 0),
        ("itl_target_s", 0),
        ("itl_target_s", float("nan")),
        ("long_prefill_share", 0),
        ("long_prefill_share", 1.1),
    ],
)
def test_a_wrong_option_is_named(option: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=option):
        Policy(**{option: value})


def test_a_priority_needs_the_policy_for_it() -> None:
    Policy().check_priority(0)
    BY_PRIORITY.check_priority(-100)
    for policy, priority in ((Policy(), 1), (BY_PRIORITY, 101), (BY_PRIORITY, -101)):
        with pytest.raises(BadRequest) as caught:
            policy.check_priority(priority)
        assert caught.value.detail["field"] == "priority"


def test_waiting_makes_up_for_a_lower_priority() -> None:
    low = BY_PRIORITY.urgency(arrived_at=100.0, priority=1)
    assert BY_PRIORITY.urgency(109.9, 0) < low < BY_PRIORITY.urgency(110.1, 0)
    assert Policy().urgency(100.0, 1) < Policy().urgency(100.1, 0), "by arrival alone, priority counts for nothing"


def test_a_long_prompt_lets_short_ones_pass_for_a_while() -> None:
    policy = Policy(long_prompt_threshold=64, long_patience_s=5.0)
    long = policy.rank(100.0, policy.is_long(65), 1)
    assert policy.rank(104.9, policy.is_long(64), 2) < long < policy.rank(105.1, policy.is_long(64), 3)
    assert not Policy().is_long(10_000), "without a threshold no prompt is long"
