"""What random search would have found: more where most is better, less where little is, and as much as time allows."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.knobs import EngineConfig
from tuner.search.belief import Models, models_of
from tuner.search.objective import Assessment, crashed
from tuner.search.random_rival import RandomRival, random_rival
from tuner.search.space import Capabilities, build_space
from tuner.search.surrogate import Surrogate

DEFAULT = EngineConfig(max_num_batched_tokens=64).knobs()
COUNTS = [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072]
SPACE = build_space({"max_num_batched_tokens": KnobRange(choices=COUNTS)}, DEFAULT, Capabilities())
CANDIDATES = SPACE.configurations(Random(0))
LIMIT = "itl:0.99"


def tokens(count: int) -> dict[str, Any]:
    return DEFAULT | {"max_num_batched_tokens": count}


def models(*runs: tuple[int, float, float]) -> Models:
    """Of runs: tokens, objective, excess over the limit; the first is the default's."""
    found = models_of(SPACE, [(tokens(a), Assessment(b, {LIMIT: c})) for a, b, c in runs], [LIMIT], runs[0][1])
    assert found is not None
    return found


def rival(learned: Models, *, spent_s: float = 120.0, change_s: float = 0.0) -> RandomRival:
    def change(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
        assert before != after
        return change_s

    found = random_rival(SPACE, learned, DEFAULT, CANDIDATES, spent_s=spent_s, run_s=10.0, change_s=change)
    assert found is not None
    return found


BETTER = models((64, 1.0, -0.5), *((count, 0.5, -0.5) for count in (128, 256, 512, 1024, 2048)))
WORSE = models((64, 1.0, -0.5), *((count, 2.0, -0.5) for count in (128, 256, 512, 1024, 2048)))


def test_it_has_as_many_trials_as_time_allows() -> None:
    assert rival(BETTER).trials == 11, "the default is measured, too"
    assert rival(BETTER, change_s=10.0).trials == 5
    none = rival(BETTER, spent_s=15.0)
    assert (none.trials, none.improvement, none.low, none.high) == (0, 0.0, 0.0, 0.0)


def test_where_most_is_better_it_finds_that_and_where_nothing_is_it_keeps_the_default() -> None:
    assert rival(BETTER).improvement > 0.4
    assert rival(WORSE).improvement < 0.2
    assert rival(BETTER).low <= rival(BETTER).improvement <= rival(BETTER).high


def test_what_breaks_a_limit_is_no_find() -> None:
    broken = models((64, 1.0, -0.5), *((count, 0.3, 1.0) for count in (128, 256, 512, 1024, 2048)))
    assert rival(broken).improvement < rival(BETTER).improvement - 0.2


def test_the_studys_own_winner_is_told_by_the_same_belief() -> None:
    """Of single runs, the best looks better than it is: it is not to be held against what fresh traffic showed."""
    assert rival(BETTER).own is None

    def own(learned: Models, winner: int) -> float:
        found = random_rival(
            SPACE,
            learned,
            DEFAULT,
            CANDIDATES,
            spent_s=120.0,
            run_s=10.0,
            change_s=lambda _, __: 0.0,
            winner=tokens(winner),
        )
        assert found is not None and found.own is not None
        assert found == replace(rival(learned), own=found.own), "what chance finds hangs on no winner"
        return found.own

    assert own(BETTER, 512) == pytest.approx(0.5, abs=0.07)
    assert own(WORSE, 512) < -0.5
    assert own(BETTER, 64) == 0.0


def test_equal_seeds_give_equal_answers_and_nothing_to_choose_from_gives_none() -> None:
    assert rival(BETTER) == rival(BETTER)
    found = random_rival(SPACE, BETTER, DEFAULT, [DEFAULT], spent_s=1.0, run_s=1.0, change_s=lambda _, __: 0.0)
    assert found is None


def test_a_crash_keeps_draws_away_from_what_lies_beside_it() -> None:
    runs = [(tokens(64), Assessment(1.0, {LIMIT: -0.5})), (tokens(128), Assessment(0.9, {LIMIT: -0.5}))]
    learned = models_of(SPACE, [*runs, (tokens(2048), crashed())], [LIMIT], 1.0)
    assert learned is not None
    places, random = SPACE.places([tokens(64), tokens(2048)]), np.random.default_rng(3)
    keeps = np.array([learned.draw(places, random)[1] for _ in range(200)]).mean(axis=0)
    assert keeps[0] > 0.7 > 0.3 > keeps[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_draws_have_the_beliefs_mean_and_spread_and_near_points_move_together(seed: int) -> None:
    random = np.random.default_rng(seed)
    places = random.random((6, 2))
    values = np.sin(3.0 * places[:, 0]) + 0.05 * random.standard_normal(6)
    learned = Surrogate(places, values, noise=0.05, ordered=np.array([True, True]))
    asked = np.array([[0.5, 0.5], [0.5, 0.501], [0.9, 0.1]])
    drawn = np.array([learned.draw(asked, random) for _ in range(4000)])
    told = learned.at(asked)
    assert np.abs(drawn.mean(axis=0) - told.mean).max() < 0.1 * told.sd.max()
    assert drawn.std(axis=0) == pytest.approx(told.sd, rel=0.15)
    assert np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1] > 0.99
