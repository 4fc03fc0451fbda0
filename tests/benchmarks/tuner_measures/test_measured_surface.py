"""A surface that was measured is replayed as it was: means for truths, and noise that some run had."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.tuner_measures.engine_grid import VALUES, VLLM_VALUES, grid
from benchmarks.tuner_measures.known_surfaces import configurations
from benchmarks.tuner_measures.measured_surface import (
    EMBEDDED,
    LIMITS,
    OBJECTIVE,
    ReplayedSurface,
    measured,
    read,
    vllm,
    vllm_40,
)
from controlplane.contract.knobs import canonical_json


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Every configuration of the grid with two runs a slice, `size` and `size` x 1.21; the second slice is slower."""
    random = np.random.default_rng(3)
    runs: dict[str, Any] = {}
    for config in grid():
        size = float(random.uniform(0.01, 0.05))
        figures = [{name: size * factor for name in (OBJECTIVE, *LIMITS)} for factor in (1.0, 1.21)]
        slower = [{name: 2.0 * value for name, value in one.items()} for one in figures]
        runs[canonical_json(config.knobs())] = [figures, slower]
    told = tmp_path / "surface.json"
    told.write_text(json.dumps({"values": VALUES, "runs": runs}))
    return told


def test_truths_are_means_and_noise_is_what_runs_had(path: Path) -> None:
    told = read(path)
    raw = json.loads(path.read_text())["runs"]
    for key, ((first, _), _) in raw.items():
        assert told.slices[0][key][OBJECTIVE] == pytest.approx(1.1 * first[OBJECTIVE])
        assert told.slices[1][key][OBJECTIVE] == pytest.approx(2.2 * first[OBJECTIVE])
    spread = np.log(1.1) * np.sqrt(2.0)
    assert sorted(set(np.round(told.noise.ravel(), 9).tolist())) == pytest.approx([-spread, spread])


def test_a_configuration_that_ran_once_tells_no_noise(path: Path) -> None:
    told = json.loads(path.read_text())
    once = next(iter(told["runs"].values()))
    once[0], once[1] = once[0][:1], once[1][:1]
    path.write_text(json.dumps(told))
    found = read(path)
    assert np.isfinite(found.noise).all() and len(found.noise) == 4 * (len(told["runs"]) - 1)
    assert len(found.slices[0]) == len(told["runs"])


@pytest.mark.parametrize("quantized", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_every_configuration_of_the_space_was_measured(path: Path, seed: int, quantized: bool) -> None:
    surface = measured(seed, path, quantized=quantized)
    keys = {canonical_json(knobs) for knobs in configurations(surface.space)}
    assert keys == set(surface.seen) == set(surface.fresh)
    assert 0.0 < np.mean([truth.feasible for truth in surface.seen.values()]) <= 0.36
    truth = surface.seen[canonical_json(surface.default)]
    assert truth.objective >= 1.2 * surface.best() and surface.default["quantization"] == "none"


def test_a_run_has_one_runs_noise_in_all_its_figures(path: Path) -> None:
    surface = measured(1, path)
    truth = surface.seen[canonical_json(surface.default)]
    factors = set()
    for seed in range(20):
        found = surface.measure(surface.default, np.random.default_rng(seed))
        assert found.objective_s is not None
        factor = found.objective_s / truth.objective
        assert {name: (excess + 1.0) / truth.limits[name] for name, excess in found.violations.items()} == (
            pytest.approx(dict.fromkeys(LIMITS, factor))
        )
        factors.add(round(factor, 6))
    assert len(factors) == 2


def test_what_is_kept_with_the_project_is_whole() -> None:
    surface = measured(0, EMBEDDED)
    assert isinstance(surface, ReplayedSurface)
    assert {canonical_json(config.knobs()) for config in grid()} == set(surface.seen)
    assert len(surface.runs) == 2 * 2 * len(surface.seen)


@pytest.mark.parametrize("make", [vllm, vllm_40])
def test_what_is_kept_of_vllm_is_whole(make: Callable[[int], ReplayedSurface]) -> None:
    surface = make(0)
    assert {canonical_json(config.knobs()) for config in grid(VLLM_VALUES)} == set(surface.seen)
    assert len(surface.runs) == 2 * 2 * len(surface.seen)
    assert len({truth.objective for truth in surface.seen.values()}) == len(surface.seen)
