"""Which node is in alarm: the one that got slower by itself, and no other."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from controlplane.alerts.regressions.learner import BUCKETS_PART, FLEET_PART
from controlplane.alerts.regressions.node_course import Itself
from controlplane.alerts.regressions.node_watch import (
    GONE_S,
    MORE_LOAD,
    NODES_PART,
    OWN_PART,
    SETTLE_S,
    NodeWatch,
    is_its_own,
)
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.pool_record import NOTHING_KNOWN, Move, PoolRecord
from controlplane.contract.bodies.alerts import RegressionCondition
from tests.controlplane.alerts.regressions.served_by_nodes import METRIC, ServedByNodes

CONDITION = RegressionCondition(metrics=[METRIC])
PAST_S = 4800.0
FOUR = {"a": 1.0, "b": 1.0, "c": 1.3, "d": 0.8}
TWO = {"a": 1.0, "b": 1.2}


def watched(pool: ServedByNodes) -> NodeWatch:
    """With its past learnt, all being well."""
    pool.serve(PAST_S)
    watch = NodeWatch(METRIC, CONDITION)
    judge(watch, pool, pool.windows[-1:])
    assert watch.course is not None and not watch.alarmed
    return watch


def judge(
    watch: NodeWatch, pool: ServedByNodes, windows: Sequence[Window], record: PoolRecord = NOTHING_KNOWN
) -> set[str]:
    """All nodes that came into alarm."""
    found: set[str] = set()
    for window in windows:
        watch.judge(window, pool.windows, record, 1)
        found |= set(watch.alarmed)
    return found


MIXED = {"a": {"<=512": 0, "<=2k": 8}}
CASES: dict[str, tuple[Mapping[str, float], dict[str, Any], set[str]]] = {
    "nothing": (FOUR, {}, set()),
    "one of four": (FOUR, {"factors": {"a": 1.5}}, {"a"}),
    "one of four whose hardware is slow": (FOUR, {"factors": {"c": 1.5}}, {"c"}),
    "two of four": (FOUR, {"factors": {"a": 1.5, "c": 1.5}}, {"a", "c"}),
    "all of them": (FOUR, {"everywhere": 1.5}, set()),
    "one of two": (TWO, {"factors": {"a": 1.5}}, {"a"}),
    "the other of two got quicker": (TWO, {"factors": {"b": 0.6}}, set()),
    "one of four got quicker": (FOUR, {"factors": {"b": 0.5}}, set()),
    "all but one got quicker": (FOUR, {"factors": {"b": 0.6, "c": 0.6, "d": 0.6}}, set()),
    "a slow one leaves": (FOUR, {"nodes": {"a": 1.0, "b": 1.0, "d": 0.8}}, set()),
    "a quick one leaves": (FOUR, {"nodes": {"a": 1.0, "b": 1.0, "c": 1.3}}, set()),
    "a quick one joins": (FOUR, {"nodes": {**FOUR, "new": 0.4}}, set()),
    "a slow one joins": (FOUR, {"nodes": {**FOUR, "new": 3.0}}, set()),
    "one joins while another is slow": (FOUR, {"nodes": {**FOUR, "new": 1.0}, "factors": {"b": 1.5}}, {"b"}),
    "only long prompts now": (FOUR, {"requests": MIXED}, set()),
    "only long prompts now, and slow": (FOUR, {"requests": MIXED, "factors": {"a": 1.5}}, {"a"}),
    "more requests, slower for them": (
        FOUR,
        {"requests": {"a": {"<=512": 10, "<=2k": 6}}, "factors": {"a": 1.3}},
        set(),
    ),
    "fewer requests, and slow": (FOUR, {"requests": {"a": {"<=512": 2, "<=2k": 1}}, "factors": {"a": 1.6}}, {"a"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_who_is_in_alarm(case: str) -> None:
    hardware, how, alarmed = CASES[case]
    pool = ServedByNodes(hardware)
    watch = watched(pool)
    assert judge(watch, pool, pool.serve(600.0, **how)) == alarmed


def test_it_is_told_within_a_minute_and_names_when_it_began() -> None:
    pool = ServedByNodes(FOUR)
    watch = watched(pool)
    begun_s = pool.now_s
    assert judge(watch, pool, pool.serve(60.0, {"b": 1.5})) == {"b"}
    onset_s = watch.streams["b"].onset_s
    assert onset_s is not None and abs(onset_s - begun_s) <= 10.0
    found = watch.itself("b")
    assert found is not None and found.rise == pytest.approx(math.log(1.5), abs=0.12)
    assert found.during_s / found.before_s == pytest.approx(math.exp(found.rise))


@pytest.mark.slow
def test_it_ends_when_the_node_is_back_and_comes_again() -> None:
    pool = ServedByNodes(FOUR)
    watch = watched(pool)
    judge(watch, pool, pool.serve(120.0, {"b": 1.5}))
    judge(watch, pool, pool.serve(300.0))
    assert not watch.alarmed
    assert judge(watch, pool, pool.serve(120.0)) == set()
    assert judge(watch, pool, pool.serve(120.0, {"b": 1.5})) == {"b"}


@pytest.mark.slow
def test_one_that_is_gone_ends_its_alarm() -> None:
    pool = ServedByNodes(FOUR)
    watch = watched(pool)
    judge(watch, pool, pool.serve(120.0, {"b": 1.5}))
    judge(watch, pool, pool.serve(GONE_S - 10.0, nodes={"a": 1.0, "c": 1.3, "d": 0.8}))
    assert watch.alarmed == ["b"]
    judge(watch, pool, pool.serve(20.0, nodes={"a": 1.0, "c": 1.3, "d": 0.8}))
    assert not watch.alarmed


@pytest.mark.slow
def test_an_alarm_of_hours_does_not_become_usual() -> None:
    pool = ServedByNodes(FOUR)
    watch = watched(pool)
    judge(watch, pool, pool.serve(120.0, {"b": 1.5}))
    judge(watch, pool, pool.serve(2 * 3600.0, {"b": 1.5}))
    assert watch.alarmed == ["b"]


@pytest.mark.slow
def test_what_is_kept_brings_the_alarm_back() -> None:
    """As after a start anew: what was usual before the onset is learnt again, and the alarm stands, and ends."""
    pool = ServedByNodes(FOUR)
    watch = watched(pool)
    judge(watch, pool, pool.serve(120.0, {"b": 1.5}))
    again = NodeWatch(METRIC, CONDITION)
    again.load(json.loads(json.dumps(watch.dump())))
    judge(again, pool, pool.serve(60.0, {"b": 1.5}))
    assert again.alarmed == ["b"] and again.itself("b") is not None
    judge(again, pool, pool.serve(300.0))
    assert not again.alarmed


@pytest.mark.slow
class TestChanges:
    def test_a_node_on_trial_is_the_rollouts_and_settles_after_it(self) -> None:
        pool = ServedByNodes(FOUR)
        watch = watched(pool)
        trial = PoolRecord(on_trial=frozenset({"b"}))
        assert judge(watch, pool, pool.serve(300.0, {"b": 1.5}), trial) == set()
        assert judge(watch, pool, pool.serve(SETTLE_S - 60.0, {"b": 1.5})) == set()
        assert judge(watch, pool, pool.serve(600.0)) == set()
        assert judge(watch, pool, pool.serve(120.0, {"b": 1.5})) == {"b"}

    def test_another_is_judged_while_one_is_on_trial(self) -> None:
        pool = ServedByNodes(FOUR)
        watch = watched(pool)
        trial = PoolRecord(on_trial=frozenset({"b"}))
        assert judge(watch, pool, pool.serve(120.0, {"c": 1.5}), trial) == {"c"}

    def test_while_a_pool_goes_over_wave_by_wave_nothing_is_compared(self) -> None:
        pool = ServedByNodes(FOUR)
        watch = watched(pool)
        going = PoolRecord(changing=((pool.now_s, math.inf),))
        assert judge(watch, pool, pool.serve(300.0, {"a": 1.4, "b": 1.4}), going) == set()
        done = PoolRecord(changing=((going.changing[0][0], pool.now_s),))
        assert judge(watch, pool, pool.serve(600.0, everywhere=1.4), done) == set()
        assert judge(watch, pool, pool.serve(120.0, {"b": 1.5}, everywhere=1.4), done) == {"b"}

    def test_another_engine_begins_anew(self) -> None:
        pool = ServedByNodes(FOUR)
        watch = watched(pool)
        record = PoolRecord(moves={METRIC: (Move(-1, pool.now_s, None, "vllm 2"),)})
        assert judge(watch, pool, pool.serve(600.0, {"b": 1.5}), record) == set()
        assert watch.course is None
        judge(watch, pool, pool.serve(4000.0, {"b": 1.5}), record)
        assert watch.course is not None and not watch.alarmed
        assert judge(watch, pool, pool.serve(120.0, {"a": 1.5, "b": 1.5}), record) == {"a"}

    def test_the_span_of_an_alert_teaches_nothing(self) -> None:
        pool = ServedByNodes(FOUR)
        pool.serve(PAST_S)
        begin = pool.now_s
        pool.serve(1800.0, {"b": 2.0})
        record = PoolRecord(alerts={METRIC: ((begin, pool.now_s),)})
        watch = NodeWatch(METRIC, CONDITION)
        judge(watch, pool, pool.serve(5.0), record)
        assert watch.course is not None
        assert watch.course.usual.offset("b") == pytest.approx(watch.course.usual.offset("a"), abs=0.03)


def test_nodes_share_what_the_others_leave() -> None:
    assert pytest.approx(1.0) == FLEET_PART + BUCKETS_PART + NODES_PART
    pool = ServedByNodes(FOUR)
    watch, alone = watched(pool), NodeWatch(METRIC, CONDITION)
    assert watch.log_threshold(1) - alone.log_threshold(1) == pytest.approx(math.log(4), abs=1e-5)
    assert watch.log_threshold(3) - watch.log_threshold(1) == pytest.approx(math.log(3), abs=1e-5)
    assert alone.log_threshold(1) == pytest.approx(math.log(28 * 86400 / 5 / NODES_PART), abs=1e-5)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, False),
        (Itself(0.4, 0.1, 0.15, 1.0), True),
        (Itself(0.4 * OWN_PART, 0.1, 0.12, MORE_LOAD), True),
        (Itself(0.4 * OWN_PART - 0.01, 0.1, 0.12, 1.0), False),
        (Itself(0.4, 0.1, 0.15, MORE_LOAD + 0.01), False),
        (Itself(-0.1, 0.1, 0.09, 1.0), False),
    ],
)
def test_whose_slowness_it_is(found: Itself | None, expected: bool) -> None:
    assert is_its_own(found, 0.4) is expected


@pytest.mark.slow
def test_a_quiet_pool_forgets_what_it_saw() -> None:
    pool = ServedByNodes(FOUR)
    watch = watched(pool)
    judge(watch, pool, pool.serve(120.0, {"b": 1.5}))
    watch.forget(pool.now_s)
    assert not watch.alarmed
    again = NodeWatch(METRIC, CONDITION)
    again.load(json.loads(json.dumps(watch.dump())))
    since_s = pool.now_s
    windows = pool.serve(120.0, {"b": 1.5})
    for one in (watch, again):
        # What goes on is shown anew, by what came since.
        assert judge(one, pool, windows) == {"b"}
        assert (one.streams["b"].onset_s or 0.0) >= since_s
