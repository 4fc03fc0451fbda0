"""Which alerts are of one cause: the rules by example, and what holds whatever the alerts are."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.alerts import Alert, Severity
from controlplane.incidents.same_cause import Grouped, Sign, joining, leading, sign_of, worst

KEY = {"pool": "chat"}
Make = Callable[..., Alert]


def incident(*alerts: Alert, number: int = 1, is_open: bool = True) -> Grouped:
    return Grouped(number, None, KEY, tuple(map(sign_of, alerts)), is_open)


def config_change(revision: int) -> list[dict[str, object]]:
    return [{"cause": "config_change", "score": 0.9, "message": "m", "revision": revision}]


def test_a_sum_and_its_stage_are_one(alert: Make) -> None:
    ttft = alert(1, stage="prefill")
    late = alert(2, began_s=1800, labels={"metric": "prefill"})
    found = joining(sign_of(late), None, KEY, [incident(ttft)])
    assert found is not None and "prefill explains it" in found.why


def test_two_sums_with_the_same_stage_are_one_long_after(alert: Make) -> None:
    late = alert(2, began_s=4000, stage="queue", labels={"metric": "e2e"})
    assert joining(sign_of(late), None, KEY, [incident(alert(1, stage="queue"))]) is not None


def test_one_revision_is_one_cause_also_when_the_first_alert_is_over(alert: Make) -> None:
    first = alert(1, ended_s=100, causes=config_change(3))
    late = alert(2, began_s=3000, labels={"metric": "itl"}, causes=config_change(3))
    other = alert(3, began_s=3000, labels={"metric": "itl"}, causes=config_change(4))
    assert joining(sign_of(late), None, KEY, [incident(first)]) is not None
    assert joining(sign_of(other), None, KEY, [incident(first)]) is None


def test_the_fleet_is_over_its_nodes(alert: Make) -> None:
    one, two = (alert(n, began_s=2000 * n, labels={"kind": "drift", "metric": "", "node": f"gpu-{n}"}) for n in (1, 2))
    found = joining(sign_of(two), None, KEY, [incident(one)])
    assert found is not None and found.why == "another place of the same: node gpu-2 beside node gpu-1"


def test_onsets_at_one_time_in_one_pool_are_one(alert: Make) -> None:
    drift = {"kind": "drift", "metric": "", "node": "gpu-1"}
    assert joining(sign_of(alert(2, began_s=200, labels=drift)), None, KEY, [incident(alert(1))]) is not None
    assert joining(sign_of(alert(2, began_s=400, labels=drift)), None, KEY, [incident(alert(1))]) is None


def test_what_is_over_comes_back_by_the_same_alert_alone(alert: Make) -> None:
    over = incident(alert(1, ended_s=60, stage="queue"), is_open=False)
    assert joining(sign_of(alert(2, began_s=90, stage="queue")), None, KEY, [over]) is None
    again = joining(sign_of(alert(3, began_s=900, fingerprint="print-1")), None, KEY, [over])
    assert again is not None and again.why == "alert 1 fired again"


@pytest.mark.parametrize(("route", "key"), [(7, KEY), (None, {"pool": "batch"})])
def test_never_of_another_route_or_group(alert: Make, route: int | None, key: dict[str, str]) -> None:
    assert joining(sign_of(alert(2)), route, key, [incident(alert(1))]) is None


def test_the_stronger_reason_wins_over_the_newer_incident(alert: Make) -> None:
    near = incident(alert(2, began_s=90, labels={"metric": "itl"}), number=9)
    same_stage = incident(alert(1, stage="prefill"), number=3)
    found = joining(sign_of(alert(5, began_s=100, stage="prefill")), None, KEY, [near, same_stage])
    assert found is not None and found.incident_id == 3


def test_what_tells_most_leads(alert: Make) -> None:
    node = alert(1, labels={"node": "gpu-1"})
    stage = alert(2, began_s=5, labels={"metric": "prefill"})
    total = alert(3, began_s=9)
    ticket = alert(4, severity=Severity.TICKET)
    assert leading([sign_of(one) for one in (node, stage, ticket, total)]).alert_id == 3
    assert worst([Severity.TICKET, Severity.PAGE]) is Severity.PAGE and worst([Severity.TICKET]) is Severity.TICKET


SIGNS = st.builds(
    Sign,
    alert_id=st.integers(1, 50),
    fingerprint=st.sampled_from("abcdef"),
    kind=st.sampled_from(["regression", "drift"]),
    pool=st.sampled_from(["chat", "batch", ""]),
    severity=st.sampled_from(Severity),
    started=st.integers(0, 3600).map(lambda s: datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=s)),
    metric=st.sampled_from(["", "ttft", "e2e", "prefill"]),
    stage=st.sampled_from(["", "prefill", "queue"]),
    node=st.sampled_from(["", "gpu-1", "gpu-2"]),
    revision=st.none() | st.integers(1, 2),
)
INCIDENTS = st.lists(
    st.builds(
        Grouped,
        incident_id=st.integers(1, 99),
        route=st.none() | st.integers(1, 2),
        key=st.sampled_from([{}, {"pool": "chat"}]),
        signs=st.lists(SIGNS, min_size=1, max_size=3).map(tuple),
        is_open=st.booleans(),
    ),
    max_size=5,
    unique_by=lambda one: one.incident_id,
)


@given(SIGNS, INCIDENTS, st.randoms())
def test_the_order_of_incidents_says_nothing(sign: Sign, incidents: list[Grouped], random: object) -> None:
    shuffled = list(incidents)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert joining(sign, None, {}, incidents) == joining(sign, None, {}, shuffled)


@given(SIGNS, INCIDENTS, st.none() | st.integers(1, 2), st.sampled_from([{}, {"pool": "chat"}]))
def test_the_incident_is_one_of_its_route_and_group(
    sign: Sign, incidents: list[Grouped], route: int | None, key: dict[str, str]
) -> None:
    found = joining(sign, route, key, incidents)
    if found is not None:
        (home,) = [one for one in incidents if one.incident_id == found.incident_id]
        assert (home.route, home.key) == (route, key)
        assert home.is_open or sign.fingerprint in {other.fingerprint for other in home.signs}


@given(SIGNS, SIGNS)
def test_being_of_one_cause_is_mutual(one: Sign, other: Sign) -> None:
    one = replace(one, alert_id=1)
    other = replace(other, alert_id=2)
    there = joining(one, None, {}, [Grouped(1, None, {}, (other,))])
    back = joining(other, None, {}, [Grouped(1, None, {}, (one,))])
    assert (there is None) == (back is None)
    assert there is None or back is None or there.strength == back.strength


def test_of_what_pages_an_alert_of_our_own_leads(alert: Make) -> None:
    theirs = sign_of(alert(1).model_copy(update={"source": "grafana", "rule": "Down"}))
    assert theirs.foreign and (theirs.kind, theirs.metric) == ("grafana: Down", "")
    assert leading([theirs, sign_of(alert(2, began_s=9, labels={"node": "gpu-1"}))]).alert_id == 2
    assert leading([theirs, sign_of(alert(2, severity=Severity.TICKET))]).alert_id == 1


def test_of_a_flood_two_tell_as_much_as_all(alert: Make) -> None:
    """That which lasts longest, and that which began last: whatever else is alike is not compared with."""
    flood = [
        alert(n, began_s=n, ended_s=n + 50.0, labels={"kind": "drift", "metric": "", "node": "a"}) for n in (3, 1, 2)
    ]
    flood += [alert(4, began_s=0, ended_s=4000, labels={"kind": "drift", "metric": "", "node": "a"})]
    grouped = incident(*flood)
    assert sorted(sign.alert_id for sign in grouped.signs) == [3, 4]
    late = alert(9, began_s=4100, labels={"kind": "drift", "metric": "", "node": "b"})
    found = joining(sign_of(late), None, KEY, [grouped])
    assert found is not None and found.why == "another place of the same: node b beside node a"
    again = joining(sign_of(alert(9, began_s=4100, fingerprint="print-2")), None, KEY, [grouped])
    assert again is not None and again.why == "alert 2 fired again"
    near = joining(sign_of(alert(9, began_s=200)), None, KEY, [grouped])
    assert near is not None and near.why == "it began with alert 4 in the same pool"


def test_a_rollout_that_waits_for_somebody_is_of_no_other_cause(alert: Make) -> None:
    waits = alert(2, labels={"kind": "rollout_waits", "metric": "", "rollout": "3"})
    again = alert(3, began_s=60, labels={"kind": "rollout_waits", "metric": "", "rollout": "4"})
    assert joining(sign_of(waits), None, KEY, [incident(alert(1))]) is None
    assert joining(sign_of(alert(1)), None, KEY, [incident(waits)]) is None
    assert joining(sign_of(again), None, KEY, [incident(waits)]) is None
    assert joining(sign_of(waits), None, KEY, [incident(waits)]) is not None
