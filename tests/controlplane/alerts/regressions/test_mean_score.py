"""A line's mean is that of its requests; many ticks at once are as one by one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts.regressions.mean_score import MeanScore
from controlplane.alerts.regressions.yardstick import Scored, ScoredEach

SHIFTED = [-2.0, 0.0, 2.0], [-1.0, 0.0, 3.0], [1.0, 1.0, 5.0]
LINES = (
    *(MeanScore(), MeanScore(by_tail=True), MeanScore("a"), MeanScore("a", apart=True)),
    MeanScore(by_tail=True, shifted=SHIFTED),
)
ticks = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.tuples(st.integers(0, 9), st.floats(-3, 3), st.floats(-3, 3), st.floats(0.1, 9)),
    ),
    min_size=1,
    max_size=6,
)


def test_means_are_over_requests_and_apart_is_less_the_others() -> None:
    scored = {"a": Scored(4, 2.0, 1.0, 2.0), "b": Scored(6, -3.0, 2.0, 6.0)}
    assert MeanScore().of(scored) == pytest.approx((-0.1, 0.08))
    assert MeanScore(by_tail=True).of(scored) == pytest.approx((0.3, 0.1))
    assert MeanScore("a").of(scored) == pytest.approx((0.5, 0.125))
    assert MeanScore("a", apart=True).of(scored) == pytest.approx((1.0, 0.125 + 1 / 6))
    assert math.isnan(MeanScore("c").of(scored)[0]) and math.isnan(MeanScore("c", apart=True).of(scored)[0])


def test_what_a_shift_of_all_explains_of_the_tail_is_taken_off_less_where_few_tell_the_place() -> None:
    many, few = Scored(1000, 1000.0, 2000.0, 1000.0), Scored(2, 2.0, 4.0, 2.0)
    line = MeanScore(by_tail=True, shifted=SHIFTED)
    assert line.of({"a": many})[0] == pytest.approx(2.0 - 1.5, abs=0.01)
    assert line.of({"a": few})[0] == pytest.approx(2.0 - 0.75)


def test_scores_by_tail_count_for_less_where_all_shift_as_far_as_the_place_is_sure() -> None:
    line = MeanScore(by_tail=True, shifted=SHIFTED)
    assert line.of({"a": Scored(1000, 0.0, 2000.0, 1000.0)})[1] == pytest.approx(0.001)
    assert line.of({"a": Scored(10**6, 10.0**6, 0.0, 10**6)})[1] == pytest.approx(3e-6, rel=0.01)
    assert line.of({"a": Scored(4, 2.0, 8.0, 4.0)})[1] == pytest.approx(0.25), "a place of 0.5 that may as well be 0"


@given(ticks)
def test_many_at_once_are_as_one_by_one(found: list[dict[str, tuple[int, float, float, float]]]) -> None:
    one_by_one = [{name: Scored(*values) for name, values in tick.items()} for tick in found]
    each = {
        name: ScoredEach(*np.array([tick.get(name, (0, 0.0, 0.0, 0.0)) for tick in found], dtype=np.float64).T)
        for name in ("a", "b", "c")
    }
    for line in LINES:
        wanted = np.array([line.of(tick) for tick in one_by_one]).T
        assert np.array(line.of_each(each, len(found))) == pytest.approx(wanted, nan_ok=True)
