"""Who meets the default: fast and likely within its limits, by its heats and by what was known of it."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tuner.search.objective import Assessment
from tuner.search.search import Outcome
from tuner.study.heats import standing, still_running

LIMIT = "itl:0.99"


def _run(objective_s: float | None, excess: float = -0.5) -> Assessment:
    return Assessment(objective_s, {LIMIT: excess})


def _known(count: int, gain: float = 0.0, feasible: Sequence[float] = ()) -> list[Outcome]:
    sure = [*feasible, *[1.0] * count]
    return [Outcome(place, {}, Assessment(1.0, {}), gain, sure[place]) for place in range(count)]


runs = st.builds(_run, st.one_of(st.none(), st.floats(0.01, 10)), st.floats(-0.9, 3))


@given(st.lists(st.lists(runs, min_size=1, max_size=3), min_size=1, max_size=5), st.floats(-1, 2))
def test_all_stand_what_was_not_measured_last_and_the_best_always_runs_on(
    heats: list[list[Assessment]], gain: float
) -> None:
    ranked = standing(_known(len(heats), gain), heats)
    failed = [any(run.objective_s is None for run in heats[place]) for place in ranked]
    assert sorted(ranked) == list(range(len(heats))) and failed == sorted(failed)
    kept = still_running(_known(len(heats), gain), heats)
    assert kept[0] == ranked[0] and kept == [place for place in ranked if place in kept]


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=5))
def test_of_those_far_within_their_limits_the_fastest_is_first(seconds: list[float]) -> None:
    first = standing(_known(len(seconds)), [[_run(one, -0.9)] for one in seconds])[0]
    assert seconds[first] == min(seconds)


def test_who_is_far_behind_or_surely_breaks_a_limit_or_fails_leaves_after_a_heat() -> None:
    heats = [[_run(1.05)], [_run(1.0)], [_run(1.25)], [_run(0.9, excess=0.4)], [_run(None)]]
    assert standing(_known(5), heats)[:2] == [1, 0] and standing(_known(5), heats)[-1] == 4
    assert still_running(_known(5), heats) == [1, 0]
    assert still_running(_known(2, gain=2.0), [[_run(1.0)], [_run(1.3)]]) == [0], "much is gained by both"


def test_a_run_a_little_beyond_a_limit_is_no_end_and_one_a_little_within_no_win() -> None:
    heats = [[_run(1.0, 0.02)], [_run(1.02, -0.02)], [_run(1.03, -0.2)]]
    even = _known(3, feasible=[0.5] * 3)
    assert standing(even, heats)[0] == 2 and 1 in still_running(even, heats)


def test_what_the_search_knows_of_its_limits_counts_beside_the_heats() -> None:
    heats = [[_run(1.0, -0.03)], [_run(1.05, -0.03)]]
    assert standing(_known(2), heats) == [0, 1]
    assert standing(_known(2, feasible=[0.3, 0.95]), heats) == [1, 0]


def test_the_more_is_to_be_gained_the_less_is_risked_for_a_little_more() -> None:
    """Much faster than the default both: the sure one is chosen. Hardly faster: it is not worth having."""
    heats = [[_run(1.0, -0.06)], [_run(1.1, -0.3)]]
    assert standing(_known(2, 1.0, [0.5, 0.5]), heats) == [1, 0]
    assert standing(_known(2, 0.05, [0.5, 0.5]), heats) == [0, 1]


def test_where_nothing_could_be_measured_all_stand_as_they_came() -> None:
    assert standing(_known(2), [[_run(None)], [_run(None)]]) == [0, 1]
    assert still_running(_known(2), [[_run(None)], [_run(None)]]) == [0]
