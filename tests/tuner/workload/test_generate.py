"""The generator has the burstiness, the tails and the sharing that were asked for."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from controlplane.contract.planning.traffic_figures import prefix_share
from tuner.workload.capture import describe
from tuner.workload.generate import CODE, CONV, arrivals, fitted, generate
from tuner.workload.trace_file import load

SHORT = fitted(CONV, max_input=32, max_output=8)


def test_seeded() -> None:
    a, b, c = (list(itertools.islice(arrivals(CONV, seed), 100)) for seed in (1, 1, 2))
    assert a == b != c


@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0, 4.0])
def test_gaps_have_mean_one_and_the_wanted_variation(cv: float) -> None:
    gaps = np.array([arrival.gap for arrival in itertools.islice(arrivals(replace(SHORT, arrival_cv=cv), 3), 20000)])
    assert gaps.mean() == pytest.approx(1.0, rel=0.1)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.1)


def test_lengths_are_heavy_tailed_within_the_limits() -> None:
    shape = fitted(replace(CONV, turns=1.0), max_input=1024, max_output=64)
    found = list(itertools.islice(arrivals(shape, 4), 5000))
    inputs = np.array([arrival.input_length for arrival in found])
    outputs = np.array([arrival.output_length for arrival in found])
    assert inputs.max() <= 1024 and outputs.max() <= 64 and inputs.min() >= 1
    assert np.quantile(inputs, 0.99) > 5 * np.median(inputs)
    assert np.median(inputs) == pytest.approx(shape.input_median, rel=0.1)
    assert all(len(arrival.hash_ids) == arrival.input_length // 16 for arrival in found)


def test_system_prompts_and_turns_are_shared() -> None:
    none = replace(CONV, system_share=0.0, turns=1.0)
    assert prefix_share(generate(none, seed=5, rate_per_s=5, requests=300)) == 0
    systems = replace(CONV, turns=1.0)
    assert 0.1 < prefix_share(generate(systems, seed=5, rate_per_s=5, requests=300)) < 0.4
    turns = replace(CONV, system_share=0.0, turns=3.0)
    assert prefix_share(generate(turns, seed=5, rate_per_s=5, requests=300)) > 0.3


def test_rate() -> None:
    assert describe(generate(SHORT, seed=6, rate_per_s=7, requests=3000))["rate_per_s"] == pytest.approx(7, rel=0.15)


@pytest.mark.parametrize(("name", "shape"), [("conv", CONV), ("code", CODE)])
def test_fits_the_real_trace(azure: Path, name: str, shape: object) -> None:
    real = load(azure / f"AzureLLMInferenceTrace_{name}.csv").requests
    fit = CONV if name == "conv" else CODE
    inputs = np.log([request.input_length for request in real])
    outputs = np.log([max(1, request.output_length) for request in real])
    assert math.exp(float(np.median(inputs))) == pytest.approx(fit.input_median, rel=0.02)
    assert float(inputs.std()) == pytest.approx(fit.input_sigma, rel=0.02)
    assert float(outputs.std()) == pytest.approx(fit.output_sigma, rel=0.02)
