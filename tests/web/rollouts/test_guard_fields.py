"""The forms of policies, windows and pins: read as the API takes them, and wrong by field."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.rollouts import OnInconclusive
from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.rollout_policies import Hours, RolloutPolicyCreate, Weekday
from web.rollouts.guard_fields import days_of, policy_said, share_of, wanted_freeze, wanted_pin, wanted_policy

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
CLOCKS = st.times().map(lambda time: f"{time:%H:%M}")
HOURS = st.builds(
    Hours,
    days=st.lists(st.sampled_from(Weekday), min_size=1, unique=True),
    opens=CLOCKS,
    closes=CLOCKS,
    zone=st.sampled_from(["UTC", "Europe/London"]),
)
NAMES = st.lists(st.text("abc d", min_size=1).map(str.strip).filter(bool), max_size=3)


@given(
    st.builds(
        RolloutPolicyCreate,
        pool=st.just("chat"),
        proposers=NAMES,
        approvers=NAMES,
        needs_approval=st.booleans(),
        max_step_share=st.none() | st.integers(1, 1000).map(lambda part: part / 1000),
        hours=st.none() | HOURS,
        on_inconclusive=st.none() | st.sampled_from(OnInconclusive),
        canary_selector=st.sampled_from(["", "region=eu-1, gpu in (H100, H200)", "!spot"]),
        wave_by=st.just("region"),
        wave_soak_s=st.sampled_from([0.0, 1.0, 90.0, 3600.0, 86400.0]),
        wave_pause=st.booleans(),
        wave_order=st.lists(st.sampled_from(["eu-1", "us-2"]), unique=True),
    )
)
def test_what_a_policys_form_says_is_read_as_it_was(policy: RolloutPolicyCreate) -> None:
    assert wanted_policy(policy_said(policy)) == policy


@pytest.mark.parametrize(
    ("text", "days"),
    [("", "mon tue wed thu fri"), ("mon, Wednesday", "mon wed"), ("sat to mon", "sat sun mon"), ("fri", "fri")],
)
def test_days_are_named_or_from_one_to_another(text: str, days: str) -> None:
    assert [day.value for day in days_of(text)] == days.split()


@pytest.mark.parametrize(("text", "share"), [("25 %", 0.25), ("0.25", 0.25), ("25", 0.25), ("0.5%", 0.005), ("", None)])
def test_a_share_is_in_percent_or_a_part_of_one(text: str, share: float | None) -> None:
    assert share_of(text, "step") == share


def test_a_window_is_said_by_moments_or_by_its_length() -> None:
    made = wanted_freeze({"ends": "2d", "reason": "fair"}, NOW)
    assert (made.pool, made.starts_at, made.ends_at) == (None, NOW, NOW + timedelta(days=2))
    made = wanted_freeze(
        {"pool": "chat", "starts": "2026-12-24 12:00", "ends": "2026-12-27T08:00+01:00", "reason": "x"}, NOW
    )
    assert made.starts_at == datetime(2026, 12, 24, 12, tzinfo=UTC)
    assert made.ends_at == datetime(2026, 12, 27, 7, tzinfo=UTC)


def as_freeze(said: dict[str, str]) -> Any:
    return wanted_freeze(said, NOW)


@pytest.mark.parametrize(
    ("read", "said", "field"),
    [
        (wanted_policy, {"pool": ""}, "pool"),
        (wanted_policy, {"pool": "chat", "opens": "09:00"}, "closes"),
        (wanted_policy, {"pool": "chat", "opens": "9", "closes": "16:00"}, "opens"),
        (wanted_policy, {"pool": "chat", "opens": "09:00", "closes": "16:00", "days": "someday"}, "days"),
        (wanted_policy, {"pool": "chat", "opens": "09:00", "closes": "16:00", "zone": "Moon/Base"}, "zone"),
        (wanted_policy, {"pool": "chat", "step": "all"}, "step"),
        (wanted_policy, {"pool": "chat", "canary_selector": "a="}, "canary_selector"),
        (wanted_policy, {"pool": "chat", "wave_order": "eu-1"}, "wave_by"),
        (wanted_policy, {"pool": "chat", "step": "0"}, "step"),
        (as_freeze, {"ends": "", "reason": "x"}, "ends"),
        (as_freeze, {"ends": "soon", "reason": "x"}, "ends"),
        (as_freeze, {"starts": "2027-01-01", "ends": "2026-12-01", "reason": "x"}, "ends"),
        (as_freeze, {"ends": "2d", "reason": " "}, "reason"),
        (wanted_pin, {"pool": "chat", "reason": ""}, "reason"),
        (wanted_pin, {"pool": "", "reason": "x"}, "pool"),
    ],
)
def test_what_is_wrong_is_told_by_the_forms_field(
    read: Callable[[dict[str, str]], Any], said: dict[str, str], field: str
) -> None:
    with pytest.raises(BadRequest) as wrong:
        read(said)
    assert wrong.value.detail["field"] == field
