"""The union of requests' spans by window: known cases, and what holds of any spans."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.planning.whatif import ComputedSpan
from controlplane.whatif.busy_time import busy_s


def span(scheduled_s: float, last_token_s: float) -> ComputedSpan:
    return ComputedSpan(scheduled_s, scheduled_s, last_token_s)


@pytest.mark.parametrize(
    ("spans", "found"),
    [
        ([], {}),
        ([(1, 4)], {0: 3.0}),
        ([(1, 4), (2, 3)], {0: 3.0}),
        ([(2, 3), (1, 4)], {0: 3.0}),
        ([(1, 2), (4, 5)], {0: 2.0}),
        ([(1, 3), (3, 4)], {0: 3.0}),
        ([(3, 12)], {0: 2.0, 1: 5.0, 2: 2.0}),
        ([(1, 7), (6, 8), (21, 22)], {0: 4.0, 1: 3.0, 4: 1.0}),
        ([(0, 10)], {0: 5.0, 1: 5.0}),
        ([(2, 2), (3, 1)], {}),
    ],
    ids=["none", "one", "within", "unordered", "apart", "touching", "over windows", "both", "edges", "no time"],
)
def test_known_cases(spans: list[tuple[float, float]], found: dict[int, float]) -> None:
    assert busy_s([span(*one) for one in spans], 5.0) == pytest.approx(found)


ticks = st.integers(0, 400)
some_spans = st.lists(st.tuples(ticks, ticks).map(lambda one: (min(one), max(one))), max_size=30)


@given(some_spans)
def test_each_tenth_of_a_second_counts_once_or_not_at_all(spans: list[tuple[int, int]]) -> None:
    covered = {tick for start, end in spans for tick in range(start, end)}
    found = busy_s([span(start / 10, end / 10) for start, end in spans], 5.0)
    wanted = {number: sum(tick // 50 == number for tick in covered) / 10 for number in range(9)}
    assert found == pytest.approx({number: seconds for number, seconds in wanted.items() if seconds})


moments = st.floats(1.7e9, 1.7e9 + 300.0)


@given(st.lists(st.tuples(moments, moments), max_size=30), st.sampled_from([0.1, 0.7, 5.0, 10.0]))
def test_no_window_is_busier_than_it_is_long_nor_all_than_their_requests(
    ends: list[tuple[float, float]], width_s: float
) -> None:
    spans = [span(min(one), max(one)) for one in ends]
    found = busy_s(spans, width_s)
    assert all(0.0 < seconds <= width_s + 1e-5 for seconds in found.values())
    longest_s = max((one.last_token_s - one.scheduled_s for one in spans), default=0.0)
    each_s = math.fsum(one.last_token_s - one.scheduled_s for one in spans)
    assert longest_s - 1e-2 <= math.fsum(found.values()) <= each_s + 1e-2
