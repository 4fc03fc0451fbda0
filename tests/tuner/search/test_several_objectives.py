"""A search of two objectives: it finds the front between them, and the best in the first that is hardly worse in the
other."""

import math
from typing import Any

import numpy as np
import pytest

from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.knobs import EngineConfig
from tuner.search.belief import Belief, models_of
from tuner.search.front import beaten
from tuner.search.objective import Assessment
from tuner.search.search import Search
from tuner.search.space import Capabilities, build_space
from tuner.search.surrogate import Posterior

DEFAULT = EngineConfig(max_num_batched_tokens=64).knobs()
COUNTS = [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072]
SPACE = build_space(
    {"max_num_batched_tokens": KnobRange(choices=COUNTS), "max_num_seqs": KnobRange(choices=[4, 8, 16, 32])},
    DEFAULT,
    Capabilities(),
)
ALSO = "tpot:0.5"


def figures(knobs: dict[str, Any]) -> tuple[float, float]:
    """Larger steps are better in the first and worse in the second; fewer sequences are worse in both."""
    steps, few = math.log2(knobs["max_num_batched_tokens"] / 64), math.log2(32 / knobs["max_num_seqs"])
    return 1.0 * 0.8**steps * 1.1**few, 1.0 * 1.15**steps * 1.1**few


def searched(*, trials: int = 20, tolerance: float = 0.1, seed: int = 0) -> Search:
    search = Search(
        SPACE, DEFAULT, constraints=["errors"], seed=seed, max_trials=trials, also=[ALSO], also_tolerance=tolerance
    )
    noise = np.random.default_rng(seed)
    while (candidate := search.ask()) is not None:
        first, other = (value * math.exp(0.03 * noise.standard_normal()) for value in figures(candidate.knobs))
        search.tell(candidate, Assessment(first, {"errors": -1.0}, {ALSO: other}))
    return search


def test_the_front_goes_from_the_best_in_one_to_the_best_in_the_other() -> None:
    front = searched().front()
    assert [point.values[0][0] for point in front] == sorted(point.values[0][0] for point in front)
    tokens = [point.knobs["max_num_batched_tokens"] for point in front]
    assert len(front) >= 4 and max(tokens) >= 1536 and min(tokens) <= 96
    assert {point.knobs["max_num_seqs"] for point in front[:2]} == {32}
    means = np.array([[value[0] for value in point.values] for point in front])
    assert not beaten(means).any()
    for point in front:
        for truth, (value, low, high) in zip(figures(point.knobs), point.values, strict=True):
            assert low < value < high and low / 1.1 < truth < high * 1.1


def test_with_one_objective_the_best_is_the_fastest_and_the_front_is_that_alone() -> None:
    search = Search(SPACE, DEFAULT, constraints=["errors"], max_trials=14)
    while (candidate := search.ask()) is not None:
        search.tell(candidate, Assessment(figures(candidate.knobs)[0], {"errors": -1.0}))
    best = search.best()
    assert best is not None and best.knobs["max_num_batched_tokens"] >= 2048
    assert [point.knobs for point in search.front()] == [best.knobs]


@pytest.mark.parametrize(("tolerance", "least", "most"), [(0.05, 64, 128), (0.9, 1024, 3072)])
def test_the_best_is_no_worse_in_the_other_than_is_tolerated(tolerance: float, least: int, most: int) -> None:
    search = searched(tolerance=tolerance)
    best = search.best()
    assert best is not None and least <= best.knobs["max_num_batched_tokens"] <= most
    for finalist in search.finalists(1):
        assert least <= finalist.knobs["max_num_batched_tokens"] <= most


def test_no_finalist_is_likely_worse_in_the_other_than_is_tolerated() -> None:
    for seed in range(3):
        finalists = searched(tolerance=0.2, seed=seed).finalists(8)
        assert finalists
        assert max(figures(one.knobs)[1] for one in finalists) < 1.25 * figures(DEFAULT)[1]


@pytest.mark.slow
def test_what_random_search_would_have_found_is_no_worse_in_the_other_either() -> None:
    def rival(tolerance: float) -> float:
        found = searched(tolerance=tolerance).random_rival(spent_s=120.0, run_s=10.0, change_s=lambda _, __: 0.0)
        assert found is not None
        return found.improvement

    assert rival(0.02) < 0.15 < 0.4 < rival(3.0)


def test_what_may_break_a_limit_covers_less_by_that() -> None:
    mean, sd = np.array([-1.0, -0.2]), np.array([0.1, 0.1])
    both = (Posterior(mean, sd, 0.1), [Posterior(mean[::-1], sd, 0.1)])
    sure, corner = Belief(both[0], np.log([1.0, 1e-9]), both[1]), np.zeros(2)
    half = Belief(both[0], np.log([0.5, 1e-9]), both[1])
    assert half.covered(corner) == pytest.approx(sure.covered(corner) / 2, rel=1e-3)
    assert sure.front.tolist() == [True, False]


def test_an_objective_that_one_run_did_not_measure_is_bad_there_and_known_elsewhere() -> None:
    knobs = DEFAULT | {"max_num_batched_tokens": 2048}
    runs = [(DEFAULT, Assessment(1.0, {}, {ALSO: 1.0})), (knobs, Assessment(0.5, {}))]
    models = models_of(SPACE, runs, [], 1.0, {ALSO: 1.0})
    assert models is not None
    before, after = models.at(SPACE.places([DEFAULT, knobs])).also[0].mean
    assert after > before + 0.5
