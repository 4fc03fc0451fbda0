"""Shares inside and outside: what is drawn is what is told, and the whisker says whether the difference is clear."""

from hypothesis import given
from hypothesis import strategies as st

from web.drawing.share_bars import Pair, share_pair

SHARES = st.floats(0, 1)


@given(SHARES, SHARES, st.floats(0, 0.5), st.floats(0, 0.5))
def test_the_whisker_is_clear_of_the_outside_when_the_interval_is_clear_of_zero(
    inside: float, outside: float, below: float, above: float
) -> None:
    difference = inside - outside
    drawn = share_pair(Pair("gpu-3", inside, outside, difference - below, difference + above))
    low, high = drawn.whisker
    assert 0 <= low <= high <= 1
    assert drawn.clear == (difference - below > 0 or difference + above < 0)
    if low > outside or high < outside:
        assert drawn.clear


def test_the_words_name_both_shares_and_the_interval() -> None:
    words = share_pair(Pair("gpu-3", 0.84, 0.24, 0.51, 0.67)).words
    assert words == "84 % inside, 24 % outside: +60 points (51 to 67)"
