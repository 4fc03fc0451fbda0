"""Counts beside each other: on one scale that begins at nothing, with their figures in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.drawing.counted_bars import Counted, counted_bars, shared_end


def test_each_arm_is_told_by_its_counts_and_its_share() -> None:
    bars = counted_bars(Counted(12, 400), Counted(20, 1600), 0.05)
    assert bars.words == "canary 12 of 400 (3.0 %), control 20 of 1,600 (1.2 %)"
    assert (bars.canary, bars.control) == (pytest.approx(0.6), pytest.approx(0.25))
    assert counted_bars(Counted(0, 0), Counted(1, 10), 0.2).words == "canary nothing yet, control 1 of 10 (10 %)"


@pytest.mark.parametrize(
    ("shares", "end"), [([0.03, 0.01], 0.05), ([0.05], 0.1), ([0.5], 1.0), ([0.9], 1.0), ([0.0], 0.01), ([], 0.01)]
)
def test_the_scale_ends_at_a_round_share_with_room(shares: list[float], end: float) -> None:
    assert shared_end([Counted(share * 1000, 1000) for share in shares]) == pytest.approx(end)


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)).filter(lambda pair: pair[0] <= pair[1]), min_size=2
    )
)
def test_no_bar_is_longer_than_the_scale_and_the_larger_share_has_the_longer_bar(pairs: list[tuple[int, int]]) -> None:
    arms = [Counted(*pair) for pair in pairs]
    end = shared_end(arms)
    bars = counted_bars(arms[0], arms[1], end)
    assert 0 <= bars.canary <= 1 and 0 <= bars.control <= 1 and end <= 1
    assert (arms[0].share > arms[1].share) is (bars.canary > bars.control)
