"""What bounds a rollout: what stops it first, each with the place where it stands."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.contract.on_call.rollout_policies import Freeze, Hours, Pin, RolloutPolicy, Weekday
from web.rollouts.holds import Hold, holds_of, hours_words

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
"""A Monday."""


def freeze(number: int, pool: str | None, begins_h: float = -1, ends_h: float = 1) -> Freeze:
    times = {"starts_at": NOON + timedelta(hours=begins_h), "ends_at": NOON + timedelta(hours=ends_h)}
    return Freeze(id=number, pool=pool, reason="fair", created_by="ann", created_at=NOON, **times)


def pin(number: int, node: str | None, revision: int = 3, pool: str = "chat") -> Pin:
    return Pin(
        id=number, pool=pool, node=node, revision=revision, reason="looked at", created_by="ann", created_at=NOON
    )


def policy(**more: object) -> RolloutPolicy:
    return RolloutPolicy.model_validate({"id": 5, "pool": "chat", "updated_by": "ann", "updated_at": NOON, **more})


def told(found: list[Hold]) -> list[tuple[str, str, bool]]:
    return [(one.words, one.address.partition("#")[2], one.stops) for one in found]


def test_windows_of_now_and_of_this_pool_stop_it() -> None:
    windows = [freeze(1, None), freeze(2, "code"), freeze(3, "chat", 1, 2), freeze(4, "chat", -2, 0)]
    (found,) = holds_of("chat", 2, None, windows, [], NOON)
    assert told([found]) == [("Freeze 1 holds every pool", "freeze-1", True)]
    assert (found.until, found.reason) == (NOON + timedelta(hours=1), "fair")


def test_what_the_policy_chooses_by_labels_is_told() -> None:
    by_label = policy(canary_selector="gpu in (H100, H200)", wave_by="region", wave_order=["eu-1", "us-2"])
    by_label = by_label.model_copy(update={"wave_soak_s": 600.0, "wave_pause": True})
    assert told(holds_of("chat", 2, by_label, [], [], NOON)) == [
        ("The canary is one of gpu in (H100, H200)", "policy-5", False),
        ("Waves go by region, one after another: eu-1, us-2, then any other", "policy-5", False),
        ("Each region is watched on for 600 s before the next", "policy-5", False),
        ("A person resumes between one region and the next", "policy-5", False),
    ]


def test_a_pinned_pool_stops_any_other_revision_and_pinned_nodes_are_left_out() -> None:
    pins = [pin(1, "gpu-1"), pin(2, None), pin(3, None, pool="code")]
    assert told(holds_of("chat", 2, None, [], pins, NOON)) == [
        ("Pool chat is pinned to revision 3", "pin-2", True),
        ("gpu-1 is pinned to revision 3 and left out", "pin-1", False),
    ]
    assert not any(one.stops for one in holds_of("chat", 3, None, [], pins, NOON))
    many = [pin(number, f"gpu-{number}") for number in range(1, 8)]
    assert told(holds_of("chat", 2, None, [], many, NOON)) == [("7 nodes are pinned and left out", "pins", False)]


def test_a_policy_says_who_how_much_and_when() -> None:
    office = {"opens": "09:00", "closes": "16:30"}
    bound = policy(hours=office, proposers=["ann"], needs_approval=True, approvers=["ben"], max_step_share=0.25)
    found = told(holds_of("chat", 2, bound, [], [], NOON))
    assert [words for words, _, _ in found] == [
        "Stages begin mon to fri, 09:00 to 16:30 (UTC): now",
        "Proposed by ann alone",
        "Approved by ben before it begins",
        "At most 25 % of the pool at once",
    ]
    assert {address for _, address, _ in found} == {"policy-5"} and not any(stops for *_, stops in found)
    night = holds_of("chat", 2, bound, [], [], NOON + timedelta(hours=8))
    assert told(night)[0] == ("Stages begin mon to fri, 09:00 to 16:30 (UTC): not now", "policy-5", True)


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (list(Weekday), "every day"),
        (list(Weekday)[1:4], "tue to thu"),
        ([Weekday.MON, Weekday.TUE], "mon, tue"),
        ([Weekday.FRI, Weekday.MON, Weekday.WED], "mon, wed, fri"),
    ],
)
def test_days_are_told_in_the_weeks_order(days: list[Weekday], words: str) -> None:
    assert hours_words(Hours(days=days, opens="22:00", closes="04:00")) == f"{words}, 22:00 to 04:00 (UTC)"
