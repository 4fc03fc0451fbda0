"""The last word is honest: heats choose, pairs decide, and no verdict is better than its evidence."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.studies import Objective, StudyVerdict
from tuner.search.objective import Assessment
from tuner.study.remeasure import (
    BLOCKS,
    DEFAULT,
    INTERLEAVED,
    USUAL_PAIRS,
    WINNER,
    Race,
    blocks,
    changes_of,
    design_for,
    most_pairs,
    order,
    verdict,
)

LIMIT = "itl:0.99"


@given(st.integers(2, 20))
def test_runs_are_interleaved_and_balanced(repeats: int) -> None:
    runs = order(repeats)
    assert len(runs) == 2 * repeats
    assert all({arm for pair, arm in runs if pair == wanted} == {DEFAULT, WINNER} for wanted in range(repeats))
    firsts = [runs[2 * pair][1] for pair in range(repeats)]
    assert abs(firsts.count(DEFAULT) - firsts.count(WINNER)) <= 1


def _run(objective_s: float | None, excess: float = -0.5) -> Assessment:
    return Assessment(objective_s, {LIMIT: excess})


def _race(last: int, pairs: Sequence[tuple[float, float]], excess: float = -0.5, design: str = INTERLEAVED) -> Race:
    race = Race(last, design, [LIMIT])
    for default_s, winner_s in pairs:
        race.add(DEFAULT, _run(default_s))
        race.add(WINNER, _run(winner_s, excess))
    return race


def test_a_race_ends_when_it_is_decided_either_way_or_hopeless_or_over() -> None:
    better, worse = [(1.0, 0.5), (1.0, 0.51), (1.0, 0.5)], [(1.0, 2.0), (1.0, 2.02), (1.0, 2.0)]
    assert _race(10, better).settled and _race(10, better).found.low > 0
    assert _race(10, worse).settled and _race(10, worse).found.high < 0
    wavering = [(1.0, 0.9), (1.0, 1.2)] * 5
    assert not _race(10, wavering[:4]).settled
    assert _race(10, wavering[:6]).settled, "behind after six pairs"
    assert _race(10, wavering).settled
    assert not _race(10, better[:2]).settled, "two pairs are not looked at unless they are the last"


def test_a_race_goes_on_while_a_limit_may_not_hold() -> None:
    race = Race(10, INTERLEAVED, [LIMIT])
    for excess in (-0.3, 0.25, -0.3):
        race.add(DEFAULT, _run(1.0))
        race.add(WINNER, _run(0.5, excess))
    assert race.found.low > 0 and race.unsure == [LIMIT] and not race.settled
    assert verdict(race.found, {LIMIT: -0.1}, race.unsure) is StudyVerdict.NOT_BETTER
    assert verdict(race.found, {LIMIT: -0.1}) is StudyVerdict.BETTER
    assert verdict(race.found, {LIMIT: 0.01}) is StudyVerdict.NOT_BETTER


def test_a_race_ends_early_for_a_winner_that_is_faster_and_surely_beyond_a_limit() -> None:
    """The next one has more use of the runs. While it may be no faster, it goes on: who follows must know that."""
    race = _race(12, [(1.0, 0.5), (1.0, 0.51), (1.0, 0.5)], excess=0.1)
    assert race.broken == [LIMIT] == race.unsure and race.settled
    assert not _race(12, [(1.0, 0.5), (1.0, 1.2), (1.0, 0.5)], excess=0.1).settled


def test_one_run_far_off_hides_neither_a_gain_nor_that_a_limit_is_kept() -> None:
    race = Race(8, INTERLEAVED, [LIMIT])
    for place in range(8):
        stalls = 6.0 if place == 3 else 1.0
        race.add(DEFAULT, _run(1.0 + 0.01 * place))
        race.add(WINNER, _run(0.85 * stalls, excess=0.9 * stalls * (1 - 0.01 * place) - 1.0))
    assert race.found.low > 0.05 and abs(race.found.estimate - 0.18) < 0.05
    assert not race.unsure and not race.broken


def _beside(winner: Sequence[float], worse_by: float = 0.1) -> Race:
    race = Race(10, INTERLEAVED, [LIMIT], [Objective(objective="tpot", objective_q=0.5)], worse_by)
    for other in winner:
        race.add(DEFAULT, Assessment(1.0, {LIMIT: -0.5}, {"tpot:0.5": 0.1}))
        race.add(WINNER, Assessment(0.5, {LIMIT: -0.5}, {"tpot:0.5": 0.1 * other}))
    return race


def test_a_winner_is_hardly_worse_in_a_further_objective_and_that_for_certain() -> None:
    held = _beside([1.01, 0.99, 1.0])
    (found,) = held.also_found
    assert held.settled and held.also_held and found.held and found.interval is not None
    assert found.interval[0] < found.improvement < found.interval[1] and abs(found.improvement) < 0.01
    assert (found.default_s, found.winner_s) == pytest.approx((0.1, 0.1), rel=1e-3)
    worse, noisy = _beside([1.2, 1.21, 1.2]), _beside([0.7, 1.3, 1.0])
    assert not worse.also_held and worse.also_found[0].improvement == pytest.approx(-0.2, abs=0.01)
    assert not noisy.also_held and not noisy.settled, "nobody can tell yet"
    assert _beside([1.2, 1.21, 1.2], worse_by=0.3).also_held
    assert verdict(held.found, {}) is StudyVerdict.BETTER
    assert verdict(worse.found, {}, also_held=worse.also_held) is StudyVerdict.NOT_BETTER


def test_a_further_objective_that_nobody_measured_does_not_hold() -> None:
    race = Race(3, INTERLEAVED, [LIMIT], [Objective(objective="goodput")], 0.1)
    for _ in range(3):
        race.add(DEFAULT, _run(1.0))
        race.add(WINNER, _run(0.5))
    assert race.also_found == [] and not race.also_held
    (alone,) = _beside([1.0]).also_found
    assert (alone.interval, alone.worse_at_most, alone.held) == (None, None, False)


def test_half_a_pair_does_not_end_a_race_and_blocks_are_not_cut_short() -> None:
    pairs = [(1.0, 0.5)] * 3
    race = _race(10, pairs)
    race.add(DEFAULT, _run(1.0))
    assert race.pairs == 3 and not race.settled
    assert not _race(4, pairs, design=BLOCKS).settled and _race(3, pairs, design=BLOCKS).settled


@given(st.integers(2, 20), st.integers(-5, 100))
def test_at_most_the_usual_pairs_unless_more_are_wanted_and_as_many_as_were(wanted: int, affordable: int) -> None:
    found = most_pairs(wanted, affordable)
    assert wanted <= found <= max(wanted, USUAL_PAIRS)
    assert found == wanted or found <= affordable


def test_blocks_begin_and_end_with_the_outer_arm() -> None:
    assert blocks(3, DEFAULT) == [(0, DEFAULT), (1, DEFAULT), (0, WINNER), (1, WINNER), (2, WINNER), (2, DEFAULT)]
    assert blocks(2, WINNER) == [(0, WINNER), (0, DEFAULT), (1, DEFAULT), (1, WINNER)]


@pytest.mark.parametrize("repeats", [2, 3, 6])
def test_a_design_has_as_many_changes_as_its_order_shows(repeats: int) -> None:
    interleaved, inner = [arm for _, arm in order(repeats)], [arm for _, arm in blocks(repeats, DEFAULT)]
    assert sum(a != b for a, b in pairwise(interleaved)) == changes_of(INTERLEAVED, repeats)
    assert sum(a != b for a, b in pairwise(inner)) == changes_of(BLOCKS, repeats)


def test_dear_changes_are_interleaved_while_all_of_the_runs_and_changes_can_be_paid_for() -> None:
    """Two pairs: four runs of 10 s, a change to the first arm and two between them, of 60 s."""
    assert design_for(2, run_s=10.0, change_s=60.0, cheap_s=5.0, left_s=220.0) == INTERLEAVED
    assert design_for(2, run_s=10.0, change_s=60.0, cheap_s=5.0, left_s=219.0) == BLOCKS
    assert design_for(2, run_s=10.0, change_s=5.0, cheap_s=5.0, left_s=0.0) == INTERLEAVED
