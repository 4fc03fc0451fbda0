"""A mark of others is a cause where chance would seldom bring one so near, and behind what is measured."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.alerts.diagnosis.causes import Context, causes
from controlplane.alerts.diagnosis.change_event import MOST_BY_CHANCE, behind_measured, change_events
from controlplane.alerts.diagnosis.plausibility import PRIOR
from controlplane.contract.on_call.attribution import Attribution, ChangedAt

AT = datetime(2030, 1, 1, 12, tzinfo=UTC)
SINCE = ChangedAt(at=AT, low=AT - timedelta(seconds=10), high=AT + timedelta(seconds=10))


def mark(lag_s: float, subject: str = "event/1") -> dict[str, Any]:
    time = (AT - timedelta(seconds=lag_s)).isoformat()
    told = {"time": time, "kind": "event.posted", "subject": subject, "message": "deploy: gateway 4.2.1"}
    return {**told, "link": f"https://ci/{subject}"}


def attribution(since: ChangedAt | None = SINCE) -> Attribution:
    return Attribution(metric="ttft", q=0.99, before_s=0.1, during_s=0.2, places=[], since=since)


def test_a_mark_shortly_before_is_the_cause_where_nothing_else_changed() -> None:
    (found,) = causes(Context(marks=[mark(54.0), mark(3000.0, "event/0")]), AT, attribution())
    chance = found["by_chance"]
    assert (found["cause"], found["event"], found["link"]) == ("change_event", "event/1", "https://ci/event/1")
    assert found["score"] == pytest.approx(PRIOR["change_event"] * (1.0 - chance), abs=1e-4)
    assert chance == pytest.approx(2 * 64 / 3600, rel=0.02)
    words = "deploy: gateway 4.2.1 came 54.0 s before it began (by chance one comes so near in 3 % of cases)"
    assert found["message"] == words


def test_the_longer_ago_the_less_plausible() -> None:
    scores = [change_events([mark(lag_s)], SINCE)[0]["score"] for lag_s in (-5.0, 20.0, 100.0, 300.0)]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == 4


@pytest.mark.parametrize("since", [None, SINCE])
def test_no_mark_or_no_moment_no_cause(since: ChangedAt | None) -> None:
    found = causes(Context(marks=[] if since is not None else [mark(54.0)]), AT, attribution(since))
    assert [one["cause"] for one in found] == ["unknown"]


def test_where_marks_come_all_the_time_none_is_a_cause() -> None:
    often = [mark(54.0 + 120.0 * place, f"event/{place}") for place in range(20)]
    assert not change_events(often, SINCE)
    assert change_events([often[0], mark(4000.0)], SINCE), "what is an hour old does not count"


@pytest.mark.parametrize("an_hour", [0.5, 4.0, 30.0])
def test_marks_that_have_to_do_with_nothing_are_seldom_taken_for_causes(an_hour: float) -> None:
    """Poisson marks over two hours before it began: as often as is said, at most, one is named."""
    chance, named = random.Random(7), 0
    for _ in range(2000):
        lag_s, marks = -10.0, []
        while (lag_s := lag_s + chance.expovariate(an_hour / 3600.0)) < 7200.0:
            marks.append(mark(lag_s, f"event/{len(marks)}"))
        named += bool(change_events(marks, SINCE))
    assert 0 < named <= 1.15 * MOST_BY_CHANCE * 2000


LOAD = {"cause": "load", "score": 0.8, "message": "load", "share_explained": 0.9}
HOST = {"cause": "host", "score": 0.6, "message": "host"}
WEAK = {"cause": "preemption", "score": 0.19, "message": "memory", "share_explained": 0.25}
MARK = {"cause": "change_event", "score": 0.95, "message": "deploy"}


@pytest.mark.parametrize(
    ("others", "order", "score"),
    [
        ([], ["change_event"], 0.95),
        ([LOAD], ["load", "change_event"], 0.095),
        ([HOST], ["host", "change_event"], 0.6),
        ([HOST, LOAD], ["load", "host", "change_event"], 0.095),
        ([WEAK], ["change_event", "preemption"], 0.7125),
    ],
)
def test_what_is_measured_and_explains_it_goes_before(others: list[Any], order: list[str], score: float) -> None:
    found = behind_measured([*others, MARK])
    assert [one["cause"] for one in found] == order
    assert next(one["score"] for one in found if one["cause"] == "change_event") == pytest.approx(score)
    assert behind_measured(found) == found


@pytest.mark.parametrize("share", [0.4, 0.5, 0.6, 0.8, 1.0])
def test_however_often_marks_were_right(share: float) -> None:
    measured = {**LOAD, "score": 0.05 * share, "share_explained": share}
    assert [one["cause"] for one in behind_measured([MARK, measured])] == ["load", "change_event"]
