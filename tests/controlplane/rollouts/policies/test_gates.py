"""When stages may begin, and what a policy makes of a rollout."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from controlplane.contract.bodies.rollouts import OnInconclusive, RolloutCreate
from controlplane.contract.on_call.rollout_policies import Freeze, Hours, RolloutPolicyCreate, Weekday
from controlplane.rollouts.policies.gates import bounded, is_named, why_closed

MONDAY = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
OFFICE = Hours(opens="09:00", closes="16:30")
NIGHT = Hours(days=[Weekday.MON], opens="22:00", closes="04:00")


def freeze(number: int, hours: float, pool: str | None = None) -> Freeze:
    ends = MONDAY + timedelta(hours=hours)
    return Freeze(
        id=number, pool=pool, starts_at=MONDAY, ends_at=ends, reason="fair", created_by="ann", created_at=MONDAY
    )


@pytest.mark.parametrize(
    ("hours", "day", "clock", "expected"),
    [
        (OFFICE, 0, "08:59", False),
        (OFFICE, 0, "09:00", True),
        (OFFICE, 4, "16:29", True),
        (OFFICE, 0, "16:30", False),
        (OFFICE, 5, "12:00", False),
        (NIGHT, 0, "21:59", False),
        (NIGHT, 0, "22:00", True),
        (NIGHT, 1, "03:59", True),
        (NIGHT, 1, "04:00", False),
        (NIGHT, 1, "22:00", False),
    ],
)
def test_hours_open_and_close_to_the_minute(hours: Hours, day: int, clock: str, expected: bool) -> None:
    hour, minute = map(int, clock.split(":"))
    assert hours.is_open((MONDAY + timedelta(days=day)).replace(hour=hour, minute=minute)) is expected


def test_hours_are_of_their_zone_and_an_unknown_one_is_refused() -> None:
    tokyo = OFFICE.model_copy(update={"zone": "Asia/Tokyo"})
    assert tokyo.is_open(MONDAY.replace(hour=0)) and not tokyo.is_open(MONDAY.replace(hour=8))
    with pytest.raises(ValidationError, match="no such time zone"):
        Hours(opens="09:00", closes="16:30", zone="Moon/Base")


def test_a_freeze_holds_its_pool_or_every_pool_from_its_start_to_its_end() -> None:
    windows = [freeze(1, 1), freeze(2, 2, "chat"), freeze(3, 3, "code")]
    assert why_closed("chat", None, windows, MONDAY - timedelta(seconds=1)) is None
    assert why_closed("chat", None, windows, MONDAY) == "freeze 2 holds pool chat until 2026-11-23 14:00 UTC: fair"
    assert why_closed("other", None, windows, MONDAY) == "freeze 1 holds every pool until 2026-11-23 13:00 UTC: fair"
    assert why_closed("chat", None, windows, MONDAY + timedelta(hours=2)) is None
    said = "pool chat is changed mon, tue, wed, thu, fri from 09:00 to 16:30 (UTC) only"
    assert why_closed("chat", OFFICE, [], MONDAY.replace(hour=20)) == said


@given(st.none() | st.floats(0.01, 1), st.none() | st.floats(0.01, 1))
def test_no_step_is_larger_than_the_policy_allows(asked: float | None, allowed: float | None) -> None:
    spec = RolloutCreate(pool="chat", revision=2, max_step_share=asked)
    became = bounded(spec, RolloutPolicyCreate(pool="chat", max_step_share=allowed)).max_step_share
    assert became == min((share for share in (asked, allowed) if share is not None), default=None)


def test_what_a_rollout_says_of_the_undecided_goes_before_its_policy() -> None:
    policy = RolloutPolicyCreate(pool="chat", on_inconclusive=OnInconclusive.ROLL_BACK)
    assert not bounded(RolloutCreate(pool="chat", revision=2), policy).holds
    assert bounded(RolloutCreate(pool="chat", revision=2, on_inconclusive=OnInconclusive.HOLD), policy).holds


def test_labels_that_a_rollout_names_go_before_its_policys() -> None:
    policy = RolloutPolicyCreate(pool="chat", canary_selector="a=b", wave_by="region", wave_order=["eu-1"])
    policy = policy.model_copy(update={"wave_soak_s": 600.0, "wave_pause": True})
    said = bounded(RolloutCreate(pool="chat", revision=2), policy)
    assert (said.canary_selector, said.wave_by, said.wave_order) == ("a=b", "region", ["eu-1"])
    assert (said.wave_soak_s, said.wave_pause) == (600, True)
    said = bounded(RolloutCreate(pool="chat", revision=2, canary_selector="c", wave_by="zone"), policy)
    assert (said.canary_selector, said.wave_by, said.wave_order) == ("c", "zone", [])
    assert (said.wave_soak_s, said.wave_pause) == (0, False)
    said = bounded(RolloutCreate(pool="chat", revision=2, takes_back=3), policy)
    assert (said.canary_selector, said.wave_by) == ("", "region"), "what hurts is taken back wherever it can be"
    assert (said.wave_soak_s, said.wave_pause) == (0, False), "and soon"
    for field, value in (("wave_soak_s", 5), ("wave_pause", True)):
        with pytest.raises(ValidationError, match=f"{field}: between the values of which label"):
            RolloutCreate.model_validate({"pool": "chat", "revision": 2, field: value})
    with pytest.raises(ValidationError, match="wave_order: of which label"):
        RolloutPolicyCreate(pool="chat", wave_order=["eu-1"])
    with pytest.raises(ValidationError, match="at character 1: wants a label's name"):
        RolloutPolicyCreate(pool="chat", canary_selector="=b")


def test_names_are_compared_as_people_write_them() -> None:
    assert is_named([], ["ann"]) and is_named(["Ann  Lee"], ["ann lee", "laptop"])
    assert not is_named(["eve"], ["ann"])
