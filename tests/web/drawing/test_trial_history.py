"""Trials stand in their order, the slow above the fast, and the best so far never rises."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from web.drawing.trial_history import Tried, trial_history

tried = st.builds(
    Tried,
    st.integers(0, 99),
    st.sampled_from(["default", "search"]),
    st.none() | st.floats(1e-4, 500),
    st.booleans(),
)


@given(st.lists(tried, min_size=1, max_size=30))
def test_all_of_it_lies_in_the_drawing_and_slower_is_higher(trials: list[Tried]) -> None:
    chart = trial_history(trials, "ttft p95")
    if not any(one.objective_s for one in trials):
        assert chart is None
        return
    assert chart is not None and len(chart.marks) == len(chart.rows["rows"]) == len(trials)
    for (one, mark), (other, next_mark) in pairwise(zip(trials, chart.marks, strict=True)):
        assert 0 <= mark.x < next_mark.x <= 1 and 0 <= mark.y <= 1
        if one.objective_s and other.objective_s and one.objective_s > 1.01 * other.objective_s:
            assert mark.y < next_mark.y
    assert all(after.y >= before.y for before, after in pairwise(chart.best)), "faster is lower"
    assert all(0 <= tick.share <= 1 for tick in chart.up) and len(chart.up) <= 5


def test_it_says_what_the_default_took_and_which_was_fastest_of_those_that_kept_the_limits() -> None:
    trials = [
        Tried(0, "default", 0.3, True),
        Tried(1, "search", 0.1, False),
        Tried(2, "search", 0.2, True),
        Tried(3, "search", None, False),
    ]
    chart = trial_history(trials, "TTFT p95")
    assert chart is not None
    assert chart.sentence == (
        "The default took 300 ms at TTFT p95. 1 of 3 other trials kept the limits; "
        "the fastest of these took 200 ms (trial 2), in one run each."
    )
    assert [mark.what for mark in chart.marks] == ["default", "broke", "kept", "failed"]
    assert chart.rows["rows"][3] == ["3", "search", "–", "not measured"]
