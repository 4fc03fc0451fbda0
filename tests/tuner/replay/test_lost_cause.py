"""A run is given up only when nothing that is still to come could save it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.replay.completion import RequestTiming
from tuner.replay.http_stream import Answer
from tuner.replay.lost_cause import Bound, above_wanted, least_s, lost_cause

QS = st.sampled_from([0.05, 0.5, 0.9, 0.95, 0.99])


@given(st.lists(st.floats(0.001, 10.0), min_size=1, max_size=120), QS, st.floats(0.001, 10.0))
def test_so_many_above_a_bound_are_just_what_puts_the_quantile_above_it(
    values: list[float], q: float, bound: float
) -> None:
    above = sum(value > bound for value in values)
    # Between two values the quantile is above the bound from a part of the way on: what is wanted is never too little.
    if above >= above_wanted(len(values), q):
        assert np.quantile(values, q) > bound
    assert above_wanted(len(values), q) <= above_wanted(len(values) + 1, q), "lost requests want no more"
    fewest = sorted(values)[: len(values) - above_wanted(len(values), q) + 1]
    assert np.quantile(values, q, method="lower") == fewest[-1], "and never too much, but for the part of the way"


def request(sent_at: float = 0.0, **answer: Any) -> tuple[RequestTiming, Answer]:
    return RequestTiming(0, 0.0), Answer(sent_at=sent_at, **answer)


@pytest.mark.parametrize(
    ("metric", "pair", "least"),
    [
        ("ttft", request(), 0.0),  # Not sent yet.
        ("ttft", request(10.0), 5.0),  # Waits since.
        ("ttft", request(10.0, events=[11.0, 12.0]), 1.0),
        ("e2e", request(10.0, events=[11.0, 12.0]), 5.0),
        ("e2e", request(10.0, events=[11.0], finished_at=13.0), 3.0),
        ("e2e", request(10.0, error="HTTP 503", finished_at=13.0), 0.0),
    ],
)
def test_a_request_has_come_to_at_least_what_it_has_waited(
    metric: str, pair: tuple[RequestTiming, Answer], least: float
) -> None:
    assert least_s(metric, *pair, now=15.0) == pytest.approx(least)


def test_the_wait_for_a_place_counts() -> None:
    timing, answer = request(10.0)
    timing.held_s = 2.0
    assert least_s("ttft", timing, answer, now=11.0) == pytest.approx(3.0)


@given(st.data())
def test_what_is_given_up_would_have_ended_above_its_bound(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 60))
    starts = [0.5 + 0.1 * place for place in range(count)]
    takes = data.draw(st.lists(st.floats(0.01, 5.0), min_size=count, max_size=count))
    now = data.draw(st.floats(0.5, 12.0))
    bound = Bound("ttft", data.draw(QS), data.draw(st.floats(0.05, 5.0)))
    answers = [
        Answer(
            sent_at=start if start <= now else 0.0,
            events=[start + took] if start + took <= now else [],
            finished_at=start + took if start + took <= now else 0.0,
        )
        for start, took in zip(starts, takes, strict=True)
    ]
    timings = [RequestTiming(place, start) for place, start in enumerate(starts)]
    done = [Answer(sent_at=a, events=[a + b], finished_at=a + b) for a, b in zip(starts, takes, strict=True)]
    takes = [least_s("ttft", *pair, now=100.0) for pair in zip(timings, done, strict=True)]  # As clocks round it.
    if lost_cause([bound], timings, answers, now) is not None:
        assert np.quantile(takes, bound.q) > bound.at_most_s
        seen = [least_s("ttft", *pair, now=now) for pair in zip(timings, answers, strict=True) if pair[1].sent_at]
        assert np.quantile(seen, bound.q) > bound.at_most_s, "and what was measured of it says so, too"
    if np.quantile(takes, bound.q) <= bound.at_most_s:
        assert lost_cause([bound], timings, done, 100.0) is None


def test_the_first_that_cannot_be_kept_is_named() -> None:
    kept, broken = Bound("e2e", 0.5, 100.0), Bound("ttft", 0.95, 1.0)
    timings, answers = zip(*(request(10.0) for _ in range(20)), strict=True)
    assert lost_cause([kept, broken], timings, answers, 10.5) is None
    assert lost_cause([kept, broken], timings, answers, 12.0) == broken
    assert lost_cause([broken], [], [], 12.0) is None
