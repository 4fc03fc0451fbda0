"""What is read of a shift becomes shares by stage and place, a time and an event."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from controlplane.alerts.diagnosis.shift_parts import Grouped, ReadShift, alone, attribution, event_before
from controlplane.contract.histogram import AXIS_LENGTH, axis_position
from controlplane.contract.on_call.attribution import ChangedAt, HowMoved
from controlplane.evidence.shifts.tail_parts import Timed
from controlplane.evidence.sketch import Sketch

START = datetime(2030, 1, 1, 12, tzinfo=UTC)
USUAL, SLOW = 60, 12


def sketch(values: Any) -> Sketch:
    counts = np.bincount([axis_position(float(value)) for value in values], minlength=AXIS_LENGTH)
    return Sketch(counts, 0, float(values.sum()), float(values.min()), float(values.max()))


def shift(factors: dict[str, float], seed: int = 1) -> ReadShift:
    """Two nodes; from tick 60 on each is as many times as slow, in its queue."""
    chance = np.random.default_rng(seed)
    ticks, counts, timed = [], {False: [], True: []}, {False: [], True: []}
    for tick in range(USUAL + SLOW):
        during, rows = tick >= USUAL, []
        for node in sorted(factors):
            prefill = chance.lognormal(-2.0, 0.3, 40)
            queue = (factors[node] - 1.0) * prefill if during else 0.0 * prefill
            timed[during].append(np.stack([prefill + queue, queue, prefill], axis=1))
            rows.append(sketch(prefill + queue))
        counts[during].append(np.stack([one.counts for one in rows]))
        merged = Sketch()
        for one in rows:
            merged.merge(one)
        ticks.append(merged)
    sides = [Timed(*_split(np.concatenate(timed[during]))) for during in (False, True)]
    return ReadShift(
        metric="ttft",
        q=0.95,
        grouped=[Grouped("node", sorted(factors), np.stack(counts[False]), np.stack(counts[True]))],
        stages=("queue", "prefill"),
        before_requests=sides[0],
        during_requests=sides[1],
        tick_times=[START + timedelta(seconds=5 * tick) for tick in range(USUAL + SLOW)],
        ticks=ticks,
        usual=USUAL,
    )


def _split(rows: Any) -> tuple[Any, Any]:
    return rows[:, 0], rows[:, 1:]


def test_a_slow_node_and_its_stage_are_named_since_the_tick_and_after_the_event() -> None:
    at = START + timedelta(seconds=5 * USUAL)
    entry = {"time": (at - timedelta(seconds=9)).isoformat(), "kind": "rollout.started", "subject": "rollout/3"}
    told = attribution(shift({"a": 1.0, "b": 3.0}), [{**entry, "message": "rollout 3 began"}])
    assert told is not None and told.place is not None
    assert (told.place.label, told.place.value, told.place.how) == ("node", "b", HowMoved.WITHIN)
    assert told.stages[0].stage == "queue" and told.stages[0].share > 0.9
    assert sum(one.share for one in told.stages) == pytest.approx(1.0, abs=0.02)
    assert sum(one.share for one in told.places) == pytest.approx(1.0, abs=1e-6)
    assert told.since is not None and told.since.low <= at <= told.since.high
    assert told.after is not None and (told.after.subject, told.after.lag_s) == ("rollout/3", 9.0)
    assert told.effect is not None and 1.0 < told.effect.low < told.during_s / told.before_s < told.effect.high


@pytest.mark.parametrize("ended", [12, 24, 40])
@pytest.mark.parametrize("again", [3.0, 5.0])
def test_the_end_of_an_earlier_slowdown_is_not_when_this_one_began(ended: int, again: float) -> None:
    read, slow = shift({"a": 1.0, "b": again}), shift({"a": 1.0, "b": 4.0}, seed=2)
    relapsed = replace(read, ticks=[*(slow.ticks[USUAL:] * 4)[:ended], *read.ticks[ended:]])
    told, at = attribution(relapsed), START + timedelta(seconds=5 * USUAL)
    assert told is not None and told.since is not None
    assert told.since.at == at and told.since.low <= at <= told.since.high


def test_when_it_got_faster_is_never_told() -> None:
    read = shift({"a": 1.0, "b": 3.0})
    told = attribution(replace(read, ticks=read.ticks[::-1], usual=SLOW))
    ended = START + timedelta(seconds=5 * SLOW)
    assert told is not None and (told.since is None or told.since.at > ended)


def test_where_all_are_slower_no_place_is_named() -> None:
    told = attribution(shift({"a": 2.0, "b": 2.0}))
    assert told is not None and told.place is None and told.after is None


@pytest.mark.slow
def test_how_the_mix_changed_is_told_however_many_groups_there_are() -> None:
    read = shift({f"node-{number:02}": 2.0 for number in range(12)})
    labels = ("node", "tenant", "region")
    told = attribution(replace(read, grouped=[replace(read.grouped[0], label=label) for label in labels]))
    assert told is not None and len(told.places) <= 11
    assert {place.label for place in told.places if place.how is HowMoved.MIX} == set(labels)


def test_a_metric_that_fell_has_no_places() -> None:
    told = attribution(shift({"a": 0.5, "b": 0.5}))
    assert told is not None and told.places == [] and told.place is None


def test_without_requests_there_is_nothing_to_take_apart() -> None:
    assert attribution(ReadShift("ttft", 0.99)) is None


SINCE = ChangedAt(at=START, low=START - timedelta(seconds=20), high=START + timedelta(seconds=10))


@pytest.mark.parametrize(("second", "found"), [(-321, False), (-320, True), (-5, True), (10, True), (11, False)])
def test_an_event_may_be_five_minutes_older_than_the_change_and_no_younger(second: int, found: bool) -> None:
    entry = {"time": (START + timedelta(seconds=second)).isoformat(), "kind": "k", "subject": "s", "message": "m"}
    assert (event_before(SINCE, [entry]) is not None) is found


def test_of_several_events_the_nearest_counts() -> None:
    entries = [
        {"time": (START - timedelta(seconds=lag)).isoformat(), "kind": "k", "subject": str(lag), "message": "m"}
        for lag in (200, 15, 90)
    ]
    found = event_before(SINCE, entries)
    assert found is not None and found.subject == "15"


@pytest.mark.parametrize("seed", range(4))
def test_long_prompts_of_which_some_hit_the_cache_are_named_from_a_minute_of_few_requests(seed: int) -> None:
    """Fifty are slower, and of two kinds: their own median is now of those that hit, now of those that did not."""
    chance, at_once = np.random.default_rng(seed), 50
    by_length: list[Any] = []
    by_cache: list[Any] = []
    for tick in range(USUAL + SLOW):
        long, miss = chance.random(at_once) < 0.08, chance.random(at_once) < 0.4
        prompt = np.where(long, 4000.0, np.where(chance.random(at_once) < 0.16, 1200.0, 300.0))
        took = (0.03 + 6e-5 * prompt * np.where(miss, 1.0, 0.2)) * chance.lognormal(0.0, 0.2, at_once)
        took *= np.where(long & (tick >= USUAL), 2.25, 1.0)
        for rows, parts in ((by_length, (long, prompt == 1200.0, prompt == 300.0)), (by_cache, (miss, ~miss))):
            rows.append(np.stack([_counted(took[part]) for part in parts]))
    told = attribution(
        ReadShift(
            metric="prefill",
            q=0.95,
            grouped=[
                Grouped("cache_class", ["miss", "hit"], np.stack(by_cache[:USUAL]), np.stack(by_cache[USUAL:])),
                Grouped(
                    "prompt_bucket",
                    ["<=8k", "<=2k", "<=512"],
                    np.stack(by_length[:USUAL]),
                    np.stack(by_length[USUAL:]),
                ),
            ],
            tick_times=[START + timedelta(seconds=5 * tick) for tick in range(USUAL + SLOW)],
            ticks=[Sketch(rows.sum(axis=0)) for rows in by_length],
            usual=USUAL,
        )
    )
    assert told is not None and told.place is not None
    assert (told.place.label, told.place.value, told.place.how) == ("prompt_bucket", "<=8k", HowMoved.WITHIN)
    assert told.place.own_factor == pytest.approx(2.25, rel=0.3) and alone(told.place) > 0.8


def _counted(values: Any) -> Any:
    return np.bincount([axis_position(float(value)) for value in values], minlength=AXIS_LENGTH)
