"""The differences of a cumulative series add up to what its processes counted, whatever happens in between."""

import math
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.histogram import bucket_index
from controlplane.telemetry.otlp.raw_point import (
    RawExplicit,
    RawExponential,
    RawNumber,
    RawPoint,
    decode,
    encode,
    time_of,
    trimmed,
)
from controlplane.telemetry.reports.cumulative import Advanced, advance
from controlplane.telemetry.values.refusal import Refused

S = 1_000_000_000
VALUES = st.lists(st.sampled_from([0.0, 0.001, 0.0999, 0.1, 0.25, 1.0, 1.7, 4.0, 5.1, 300.0]), max_size=6)
LIVES = st.lists(st.lists(VALUES, min_size=1, max_size=5), min_size=1, max_size=4)
"""For each life of a process: what it records before each of its points."""


def exponential(values: list[float], scale: int, start_s: int, time_s: int) -> RawExponential:
    positive = [value for value in values if value > 0]
    found = Counter(bucket_index(value, scale) for value in positive)
    low = min(found, default=0)
    offset, counts = trimmed(low, [found[i] for i in range(low, max(found, default=-1) + 1)])
    return RawExponential(
        start_s * S,
        time_s * S,
        scale,
        offset,
        counts,
        values.count(0.0),
        0.0,
        math.fsum(values),
        min(values, default=None),
        max(values, default=None),
    )


def explicit(values: list[float], bounds: tuple[float, ...], start_s: int, time_s: int) -> RawExplicit:
    edges = (-math.inf, *bounds, math.inf)
    counts = tuple(sum(low < value <= high for value in values) for low, high in pairwise(edges))
    extremes = (min(values, default=None), max(values, default=None))
    return RawExplicit(start_s * S, time_s * S, bounds, counts, math.fsum(values), *extremes)


def deltas(points: Iterable[RawPoint], *, twice: bool = True) -> tuple[list[RawPoint], list[Advanced]]:
    """What is counted when each point is sent (again), and all steps."""
    state, found, steps = None, [], []
    for point in points:
        step = advance(state, point)
        if step.delta is not None:
            found.append(step.delta)
        state = step.state
        steps.append(step)
        if twice:
            again = advance(state, point)
            assert again == (None, state, False, True)
    return found, steps


def at_scale(delta: RawExponential, scale: int) -> Counter[int]:
    found: Counter[int] = Counter()
    for index, count in enumerate(delta.counts, delta.offset):
        found[index >> (delta.scale - scale)] += count
    return found


@given(LIVES, st.lists(st.integers(-2, 6), min_size=1))
def test_exponential_counts_add_up(lives: list[list[list[float]]], scales: list[int]) -> None:
    points, everything, time_s = [], [], 0
    for life in lives:
        start_s, so_far = time_s + 1, []
        for batch in life:
            time_s += 10
            so_far = so_far + batch
            points.append(exponential(so_far, scales[len(points) % len(scales)], start_s, time_s))
        everything += so_far
    found, _ = deltas(points)
    assert all(isinstance(delta, RawExponential) and delta.count > 0 for delta in found)
    total: Counter[int] = Counter()
    for delta in found:
        assert isinstance(delta, RawExponential)
        total += at_scale(delta, -2)
    assert total == Counter(bucket_index(value, -2) for value in everything if value > 0)
    assert sum(delta.zero for delta in found if isinstance(delta, RawExponential)) == everything.count(0.0)
    stated = [delta.total for delta in found if isinstance(delta, RawExponential)]
    assert math.fsum(sum_ for sum_ in stated if sum_ is not None) == pytest.approx(math.fsum(everything))


@given(LIVES, st.booleans())
def test_explicit_counts_add_up(lives: list[list[list[float]]], bounds_change: bool) -> None:
    fine, coarse = (0.1, 0.25, 1.0, 5.0), (0.1, 1.0)
    points, everything, time_s = [], [], 0
    for life in lives:
        start_s, so_far = time_s + 1, []
        for batch in life:
            time_s += 10
            so_far = so_far + batch
            bounds = coarse if bounds_change and len(points) % 2 else fine
            points.append(explicit(so_far, bounds, start_s, time_s))
        everything += so_far
    found, _ = deltas(points)
    total: Counter[tuple[float, float]] = Counter()
    for delta in found:
        assert isinstance(delta, RawExplicit) and len(delta.counts) == len(delta.bounds) + 1
        for bound, count in zip((*delta.bounds, math.inf), delta.counts, strict=True):
            total[next(edge for edge in (*coarse, math.inf) if bound <= edge), 0] += count
    edges = (*coarse, math.inf)
    assert +total == Counter((next(edge for edge in edges if value <= edge), 0) for value in everything)


@given(st.lists(st.lists(st.integers(0, 2**40), min_size=1, max_size=5), min_size=1, max_size=4))
def test_numbers_add_up_exactly(lives: list[list[int]]) -> None:
    points, total, time_s = [], 0, 0
    for life in lives:
        start_s, running = time_s + 1, 0
        for added in life:
            time_s += 10
            running += added
            points.append(RawNumber(start_s * S, time_s * S, running))
        total += running
    found, _ = deltas(points)
    assert sum(delta.value for delta in found if isinstance(delta, RawNumber)) == total


@given(LIVES)
def test_extremes_hold_what_was_added(lives: list[list[list[float]]]) -> None:
    (life, *_), so_far, state = lives, [], None
    for place, batch in enumerate(life):
        so_far = so_far + batch
        for make in (lambda at, v=tuple(so_far): explicit(list(v), (0.1, 1.0), 1, at),):
            step = advance(state, make(10 * (place + 1)))
            state = step.state
            if batch:
                assert isinstance(step.delta, RawExplicit)
                low, high = step.delta.minimum, step.delta.maximum
                assert low is not None and high is not None and low <= min(batch) and max(batch) <= high


@pytest.mark.parametrize(
    "point",
    [
        RawNumber(1, 2, 7),
        RawNumber(0, 2, -0.5),
        exponential([0.0, 0.1, 0.1, 9.0], 5, 1, 2),
        RawExponential(1, 2, -10, -5, (2**63,), 2**40, 0.5),
        explicit([0.1, 7.0], (0.5, 1.0), 1, 2),
        RawExplicit(1, 2, (), (300,), None, 0.1, 0.2),
    ],
)
def test_states_round_trip(point: RawPoint) -> None:
    assert decode(encode(point)) == point and time_of(encode(point)) == point.time_ns


def test_the_first_point() -> None:
    point = RawNumber(100, 200, 7)
    assert advance(None, point, 100).delta == point
    # Its process began before what is kept: it only says where counting stands.
    old = advance(None, point, 101)
    assert old.delta is None and advance(old.state, RawNumber(100, 300, 9), 101).delta == RawNumber(100, 300, 2)
    unknown = advance(None, RawNumber(0, 200, 7))
    assert unknown.delta is None and not unknown.was_reset


def test_a_later_start_is_a_reset_even_if_all_grew() -> None:
    first, second = exponential([0.1], 5, 1, 10), exponential([0.1, 0.1], 5, 11, 20)
    step = advance(advance(None, first).state, second)
    assert step.was_reset and step.delta == second


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (RawNumber(0, 10, 5), RawNumber(0, 20, 4)),
        (exponential([0.1, 0.1], 5, 0, 1), exponential([0.1], 5, 0, 2)),
        (exponential([0.1], 5, 0, 1), exponential([9.0, 9.0], 5, 0, 2)),
        (exponential([0.0, 0.1], 5, 0, 1), exponential([0.1, 0.1, 0.1], 5, 0, 2)),
        (explicit([0.1, 2.0], (1.0,), 0, 1), explicit([0.1, 0.1, 0.1], (1.0,), 0, 2)),
    ],
)
def test_what_falls_is_a_reset(before: RawPoint, now: RawPoint) -> None:
    step = advance(encode(before), now)
    assert step.was_reset and step.delta == now


def test_nothing_added_is_no_point() -> None:
    first = exponential([0.1], 5, 1, 10)
    later = exponential([0.1], 5, 1, 20)
    step = advance(encode(first), later)
    assert step == Advanced(None, encode(later)) and time_of(step.state) == 20 * S


@pytest.mark.parametrize(
    ("point", "said"),
    [
        (RawNumber(5, 9, 5), "older than the newest"),
        (RawNumber(5, 10, 6), "two different"),
        (RawNumber(4, 20, 6), "two processes write one series"),
    ],
)
def test_what_is_refused_leaves_the_state(point: RawNumber, said: str) -> None:
    with pytest.raises(Refused, match=said):
        advance(encode(RawNumber(5, 10, 5)), point)


def test_a_sum_that_fell_is_unknown() -> None:
    before, now = explicit([1.0], (2.0,), 1, 10), explicit([1.0, 1.0], (2.0,), 1, 20)
    now = RawExplicit(now.start_ns, now.time_ns, now.bounds, now.counts, 0.5, now.minimum, now.maximum)
    delta = advance(encode(before), now).delta
    assert isinstance(delta, RawExplicit) and delta.total is None and delta.count == 1


def test_a_zero_threshold_that_grew_takes_buckets_with_it() -> None:
    before = exponential([0.001, 0.001, 0.1], 5, 1, 10)
    offset, counts = trimmed(bucket_index(0.1, 5), [2])
    now = RawExponential(1 * S, 20 * S, 5, offset, counts, 3, 0.01)
    delta = advance(encode(before), now).delta
    assert isinstance(delta, RawExponential)
    assert (delta.zero, delta.counts, delta.zero_threshold) == (1, (1,), 0.01)


def test_far_apart_buckets_cost_nothing() -> None:
    """Offsets come from the sender: their distance must never become memory."""
    before = RawExponential(1, 10, 20, -(2**31), (1,), 0)
    now = RawExponential(1, 20, 20, 2**31 - 1, (1, 1), 0)
    assert advance(encode(before), now).was_reset
