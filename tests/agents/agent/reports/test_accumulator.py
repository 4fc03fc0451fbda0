"""The hot path counts each event once, in its own window, with quantiles as near as the axis promises."""

import math
import random

import pytest

from agents.agent.reports.accumulator import Accumulator
from agents.agent.reports.latency_series import Distribution
from agents.agent.reports.tally import OTHER_TENANT, TENANT_LIMIT, Tally
from agents.backends.base import Position
from controlplane.contract import metrics
from controlplane.contract.histogram import (
    AXIS_LENGTH,
    AXIS_MIN,
    RELATIVE_ERROR,
    axis_position,
    bucket_index,
    quantile,
)
from controlplane.contract.reports.engine_event import Hello
from controlplane.contract.step_limits import StepLimit
from tests.agents.backends.fake_engine import request_events, step_event

HELLO: Hello = {"kind": "hello", "boot": "b", "oldest": 1, "model": "m"}
START = 1_700_000_000.0  # A multiple of 5 s.


def numbered(*events, first=1):
    return [{**event, "seq": seq} for seq, event in enumerate(events, first)]


def counted(*events, interval_s=5.0) -> Accumulator:
    made = Accumulator(None, interval_s)
    made.hello(HELLO)
    for event in numbered(*events):
        made.count(event)
    return made


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99, 0.999])
def test_quantiles_are_within_the_axis_error_of_the_exact_ones(q: float) -> None:
    chance = random.Random(1)
    values = [chance.lognormvariate(-3, 1.2) for _ in range(20_000)]
    distribution = Distribution()
    distribution.record_all(values)
    offset, dense = distribution.dense()
    counts = [0] * AXIS_LENGTH
    counts[offset - AXIS_MIN : offset - AXIS_MIN + len(dense)] = dense
    exact = sorted(values)[round(q * (len(values) - 1))]
    assert abs(quantile(counts, q) / exact - 1) <= RELATIVE_ERROR
    assert distribution.total == pytest.approx(sum(values))
    assert (distribution.minimum, distribution.maximum) == (min(values), max(values))


def test_many_at_once_is_the_same_as_one_by_one() -> None:
    chance = random.Random(2)
    values = [chance.choice([0.0, -1e-9, 2**-20, 1e-7, 5000.0, chance.expovariate(20)]) for _ in range(500)]
    one, many, positive = Distribution(), Distribution(), Distribution()
    for value in values:
        one.record(value)
    many.record_all(values)
    positive.record_all([value for value in values if value > 1e-6])
    assert (one.buckets, one.count, one.zero_count) == (many.buckets, many.count, many.zero_count)
    assert one.total == pytest.approx(many.total)
    assert one.minimum == many.minimum == 0.0
    positive_indexes = {bucket_index(min(value, 1024.0)) for value in values if value > 1e-6}
    assert set(positive.buckets) == positive_indexes
    assert len(one.dense()[1]) <= AXIS_LENGTH


@pytest.mark.parametrize("value", [math.nextafter(2**-20, 1), math.nextafter(1024.0, 0), 1024.0, 1e9])
def test_the_ends_of_the_axis_belong_to_it(value: float) -> None:
    one, many = Distribution(), Distribution()
    one.record(value)
    many.record_all([value, value])
    for distribution in (one, many):
        offset, counts = distribution.dense()
        assert offset >= AXIS_MIN and offset + len(counts) <= AXIS_MIN + AXIS_LENGTH
        assert sum(counts) == distribution.count
        assert counts[axis_position(min(value, 1024.0)) + AXIS_MIN - offset] == distribution.count


def test_an_event_is_counted_in_the_window_of_its_own_time() -> None:
    made = counted(step_event(START + 4.99), step_event(START + 5.0), step_event(START + 4.98))
    made.seal()
    first, second = made.take()
    assert list(first.windows) == [START // 5]
    assert sorted(second.windows) == [START // 5, START // 5 + 1]
    assert (first.position, second.position) == (Position("b", 1), Position("b", 3))
    assert made.take() == []


def test_a_window_is_whole_in_one_report_when_the_engine_is_steady() -> None:
    made = counted(*(step_event(START + place / 10) for place in range(200)))
    made.seal()
    tallies = made.take()
    assert [len(tally.windows) for tally in tallies] == [1, 1, 1, 1]
    assert [tally.events for tally in tallies] == [50, 50, 50, 50]


def test_an_idle_engine_is_reported_after_the_grace() -> None:
    made = counted(step_event(START + 1))
    made.seal_overdue(START + 5.3, 0.5)
    assert not made.has_sealed
    made.seal_overdue(START + 5.5, 0.5)
    assert made.has_sealed


def test_a_clock_that_jumped_ahead_does_not_hold_a_report_back() -> None:
    made = counted(step_event(START + 3600), step_event(START + 1))
    made.seal_overdue(START + 5.6, 0.5)
    assert made.has_sealed


def test_repeats_are_passed_over_and_gaps_are_missed_events() -> None:
    made = Accumulator(Position("b", 10), 5.0)
    made.hello({**HELLO, "oldest": 9})
    for event in numbered(*(step_event(START) for _ in range(3)), first=9):
        made.count(event)
    made.count({**step_event(START), "seq": 15})
    made.seal()
    (tally,) = made.take()
    assert tally.events == 2
    assert tally.missed == 3
    assert tally.position == Position("b", 15)


def test_a_restarted_engine_begins_a_new_report() -> None:
    made = counted(step_event(START))
    assert made.hello({**HELLO, "boot": "c", "oldest": 4})
    made.count({**step_event(START), "seq": 4})
    made.seal()
    first, second = made.take()
    assert first.position == Position("b", 1)
    assert (second.position, second.missed) == (Position("c", 4), 3)


def test_what_ran_before_the_first_agent_is_not_missed() -> None:
    made = Accumulator(None, 5.0)
    made.hello({**HELLO, "oldest": 500})
    made.count({**step_event(START), "seq": 500})
    made.seal()
    assert made.take()[0].missed == 0


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "nonsense"}, {"kind": "finished"}, {"kind": "gaps", "gaps": 3}, {"time": None}, {"limit": "luck"}],
)
def test_a_malformed_event_is_passed_over(wrong: dict) -> None:
    made = counted({**step_event(START), **wrong}, step_event(START))
    made.seal()
    (tally,) = made.take()
    assert tally.events == 1
    assert tally.position == Position("b", 2)


def test_steps_are_counted_by_what_bound_them() -> None:
    tally = Tally(int(START // 5), 5.0, "m")
    bound = [StepLimit.NO_WORK, StepLimit.CHUNK, StepLimit.NO_WORK, None]
    steps = [step_event(START) if limit is None else step_event(START, limit=limit.value) for limit in bound]
    for event in numbered(*steps):
        tally.count(event, "b")
    (window,) = tally.windows.values()
    found = {value: amount for (metric, _, value), amount in window.sums.items() if metric is metrics.STEP_LIMIT}
    assert found == {"no_work": 2, "chunk": 1}, "an engine that does not tell counts nothing"


def test_draft_tokens_are_counted_at_their_place_as_far_as_both_are_told() -> None:
    tally = Tally(int(START // 5), 5.0, "m")
    places = {"drafted_per_position": [2, 1, 1], "accepted_per_position": [2, 1, 0]}
    for event in numbered(step_event(START, **places), step_event(START), step_event(START, accepted_per_position=[3])):
        tally.count(event, "b")
    (window,) = tally.windows.values()
    told = {(metric.short, value): amount for (metric, _, value), amount in window.sums.items()}
    assert told == {
        ("draft_tokens", "0"): 2, ("draft_tokens", "1"): 1, ("draft_tokens", "2"): 1, ("draft_tokens", ""): 8,
        ("accepted_tokens", "0"): 2, ("accepted_tokens", "1"): 1, ("accepted_tokens", ""): 6,
    }  # fmt: skip


def test_a_long_draft_has_no_more_places_than_are_kept_apart_and_loses_no_token() -> None:
    tally = Tally(int(START // 5), 5.0, "m")
    long = metrics.MOST_POSITIONS + 4
    lists = {"drafted_per_position": [1] * long, "accepted_per_position": [1] * long}
    tally.count({**step_event(START, draft_tokens=long, accepted_tokens=long, **lists), "seq": 1}, "b")
    (window,) = tally.windows.values()
    assert sum(window.sums.values()) == 2 * long and len(window.sums) == 2 * (metrics.MOST_POSITIONS + 1)


def test_more_tokens_at_places_than_in_all_are_malformed() -> None:
    tally = Tally(int(START // 5), 5.0, "m")
    lists = {"drafted_per_position": [9], "accepted_per_position": [1]}
    with pytest.raises(ValueError, match="draft_tokens"):
        tally.count({**step_event(START, **lists), "seq": 1}, "b")


def test_flops_and_bytes_of_steps_add_up_and_are_absent_where_nobody_counts_them() -> None:
    tally = Tally(int(START // 5), 5.0, "m")
    work = {"flops": 10**15, "read_bytes": 10**9, "write_bytes": 10**6}
    for event in numbered(step_event(START, **work), step_event(START), step_event(START, **work)):
        tally.count(event, "b")
    (window,) = tally.windows.values()
    told = (metrics.ESTIMATED_FLOPS, metrics.ESTIMATED_READ_BYTES, metrics.ESTIMATED_WRITE_BYTES)
    assert [window.sums[metric, (3, "", "", ""), ""] for metric in told] == [2 * 10**15, 2 * 10**9, 2 * 10**6]
    other = Tally(int(START // 5), 5.0, "m")
    other.count({**step_event(START), "seq": 1}, "b")
    (window,) = other.windows.values()
    assert not {metric for metric, _, _ in window.sums} & set(told)


def test_steps_told_together_are_counted_the_same() -> None:
    tally = Tally(int(START // 5), 5.0, "m")
    known = {"kind": "counts", "time": START, "revision": 7, "counts": {}, "requests": {}}
    events = [{**known, "step_limits": {"no_work": 40, "chunk": 2}}, {**known, "step_limits": {"no_work": 2}}, known]
    for event in numbered(*events):
        tally.count(event, "b")
    (window,) = tally.windows.values()
    assert window.sums == {
        (metrics.STEP_LIMIT, (7, "", "", ""), "no_work"): 42,
        (metrics.STEP_LIMIT, (7, "", "", ""), "chunk"): 2,
    }


@pytest.mark.parametrize(("steps", "said"), [({"luck": 1}, "'luck' is none of"), ({"chunk": -1}, "below zero")])
def test_steps_bound_by_nothing_known_are_malformed(steps: dict[str, int], said: str) -> None:
    tally = Tally(int(START // 5), 5.0, "m")
    event = {"kind": "counts", "time": START, "revision": 7, "counts": {}, "requests": {}, "step_limits": steps}
    with pytest.raises(ValueError, match=said):
        tally.count(next(iter(numbered(event))), "b")


def test_an_aborted_request_counts_as_a_request_only() -> None:
    tally = Tally(int(START // 5), 5.0, "m")
    for event in numbered(*request_events(START, 1, reason="abort")):
        tally.count(event, "b")
    (window,) = tally.windows.values()
    reasons = {reason: amount for (metric, _, reason), amount in window.sums.items() if metric is metrics.REQUESTS}
    assert reasons == {"abort": 1}
    assert all(metrics.E2E not in series for series in window.distributions.values())
    assert tally.unaccounted_share() is None
    assert len(tally.finished) == 1


def test_series_are_kept_apart_by_prompt_cache_and_tenant() -> None:
    tally = Tally(int(START // 5), 5.0, "m")
    seq = 0
    for place, (prompt, cached, tenant) in enumerate([(100, 0, ""), (100, 60, ""), (600, 10, "a"), (600, 10, "b")]):
        for event in request_events(START, place, prompt_tokens=prompt, cached_tokens=cached):
            seq += 1
            tally.count({**event, "seq": seq, **({"tenant": tenant} if tenant else {})}, "b")
    (window,) = tally.windows.values()
    keys = {key for key, series in window.distributions.items() if metrics.E2E in series}
    assert keys == {
        (3, "<=128", "miss", ""),
        (3, "<=128", "hit", ""),
        (3, "<=2k", "partial", "a"),
        (3, "<=2k", "partial", "b"),
    }


def test_tenants_cannot_grow_a_report_for_ever() -> None:
    tally = Tally(int(START // 5), 5.0, "m")
    for number in range(TENANT_LIMIT + 50):
        event = request_events(START, number)[0]
        tally.count({**event, "seq": number + 1, "tenant": f"tenant-{number}"}, "b")
    (window,) = tally.windows.values()
    assert len(window.distributions) == TENANT_LIMIT + 1
    assert window.distributions[3, "<=128", "miss", OTHER_TENANT][metrics.TTFT].count == 50


def test_the_unaccounted_share_is_of_all_time_spent() -> None:
    tally = Tally(int(START // 5), 5.0, "m")
    events = numbered(*request_events(START, 1), *request_events(START, 2))
    for event in events:
        tally.count(event, "b")
    e2e_s = sum(event["e2e"] for event in events if event["kind"] == "finished")
    assert tally.unaccounted_share() == pytest.approx(0.001 / e2e_s)


def test_requests_that_no_event_tells_of_are_counted_with_the_revision_and_the_reason() -> None:
    made = counted(step_event(START))
    made.count_lost(START + 1, 3, {"refused": 4, "disconnect": 1, "shed": 0})
    made.seal()
    (tally,) = made.take()
    requests = {
        (key, reason): amount
        for window in tally.windows.values()
        for (metric, key, reason), amount in window.sums.items()
        if metric is metrics.REQUESTS
    }
    assert requests == {((3, "", "", ""), "refused"): 4, ((3, "", "", ""), "disconnect"): 1}
    assert tally.position == Position("b", 1)


def test_lost_requests_alone_make_a_report_that_moves_no_position() -> None:
    made = Accumulator(Position("b", 7), 5.0)
    made.count_lost(START, 0, {"refused": 1})
    made.seal()
    (tally,) = made.take()
    assert tally.position == Position("b", 7)
    assert Accumulator(None, 5.0).read_to is None


def test_gaps_say_how_many_tokens_their_deliveries_held() -> None:
    gaps = {"kind": "gaps", "time": START, "revision": 1, "prompt_tokens": 9, "cached_tokens": 0, "gaps": [0.1, 0.2]}
    made = counted({**gaps, "tokens": 5}, {**gaps, "tokens": None}, gaps)
    made.seal()
    (window,) = made.take()[0].windows.values()
    assert [amount for (metric, _, _), amount in window.sums.items() if metric is metrics.DELIVERED_TOKENS] == [5]


def test_an_event_that_cannot_be_counted_is_a_missed_one() -> None:
    made = Accumulator(Position("b", 0), 5.0)
    made.hello({**HELLO, "oldest": 1})
    made.count({**step_event(START), "seq": 1})
    made.count({"kind": "step", "seq": 2, "time": START})
    made.count({**step_event(START), "seq": 3})
    made.seal()
    (tally,) = made.take()
    assert (tally.events, tally.missed, tally.position) == (2, 1, Position("b", 3))


def test_an_engine_that_numbers_from_zero_loses_nothing_by_a_restart() -> None:
    made = counted(step_event(START))
    made.hello({**HELLO, "boot": "c", "oldest": 0})
    made.count({**step_event(START), "seq": 0})
    made.seal()
    assert [(tally.events, tally.missed) for tally in made.take()] == [(1, 0), (1, 0)]


def test_nothing_is_lost_before_an_engine_was_seen_and_no_request_is_no_report() -> None:
    made = Accumulator(None, 5.0)
    made.count_lost(START, 0, {"refused": 1})
    made.hello(HELLO)
    made.count_lost(START, 0, {"refused": 0})
    made.seal()
    assert not made.has_sealed


def test_the_first_few_events_that_cannot_be_counted_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    made = Accumulator(None, 5.0)
    made.hello(HELLO)
    for _ in range(50):
        made.count({"kind": "step", "time": START})  # It has no number.
    said = [record.message for record in caplog.records]
    assert 1 <= len(said) <= 10 and all("no seq or no time" in line for line in said)


def test_a_finished_request_is_told_what_the_engine_ran_beside_it() -> None:
    steps = [{**step_event(START + place / 10), "running": 3} for place in range(20)]
    made = counted(*steps, *request_events(START + 1, 1))
    made.seal()
    (tally,) = made.take()
    assert tally.finished and all("batch" in event for _, event in tally.finished)
