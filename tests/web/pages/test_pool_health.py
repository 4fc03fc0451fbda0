"""How a pool is said to be: healthy, worth a look, burning, quiet; against what is usual and its objectives."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.alerts import Alert, AlertRule
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.telemetry import QuantileSeries, RateSeries
from web.drawing.sparkline import Baseline
from web.frame.states import Kind
from web.pages.pool_health import (
    Health,
    Objective,
    Traffic,
    fleet_sentence,
    health_of,
    limits_of,
    share_words,
    traffic_of,
    usual_of,
    worst_first,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
USUAL = Baseline(0.6, 0.8, 1.0)
POINTS = [(1.0, 0.8)]


def alert(state: str, severity: str = "page", *, silenced: bool = False) -> Alert:
    told = {"id": 1, "fingerprint": "f", "rule_id": 1, "rule": "r", "state": state, "severity": severity}
    told |= {"labels": {"pool": "chat"}, "summary": "s", "started_at": NOW, "silenced": silenced}
    return Alert.model_validate(told)


def health(tail_s: float | None, **more: Any) -> Health:
    now = None if tail_s is None else QuantileSeries(labels={"pool": "chat"}, count=500, quantiles={"0.99": tail_s})
    told: dict[str, Any] = {"points": POINTS, "usual": USUAL, "usual_when": "a day earlier", "other": {}}
    told |= {"traffic": Traffic(), "objectives": [], "alerts": []}
    return health_of("chat", now=now, **(told | more))


def rule(**condition: Any) -> AlertRule:
    told = {"id": 1, "created_at": NOW, "name": "slo", "condition": {"kind": "absolute", **condition}}
    return AlertRule.model_validate(told)


def test_a_tail_as_usual_is_healthy_and_says_with_what_it_was_compared() -> None:
    found = health(0.82)
    assert (found.kind, found.sentence) == (Kind.GOOD, "TTFT p99 820 ms, as a day earlier (800 ms).")


def test_a_tail_above_all_that_is_usual_is_worth_a_look() -> None:
    found = health(1.6)
    assert (found.kind, found.word) == (Kind.WARN, "worth a look")
    assert found.sentence == "TTFT p99 1.60 s, 2 times the 800 ms of a day earlier."


def test_a_missed_objective_burns_whatever_is_usual() -> None:
    missed = Objective(Limit(metric="ttft", q=0.95, limit_s=0.5), 0.7)
    found = health(0.8, objectives=[missed])
    assert found.kind is Kind.BAD
    assert found.sentence.endswith("; over its objective: TTFT p95 at most 500 ms (is 700 ms).")


def test_a_page_burns_a_ticket_is_worth_a_look_and_a_silence_hides_both() -> None:
    assert health(0.8, alerts=[alert("firing")]).kind is Kind.BAD
    assert health(0.8, alerts=[alert("firing", "ticket")]).kind is Kind.WARN
    assert health(0.8, alerts=[alert("firing", silenced=True)]).kind is Kind.GOOD


def test_nothing_heard_is_neither_good_nor_bad() -> None:
    assert (health(None).kind, health(None, points=[]).kind) == (Kind.STALE, Kind.UNKNOWN)


def test_few_requests_are_told() -> None:
    few = QuantileSeries(labels={}, count=7, quantiles={"0.99": 0.8})
    told: dict[str, Any] = {"points": POINTS, "usual": None, "usual_when": "", "other": {}, "traffic": Traffic()}
    found = health_of("chat", now=few, objectives=[], alerts=[], **told)
    assert found.sentence == "TTFT p99 800 ms of only 7 requests; nothing older to compare with."


def test_lost_requests_are_a_share_of_those_offered_to_the_end() -> None:
    rates = [
        RateSeries(labels={"finish_reason": reason}, total=total, seconds=10, per_second=total / 10, requests=None)
        for reason, total in {"stop": 90.0, "refused": 10.0, "abort": 50.0}.items()
    ]
    found = traffic_of(rates, None)
    assert (found.failed, found.served, found.requests) == (0.1, 0.9, 15.0)
    assert traffic_of([], None).served is None


def test_the_strictest_limit_of_each_quantile_holds_and_disabled_or_foreign_rules_do_not() -> None:
    strict = rule(limits=[{"metric": "ttft", "q": 0.95, "limit_s": 0.4}])
    foreign = strict.model_copy(update={"pool": "code"})
    off = strict.model_copy(update={"enabled": False})
    found = limits_of("chat", [rule(profile="chat"), strict, foreign, off])
    assert [(limit.metric, limit.limit_s) for limit in found] == [("ttft", 0.4), ("itl", 0.2)]
    assert limits_of("chat", [foreign, off]) == []


@given(st.lists(st.floats(0.001, 100), max_size=40))
def test_what_is_usual_lies_within_what_was(values: list[float]) -> None:
    found = usual_of([(float(at), value) for at, value in enumerate(values)])
    if len(values) < 5:
        assert found is None
    else:
        assert found is not None
        bounds = (min(values), found.low, found.middle, found.high, max(values))
        assert all(less <= more + 1e-9 for less, more in pairwise(bounds))


def test_the_fleet_is_told_worst_first() -> None:
    good, bad = health(0.8), health(0.8, alerts=[alert("firing")])
    ordered = worst_first([good, bad])
    assert ordered == [bad, good]
    assert fleet_sentence(ordered).startswith("chat is burning: TTFT p99 800 ms")
    assert fleet_sentence(ordered).endswith("Chat is healthy.")
    assert fleet_sentence([good, good]) == "All 2 pools are healthy."
    assert fleet_sentence([]) == "No pool serves yet."


def test_shares_near_the_whole_keep_their_digits() -> None:
    assert [share_words(one) for one in (1.0, 0.9995, 0.9, None)] == ["100.0 %", "99.95 %", "90.0 %", "–"]


def test_without_a_past_and_without_objectives_nobody_can_call_it_healthy() -> None:
    new = health(33.8, usual=None)
    assert (new.kind, new.word) == (Kind.UNKNOWN, "new here")
    assert fleet_sentence([new]) == "chat is new here: TTFT p99 33.8 s; nothing older to compare with."
    assert (
        health(0.4, usual=None, objectives=[Objective(Limit(metric="ttft", q=0.95, limit_s=0.5), 0.3)]).kind
        is Kind.GOOD
    )
