"""A verdict bar draws the interval that was judged against the bounds that it was judged by, and judges nothing."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.drawing.verdict_bar import APART, Judged, verdict_bar
from web.frame.rendering import templates

ratios = st.floats(0.02, 50)


@given(st.tuples(ratios, ratios, ratios).map(sorted), st.floats(1.0, 2.0))
def test_all_of_it_lies_in_the_drawing_and_on_its_side_of_each_bound(ends: list[float], bound: float) -> None:
    low, ratio, high = ends
    bar = verdict_bar(Judged(ratio, low, high, bound, "worse"))
    assert 0 <= bar.low <= bar.ratio <= bar.high <= 1
    assert sum(zone.width for zone in bar.zones) == pytest.approx(1)
    edge = {zone.name: zone.share for zone in bar.zones}
    for value, share in ((low, bar.low), (ratio, bar.ratio), (high, bar.high)):
        if abs(value / bound - 1) > 1e-6:
            assert (value > bound) == (share > edge["worse"])
        if abs(value - 1) > 1e-6:
            assert (value < 1) == (share < edge["better"] + bar.zones[0].width)
    shares = [tick.share for tick in bar.across]
    assert all(after - before >= APART - 1e-9 for before, after in pairwise(shares))
    assert 0.5 in shares  # "The same" is in the middle, and said.


def test_it_says_verdict_change_interval_and_bound() -> None:
    bar = verdict_bar(Judged(1.12, 1.03, 1.22, 1.05, "inconclusive"), "ttft p99")
    assert bar.sentence == (
        "Inconclusive: ttft p99 is 12 % higher (3 % higher to 22 % higher); up to 5 % higher counts as not worse."
    )
    assert [zone.name for zone in bar.zones] == ["better", "not worse", "worse"]
    assert verdict_bar(Judged(1.0, 0.9, 1.1, 1.0, "not_worse")).sentence == (
        "Not worse: latency is the same (10 % lower to 10 % higher); up to the same counts as not worse."
    )


def test_an_interval_without_an_end_goes_on_to_the_edge() -> None:
    bar = verdict_bar(Judged(1.1, 0.0, math.inf, 1.05, "inconclusive"))
    assert (bar.low, bar.high, bar.open_low, bar.open_high) == (0, 1, True, True)
    assert "(any amount lower to any amount higher)" in bar.sentence
    text = str(templates.get_template("components/verdict_bar.html").module.verdict_bar(bar))  # type: ignore[attr-defined]
    assert text.count('class="interval"') == 1 and "style=" not in text


@pytest.mark.parametrize(
    "wrong",
    [Judged(1.0, 1.1, 1.2, 1.05, "worse"), Judged(0.0, 0.0, 1.2, 1.05, "worse"), Judged(1.0, 0.9, 1.2, 0.5, "worse")],
)
def test_what_is_out_of_order_is_refused(wrong: Judged) -> None:
    with pytest.raises(ValueError, match="wants 0 <"):
        verdict_bar(wrong)
