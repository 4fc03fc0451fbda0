from hypothesis import given
from hypothesis import strategies as st

from benchmarks.engine_measures.rate_search import RateSearch


def _run(search: RateSearch, capacity: float) -> int:
    """Trials until the search ends, against something that holds every rate up to its capacity."""
    trials = 0
    while (rung := search.rung) is not None:
        search.report(search.rate(rung) <= capacity)
        trials += 1
        assert trials < 200
    return trials


@given(st.floats(0.05, 500.0), st.sampled_from([1, 2, 4, 8]), st.integers(-10, 10))
def test_it_finds_the_last_rung_that_holds(capacity: float, stride: int, start: int) -> None:
    search = RateSearch(5.0, rung=start, stride=stride)
    _run(search, capacity)
    rung = search.answer_rung
    assert rung is not None
    assert search.rate(rung) <= capacity < search.rate(rung + 1)
    assert search.held[rung + 1] is False


def test_nothing_holds() -> None:
    search = RateSearch(1.0, lowest=-8)
    _run(search, 0.0)
    assert search.answer_rung is None
    assert min(search.held) == -8


def test_a_warm_start_takes_two_trials() -> None:
    first = RateSearch(1.0, stride=4)
    _run(first, 10.0)
    assert _run(RateSearch(1.0, rung=first.answer_rung), 10.0) == 2


def test_a_lucky_trial_above_a_failure_does_not_count() -> None:
    search = RateSearch(1.0)
    search.held = {0: True, 2: False, 3: True}
    assert search.answer_rung == 0
