"""What one stream remembers, what it leaves out of its baseline, and what a change of configuration means to it."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from controlplane.alerts.regressions.baseline import FLEET, Baseline, BucketBaseline, Cell
from controlplane.alerts.regressions.learner import MIDDLE, Learner, inside, within
from controlplane.alerts.windows.pool_record import Move, PoolRecord
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.evidence.e_detector import Stream

CONDITION = RegressionCondition(metrics=["ttft", "itl"], q=[0.9, 0.99], false_alarm_every_s=3600.0)
NOW_S = 100_000.0
SLOWER, ANEW = Move(7, NOW_S - 10.0, {0.9: 6}), Move(8, NOW_S - 5.0, None)


def learner(bucket: str = FLEET, buckets: int = 0) -> Learner:
    """With a baseline of so many prompt buckets, if any."""
    found = Learner("ttft", bucket, CONDITION)
    if buckets:
        known = BucketBaseline(300, {0: Cell(1000, 50)}, Cell(1000, 50))
        names = [f"b{number}" for number in range(buckets)]
        phi = dict.fromkeys([FLEET, *names], 1.0)
        baseline = Baseline("ttft", 0.9, dict.fromkeys(names, known), phi, 0.5, NOW_S - 3600.0, NOW_S - 300.0, 8.0)
        found.baselines = {q: replace(baseline, q=q) for q in found.edges}
    return found


def alarmed(found: Learner, onset_s: float = NOW_S - 60.0) -> Learner:
    found.streams = {0.9: Stream(alarmed=True, onset_s=onset_s), 0.99: Stream()}
    return found


def test_the_middle_is_counted_besides_the_rule_s_quantiles_and_only_for_gross_growth() -> None:
    assert learner().edges == (MIDDLE, 0.9, 0.99) and learner().gross == {MIDDLE}
    named = Learner("ttft", FLEET, CONDITION.model_copy(update={"q": [0.9, MIDDLE]}))
    assert named.edges == (MIDDLE, 0.9) and not named.gross


@pytest.mark.parametrize(
    ("bucket", "buckets", "part"), [(FLEET, 0, 1.0), (FLEET, 2, 0.5), ("b0", 2, 0.4 / 2), ("b0", 5, 0.4 / 5)]
)
def test_all_streams_together_raise_as_many_false_alarms_as_are_promised(
    bucket: str, buckets: int, part: float
) -> None:
    """An hour is 720 ticks; two metrics with three edges each, on four pools."""
    found = learner(bucket, buckets)
    assert math.expm1(found.log_threshold(4)) == pytest.approx(720 * 24 / part)
    assert found.stream_count(4) == 24 * (1 + buckets) and learner().stream_count(0) == 1


def test_what_is_forgotten_leaves_the_span_of_its_alarm_out_of_what_is_normal() -> None:
    found = alarmed(learner())
    found.crowded = {0.9: Stream()}
    found.forget(NOW_S)
    assert (found.own, found.streams, found.crowded) == ([(NOW_S - 60.0, NOW_S)], {}, {})
    assert found.counts_since_s == NOW_S
    found.forget(NOW_S + 5.0)
    assert found.own == [(NOW_S - 60.0, NOW_S)], "it was in no alarm"


def test_spans_of_its_own_alarms_count_as_long_as_a_baseline_may_reach() -> None:
    found = learner()
    found.own = [(0.0, NOW_S - 2.0 * CONDITION.baseline_s), (1.0, NOW_S - 2.0 * CONDITION.baseline_s + 1.0)]
    found.take_record(PoolRecord(), NOW_S)
    assert found.own == [(1.0, NOW_S - 2.0 * CONDITION.baseline_s + 1.0)] and found.closed == tuple(found.own)


def test_an_open_alert_closes_what_is_normal_but_for_a_bucket_of_which_nothing_is_known() -> None:
    record = PoolRecord(alerts={"ttft": [(1.0, 2.0), (NOW_S - 100.0, math.inf)], "itl": [(3.0, 4.0)]})
    for found, spans in (
        (learner(), [(1.0, 2.0), (NOW_S - 100.0, math.inf)]),
        (learner("b0", 2), [(1.0, 2.0), (NOW_S - 100.0, math.inf)]),
        (learner("b0"), [(1.0, 2.0)]),
    ):
        found.take_record(record, NOW_S)
        assert list(found.closed) == spans


@pytest.mark.parametrize("move", [SLOWER, ANEW])
def test_a_change_that_was_accepted_ends_the_alarm_once_and_says_so(move: Move) -> None:
    found, record = alarmed(learner()), PoolRecord(moves={"ttft": (move,)})
    assert found.take_record(record, NOW_S) == [move.rollout_id]
    assert (found.moves, found.moved_by, found.streams) == ((move,), [move.rollout_id], {})
    assert found.own == [(NOW_S - 60.0, move.at_s)] and found.counts_since_s == move.at_s
    again = alarmed(found)
    assert again.take_record(record, NOW_S + 5.0) == [] and again.alarmed == [0.9]
    again.take_record(PoolRecord(), NOW_S + 10.0)
    assert (again.moved_by, again.moves) == ([], ()), "the record tells of it no more"


@pytest.mark.parametrize(
    ("shift", "is_alarmed", "is_forgotten"), [(4, True, False), (5, True, True), (1, False, True), (-3, False, False)]
)
def test_evidence_is_forgotten_where_it_speaks_of_what_was_accepted(
    shift: int, is_alarmed: bool, is_forgotten: bool
) -> None:
    found = alarmed(learner()) if is_alarmed else learner()
    found.streams[0.99] = Stream(gain=[1.0] * 5)
    record = PoolRecord(moves={"ttft": (Move(7, NOW_S - 10.0, {0.9: shift}),)})
    assert found.take_record(record, NOW_S) == ([7] if is_alarmed and is_forgotten else [])
    assert (found.streams == {}) == is_forgotten


@pytest.mark.parametrize(("shift", "mixed"), [(6, True), (-6, False)])
def test_while_the_pool_goes_over_to_what_is_slower_it_is_mixed(shift: int, mixed: bool) -> None:
    waves, earlier = (NOW_S - 10.0, math.inf), (NOW_S - 900.0, NOW_S - 600.0)
    found = learner()
    found.take_record(
        PoolRecord(moves={"ttft": (Move(7, NOW_S - 10.0, {0.9: shift}),)}, changing=(earlier, waves)), NOW_S
    )
    assert found.mixed == ((waves,) if mixed else ())


def test_a_change_to_come_and_one_of_another_metric_are_not_yet_its_own() -> None:
    found = learner()
    record = PoolRecord(moves={"ttft": (replace(SLOWER, at_s=NOW_S + 1.0),), "itl": (SLOWER,)})
    assert found.take_record(record, NOW_S) == [] and (found.moves, found.moved_by) == ((), [])


def test_its_memory_goes_through_json() -> None:
    found = alarmed(learner())
    found.crowded = {0.9: Stream(gain=[1.0] * 5)}
    found.own, found.moved_by = [(1.0, 2.0)], [7]
    found.surge_since_s, found.surge_until_s, found.counts_since_s, found.settled_s = 1.0, 2.0, 3.0, 4.0
    for one in (found, learner()):
        back = learner()
        back.load(json.loads(json.dumps(one.dump(), allow_nan=False)))
        assert back == one
    empty = learner()
    empty.load({})
    assert empty == learner()


def test_a_span_holds_its_beginning_and_not_its_end() -> None:
    spans = [(1.0, 2.0), (5.0, math.inf)]
    moments = [0.9, 1.0, 1.9, 2.0, 4.9, 5.0, 1e9]
    expected = [False, True, True, False, False, True, True]
    assert [inside(at_s, spans) for at_s in moments] == expected
    assert within(np.array(moments), spans).tolist() == expected
    assert not within(np.array(moments), []).any()
