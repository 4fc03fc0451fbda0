"""Several objectives: what is beaten, what a front covers, and what one more point is expected to add to it."""

import numpy as np
import pytest

from tuner.search.front import beaten, expected_gain, hypervolume
from tuner.search.surrogate import Array, Posterior

CORNER = np.array([1.0, 1.0])


def points(*of: tuple[float, ...]) -> Array:
    return np.array(of)


@pytest.mark.parametrize(
    ("of", "which"),
    [
        (points((1, 2), (2, 1), (2, 2)), [False, False, True]),
        (points((1, 2), (1, 2)), [False, False]),  # Equal ones do not beat each other.
        (points((1, 2), (1, 3)), [False, True]),
        (points((1, 5, 5), (2, 1, 5), (1, 1, 5)), [True, True, False]),
        (points((3,), (1,), (2,)), [True, False, True]),
    ],
)
def test_beaten_is_what_another_is_better_than_and_nowhere_worse(of: Array, which: list[bool]) -> None:
    assert beaten(of).tolist() == which


@pytest.mark.parametrize(
    ("of", "corner", "covered"),
    [
        (points((0, 0)), CORNER, 1.0),
        (points((0, 0.5), (0.5, 0)), CORNER, 0.75),
        (points((0, 0.5), (0.5, 0), (0.6, 0.6)), CORNER, 0.75),  # A beaten one adds nothing.
        (points((0, 0.5), (2, -5)), CORNER, 0.5),  # Nor does one beyond the corner.
        (points((0, 0, 0), (-1, 0.5, 0.5)), np.ones(3), 1.25),
        (points((0.25,), (0.5,)), np.ones(1), 0.75),
    ],
)
def test_a_front_covers_what_it_beats_below_the_corner(of: Array, corner: Array, covered: float) -> None:
    assert hypervolume(of, corner) == pytest.approx(covered)


@pytest.mark.slow
@pytest.mark.parametrize("objectives", [1, 2, 3])
def test_the_expected_gain_is_the_mean_of_what_draws_would_add(objectives: int) -> None:
    random = np.random.default_rng(objectives)
    front, corner = random.uniform(-1, 0.5, (4, objectives)), np.ones(objectives)
    means, sds = random.uniform(-1, 1, (3, objectives)), random.uniform(0.1, 0.6, (3, objectives))
    beliefs = [Posterior(means[:, at], sds[:, at], 0.1) for at in range(objectives)]
    before = hypervolume(front, corner)
    for place, found in enumerate(expected_gain(beliefs, front, corner)):
        drawn = means[place] + sds[place] * random.standard_normal((4000, objectives))
        added = [hypervolume(np.vstack([front, one]), corner) - before for one in drawn]
        assert found == pytest.approx(np.mean(added), abs=1e-9 + 4 * np.std(added) / np.sqrt(len(added)))


def test_with_one_objective_it_is_the_expected_improvement() -> None:
    belief = Posterior(np.array([0.2, -0.3, 0.6]), np.array([0.1, 0.2, 0.3]), 0.1)
    found = expected_gain([belief], points((0.1,), (0.4,)), np.ones(1))
    assert found == pytest.approx(belief.improvement(0.1))
