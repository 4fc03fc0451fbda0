"""The surrogate believes runs as far as their noise permits, and is unsure where nobody has looked."""

import math

import numpy as np
import pytest
from scipy import stats

from tuner.search import surrogate
from tuner.search.belief import TOLD_NOISE
from tuner.search.surrogate import Array, Posterior, Surrogate

LINE = np.linspace(0, 1, 9)[:, None]
ORDERED = np.array([True])


def fitted(places: list[float], values: list[float], noise: float = 0.08) -> Surrogate:
    return Surrogate(np.array(places)[:, None], np.array(values), noise=noise, ordered=ORDERED)


def test_it_passes_near_its_runs_and_is_surest_there() -> None:
    found = fitted([0.0, 0.5, 1.0], [1.0, -1.0, 0.5], noise=0.02).at(LINE)
    assert found.mean[[0, 4, 8]] == pytest.approx([1.0, -1.0, 0.5], abs=0.1)
    assert found.sd[4] < found.sd[2] and found.sd[0] < found.sd[1]


def test_repeats_make_it_surer_and_a_lucky_run_among_them_does_not_decide() -> None:
    once, often = fitted([0.0, 0.5], [0.0, -0.3]), fitted([0.0, 0.5, 0.5, 0.5, 0.5], [0.0, -0.3, 0.1, 0.0, 0.05])
    (single,), (many,) = (one.at(np.array([[0.5]])).mean for one in (once, often))
    assert single < -0.1 and abs(many) < 0.1
    assert often.at(np.array([[0.5]])).sd[0] < once.at(np.array([[0.5]])).sd[0]


def test_noise_is_learned_from_repeats() -> None:
    random = np.random.default_rng(0)
    places = [0.2] * 6 + [0.8] * 6
    quiet, loud = (fitted(places, list(sd * random.standard_normal(12))).noise for sd in (0.03, 0.2))
    assert quiet < 0.08 < loud


def test_categories_have_no_order() -> None:
    """A third format is as far from the first as from the second."""
    places, values = np.array([[0.0], [1.0]]), np.array([0.0, 1.0])
    found = Surrogate(places, values, noise=0.05, ordered=np.array([False])).at(np.array([[2.0], [7.0]]))
    assert found.mean[0] == pytest.approx(0.5, abs=1e-6) and found.mean[0] == pytest.approx(found.mean[1])


def test_equal_runs_give_equal_answers() -> None:
    one, other = (fitted([0.1, 0.6, 0.9], [0.3, 0.1, 0.2]).at(LINE) for _ in range(2))
    assert np.array_equal(one.mean, other.mean) and np.array_equal(one.sd, other.sd)


def test_improvement_and_probability_are_those_of_a_normal() -> None:
    belief = Posterior(np.array([0.2, -0.1]), np.array([0.3, 0.05]), 0.1)
    drawn = belief.mean + belief.sd * np.random.default_rng(0).standard_normal((200_000, 2))
    assert belief.improvement(0.1) == pytest.approx(np.maximum(0.1 - drawn, 0).mean(axis=0), rel=0.02)
    assert np.exp(belief.log_below(0.0)) == pytest.approx(stats.norm.cdf(-belief.mean / belief.sd))


def test_what_one_knob_does_is_expected_whatever_the_other_is() -> None:
    """Three corners of a square, and the fourth is believed to be nearer to the sum of both effects than to either."""
    places, values = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0.0, -0.7, -0.3])
    found = Surrogate(places, values, noise=0.02, ordered=np.array([True, True])).at(np.array([[1.0, 1.0]]))
    assert -1.0 < found.mean[0] < -0.75


@pytest.mark.parametrize("seed", (1, 2, 3))
def test_evidence_is_the_density_of_what_is_left_of_values_without_their_mean(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one draw of hyperparameters: that of any n - 1 contrasts, but for n alone (restricted likelihood)."""
    random, count = np.random.default_rng(seed), 7
    places, ordered = random.uniform(size=(count, 3)), np.array([True, True, False])
    draw = tuple(one[:1] for one in surrogate._draws(3, TOLD_NOISE))
    monkeypatch.setattr(surrogate, "_draws", lambda knobs, noise: draw)
    lengths, spreads, noises = draw
    kernel = surrogate._kernel(surrogate._gaps(places, places, ordered), lengths, spreads)[0]
    kernel = kernel + noises[0] ** 2 * np.eye(count)
    contrasts = np.linalg.svd(np.ones((1, count)))[2][1:]
    values = random.normal(size=count)
    density = stats.multivariate_normal(np.zeros(count - 1), contrasts @ kernel @ contrasts.T).logpdf(
        contrasts @ values
    )
    alone = 0.5 * (count - 1) * math.log(2 * math.pi) - 0.5 * math.log(count)

    def evidence(told: Array) -> float:
        return Surrogate(places, told, noise=TOLD_NOISE, ordered=ordered).evidence

    assert evidence(values) == pytest.approx(density + alone)
    assert evidence(values + 9.0) == pytest.approx(evidence(values))
