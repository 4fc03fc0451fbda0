"""What is told of a surface that was measured twice: halves that make up the whole, and how well they agree."""

import json
import math
import re

import numpy as np
import pytest

from benchmarks.tuner_measures.from_forecasts.surface_forecasts import NAMES, defaults
from benchmarks.tuner_measures.from_trials import __main__ as from_trials
from benchmarks.tuner_measures.from_trials.first_runs import DEFAULTS, wanted
from benchmarks.tuner_measures.measured_surface import full_weights, is_full, measured
from controlplane.contract.knobs import canonical_json
from tuner.search.first_points import first_points


@pytest.mark.parametrize("name", from_trials.SURFACES)
@pytest.mark.parametrize("seed", range(4))
def test_one_half_is_the_truth_and_the_other_is_told(name: str, seed: int) -> None:
    """Four seeds have both slices and both halves: their geometric mean is what was measured."""
    surface = from_trials.SURFACES[name](seed)
    half = from_trials._one_run(surface, seed)
    told = from_trials._other_run(half, seed, [])
    assert told.keys() == surface.seen.keys() and half.fresh == half.seen
    for key, truth in surface.seen.items():
        both = np.add(from_trials._logs(half.seen[key]), told[key]) / 2
        np.testing.assert_allclose(both, from_trials._logs(truth), atol=1e-9)
    assert any(from_trials._logs(half.seen[key]) != pytest.approx(told[key], abs=1e-6) for key in told)


def test_seeds_take_each_half_of_each_slice() -> None:
    halves = [from_trials._one_run(full_weights(seed), seed).seen for seed in range(4)]
    key = next(iter(halves[0]))
    runs = [run[NAMES[0]] for place in from_trials._two_runs()[key] for run in place]
    assert sorted(half[key].objective for half in halves) == pytest.approx(sorted(runs)) and len(set(runs)) == 4


@pytest.mark.parametrize("name", from_trials.SURFACES)
def test_a_perfect_forecast_agrees_better_than_the_other_run_does(name: str) -> None:
    lines = from_trials._repeatability(name).splitlines()
    rows = [re.findall(r"-?\d+\.\d+", line.split("|", 3)[3]) for line in lines if line.startswith("| ") and ":" in line]
    assert len(rows) == 2 * len(NAMES)
    for spread, noise, alike, tau, best, best_tau in (map(float, row) for row in rows):
        assert spread > 0 and noise > 0 and 0 < alike <= best <= 1 and 0 < tau < 1
        assert best == pytest.approx(math.sqrt(2 * alike / (1 + alike)), abs=0.01)
        assert best == pytest.approx(math.sin(math.pi / 2 * best_tau), abs=0.01)


def test_how_well_a_mean_of_two_agrees_with_the_truth() -> None:
    """The formula that the column is made by, by simulation."""
    random = np.random.default_rng(1)
    truth = random.normal(size=100_000)
    one, other = (truth + random.normal(0, 0.8, len(truth)) for _ in range(2))
    alike = np.corrcoef(one, other)[0, 1]
    assert np.corrcoef(truth, one + other)[0, 1] == pytest.approx(math.sqrt(2 * alike / (1 + alike)), abs=0.01)


def test_all_that_studies_would_run_first_is_run_once_and_full_weights_before_others() -> None:
    found = wanted()
    assert len(found) == len(set(found)) and [is_full(key) for key in found] == sorted(
        map(is_full, found), reverse=True
    )
    assert all(canonical_json(json.loads(key)) == key for key in found)
    drawn = set(map(canonical_json, defaults(DEFAULTS)))
    assert drawn <= set(found)
    for surface in (full_weights(), measured()):
        assert set(map(canonical_json, first_points(surface.space, surface.default))) <= set(found)
