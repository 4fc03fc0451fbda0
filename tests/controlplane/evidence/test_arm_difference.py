"""Differences of arms by stratum, and offsets that are shrunk by what is known of them."""

import numpy as np
import pytest

from controlplane.evidence.arm_difference import Differences, Offsets


def differences(offsets: list[float], weights: list[float], ticks: int = 400, seed: int = 1) -> Differences:
    """A tick's difference in each stratum scatters as its weight says."""
    weight = np.tile(weights, (ticks, 1)).astype(np.float64)
    scatter = np.random.default_rng(seed).normal(size=weight.shape) / np.sqrt(np.maximum(weight, 1e-12))
    return Differences(np.where(weight > 0, np.array(offsets) + scatter, 0.0), weight)


def test_a_difference_is_of_means_and_weighs_as_its_variance() -> None:
    counts, others = np.array([[4.0, 0.0, 2.0]]), np.array([[12.0, 5.0, 0.0]])
    found = Differences.of(counts, np.array([[8.0, 0.0, 1.0]]), others, np.array([[6.0, 5.0, 0.0]]))
    assert found.value.tolist() == [[1.5, 0.0, 0.0]]
    assert found.weight.tolist() == [[3.0, 0.0, 0.0]], "one over 1/4 + 1/12; nothing where an arm is silent"
    alone = Differences.alone(counts, np.array([[8.0, 0.0, 1.0]]))
    assert alone.value.tolist() == [[2.0, 0.0, 0.5]] and alone.weight.tolist() == counts.tolist()


def test_strata_that_differ_have_offsets_of_their_own_and_alike_ones_the_common() -> None:
    apart = Offsets.learn(differences([0.5, -0.5], [5.0, 5.0]))
    assert apart.value == pytest.approx([0.5, -0.5], abs=0.06)
    alike = Offsets.learn(differences([0.2, 0.2, 0.2], [5.0, 5.0, 0.01]))
    assert alike.value == pytest.approx([0.2] * 3, abs=0.06), "the third was hardly ever seen"


def test_a_stratum_never_seen_has_the_common_offset_and_the_scatter_of_the_others() -> None:
    found = Offsets.learn(differences([0.6, -0.2, 0.0], [5.0, 5.0, 0.0]))
    assert found.value[2] == pytest.approx(0.2, abs=0.05)
    assert found.variance[2] > 100.0 * found.variance[0]
    assert found.share[2] == 0.0


def test_the_line_is_level_before_whatever_the_offsets() -> None:
    past = differences([0.5, -0.5], [5.0, 2.0])
    value, variance = Offsets.learn(past).line(past)
    assert value.mean() == pytest.approx(0.0, abs=1e-3)
    assert variance == pytest.approx(1.0 / 7.0)
    silent = Differences(np.zeros((2, 2)), np.zeros((2, 2)))
    assert np.isnan(Offsets.learn(past).line(silent)[0]).all()


def test_what_offsets_do_not_share_counts_only_where_the_mix_has_changed() -> None:
    found = Offsets.learn(differences([0.5, -0.5], [5.0, 5.0]))
    assert found.unshared(np.array([7.0, 7.0])) == pytest.approx(0.0, abs=1e-12)
    assert found.unshared(np.array([7.0, 0.0])) == pytest.approx(0.25 * found.variance.sum())
    assert found.unshared(np.zeros(2)) == 0.0
