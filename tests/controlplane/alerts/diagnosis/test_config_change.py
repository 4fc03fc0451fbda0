"""Which revision is named as the cause, and which rollout brought it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.alerts.diagnosis.arrival import Served
from controlplane.alerts.diagnosis.config_change import RevisionSeen, config_changes
from controlplane.alerts.diagnosis.rollout_record import RolloutRecord

KNOBS = {3: {"max_num_batched_tokens": 512}, 4: {"max_num_batched_tokens": 4}, 9: {"max_num_batched_tokens": 64}}


def clock(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-20T{text}").replace(tzinfo=UTC)


def seen(number: int, shares: Sequence[tuple[str, float]], onset: datetime, end: datetime) -> RevisionSeen:
    """A revision whose share of 30 requests a window was, from each time of day on, what stands there."""
    windows = []
    moment = clock("08:40:00")
    while moment < end:
        share = next((value for time, value in reversed(shares) if clock(time) <= moment), 0.0)
        windows.append(Served(moment, round(30 * share), 30))
        moment += timedelta(seconds=5)

    def mean(part: list[Served]) -> float:
        return sum(one.own for one in part) / max(1, sum(one.total for one in part))

    before, during = (
        [one for one in windows if one.start < onset],
        [one for one in windows if one.start >= onset],
    )
    return RevisionSeen(number, mean(before), mean(during), windows)


def causes_of(
    onset: str, end: str, shares: Sequence[tuple[str, float]], rollouts: Sequence[RolloutRecord] = ()
) -> list[dict[str, Any]]:
    """Revision 4 has these shares, revision 3 the rest."""
    began, ended = clock(onset), clock(end)
    rest = [("08:40:00", 1.0), *((time, 1.0 - share) for time, share in shares)]
    revisions = [seen(3, rest, began, ended), seen(4, shares, began, ended)]
    return config_changes(revisions, rollouts, began, KNOBS)


def rollout(number: int, started: str, **more: Any) -> RolloutRecord:
    fields: dict[str, Any] = {"pool": "demo", "revision": 4, "previous_revision": 3, "started_at": clock(started)}
    return RolloutRecord(number=number, **{**fields, **more})


CANARY = rollout(1, "08:44:20", ended_at=clock("08:46:05"), verdict="worse")
EMERGENCY = rollout(
    2,
    "08:47:21",
    ended_at=clock("08:47:23"),
    promoted_at=clock("08:47:23"),
    emergency=True,
    verdict="unjudged",
)


def test_names_the_emergency_and_not_the_canary_that_was_rolled_back_before() -> None:
    """As it was seen: the onset estimated 36 s before the change, the same revision on a canary two minutes earlier."""
    shares = [("08:44:20", 0.5), ("08:46:05", 0.0), ("08:47:25", 0.6), ("08:47:30", 1.0)]
    (cause,) = causes_of("08:46:45", "08:48:30", shares, [CANARY, EMERGENCY])
    assert cause["message"] == (
        "revision 4 (max_num_batched_tokens 512 -> 4), brought by emergency rollout 2, reached half of the pool at "
        "08:47:25 and all of it at 08:47:30"
    )
    assert (cause["rollout_id"], cause["rollout_path"], cause["emergency"], cause["verdict"]) == (
        2,
        "/rollouts/2",
        True,
        "unjudged",
    )
    assert cause["reached_half_at"] == "2026-11-20T08:47:25+00:00"
    assert cause["reached_all_at"] == "2026-11-20T08:47:30+00:00"
    assert (cause["score"], cause["previous_revision"], cause["revision"]) == (0.95, 3, 4)


def test_a_window_that_began_before_the_rollout_does_not_put_it_earlier() -> None:
    (cause,) = causes_of("08:47:20", "08:48:30", [("08:47:20", 1.0)], [EMERGENCY])
    assert cause["reached_all_at"] == "2026-11-20T08:47:21+00:00"


def test_a_canary_that_had_left_before_the_onset_is_not_named() -> None:
    assert causes_of("08:46:45", "08:48:30", [("08:44:20", 0.5), ("08:46:05", 0.0)], [CANARY]) == []


def test_a_canary_under_judgement_is_named_with_its_share() -> None:
    (cause,) = causes_of("08:44:30", "08:45:30", [("08:44:25", 0.3)], [rollout(1, "08:44:20")])
    assert cause["message"].endswith("brought by rollout 1, serves 30 % of the requests, since 08:44:25")
    assert cause["reached_half_at"] is None and cause["verdict"] is None


def test_a_canary_withdrawn_during_the_slowdown_says_so() -> None:
    shares = [("08:44:20", 0.5), ("08:46:05", 0.0)]
    (cause,) = causes_of("08:44:30", "08:46:25", shares, [CANARY])
    assert cause["message"].endswith("reached half of the pool at 08:44:20, and was withdrawn by 08:46:05")
    assert causes_of("08:44:30", "08:48:30", shares, [CANARY]) == [], "the slowdown went on without it for long"


def test_a_revision_that_is_being_withdrawn_is_not_the_cause() -> None:
    """The share of revision 4 falls at the onset: whatever became slower, it was not brought by it."""
    began = clock("08:45:00")
    going = seen(4, [("08:40:00", 1.0), ("08:45:00", 0.0)], began, clock("08:46:00"))
    staying = seen(4, [("08:40:00", 1.0), ("08:45:00", 0.2)], began, clock("08:46:00"))
    for old in (going, staying):
        assert config_changes([old], [], began) == []
    still_here = seen(4, [("08:42:00", 1.0), ("08:45:00", 0.5)], began, clock("08:46:00"))
    assert still_here.during_share < still_here.before_share
    assert config_changes([still_here], [], began) == []


def test_what_came_clearly_after_the_onset_is_not_named() -> None:
    for at, named in (("08:47:00", True), ("08:47:05", False)):
        assert bool(causes_of("08:46:00", "08:48:30", [(at, 1.0)])) is named


def test_the_latest_of_two_stays_and_the_newest_of_two_rollouts_are_named() -> None:
    """The canary has just gone as the whole pool gets the same revision: either could be meant by the share alone."""
    soon = rollout(2, "08:46:50", emergency=True, verdict="unjudged")
    canary = rollout(1, "08:44:20", ended_at=clock("08:46:35"), verdict="worse")
    shares = [("08:44:20", 0.5), ("08:46:35", 0.0), ("08:46:50", 1.0)]
    (cause,) = causes_of("08:46:00", "08:47:00", shares, [canary, soon])
    assert (cause["rollout_id"], cause["reached_all_at"]) == (2, "2026-11-20T08:46:50+00:00")


def test_a_negligible_share_is_not_named_even_when_it_grew_later() -> None:
    assert causes_of("08:46:00", "08:48:30", [("08:45:50", 0.04)]) == []
    assert causes_of("08:46:00", "08:48:30", [("08:45:50", 0.04), ("08:47:30", 1.0)]) == []


@pytest.mark.parametrize(("came", "score"), [("08:47:00", 0.95), ("08:43:00", 0.95), ("08:42:55", 0.5)])
def test_nearness_to_the_onset_makes_it_likely(came: str, score: float) -> None:
    (cause,) = causes_of("08:48:00", "08:49:00", [(came, 1.0)])
    assert cause["score"] == score


def test_without_a_rollout_the_share_alone_tells() -> None:
    (cause,) = causes_of("08:46:00", "08:47:00", [("08:46:00", 1.0)])
    assert "rollout_id" not in cause and cause["previous_revision"] == 3
    assert cause["message"] == "revision 4 (max_num_batched_tokens 512 -> 4) reached all of the pool at 08:46:00"


def test_an_older_rollout_of_the_same_revision_did_not_bring_it() -> None:
    old = rollout(1, "07:10:00", ended_at=clock("07:12:00"), promoted_at=clock("07:12:00"))
    (cause,) = causes_of("08:46:00", "08:47:00", [("08:46:00", 1.0)], [old])
    assert "rollout_id" not in cause


def test_the_knobs_are_compared_with_what_the_rollout_replaced() -> None:
    """Engines that were never given a revision report under 0: their pool's revision is known from the rollout."""
    began, end = clock("08:46:00"), clock("08:47:00")
    revisions = [
        seen(0, [("08:40:00", 1.0), ("08:46:00", 0.0)], began, end),
        seen(4, [("08:46:00", 1.0)], began, end),
    ]
    (cause,) = config_changes(revisions, [rollout(2, "08:45:58", previous_revision=9)], began, KNOBS)
    assert cause["changed"] == {"max_num_batched_tokens": [64, 4]} and cause["previous_revision"] == 9


def test_all_of_the_pool_is_known_from_the_nodes_where_requests_have_not_told_yet() -> None:
    promoted = rollout(2, "08:46:00", ended_at=clock("08:46:20"), promoted_at=clock("08:46:20"))
    (cause,) = causes_of("08:46:00", "08:47:00", [("08:46:00", 0.7)], [promoted])
    assert cause["message"].endswith("reached half of the pool at 08:46:00 and all of it at 08:46:20")
