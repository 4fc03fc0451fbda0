"""The worlds are what they say: rates, queues, faults from their moment on, the same again for a seed."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.detection_measures.arrivals import Lap, day_curve, lap
from benchmarks.detection_measures.worlds import Fault, Shape, World

CALM = Shape("calm", 10.0, fast_sd=0.0)
EDGES = np.arange(960)


@pytest.fixture(scope="module")
def source() -> Lap:
    return lap()


def mean_place(histograms: np.ndarray) -> float:
    return float(histograms.sum(axis=(0, 1)) @ EDGES / histograms.sum())


@pytest.mark.slow
def test_the_rate_is_kept_and_a_seed_tells_the_same(source: Lap) -> None:
    first, again, other = (list(World(CALM, source, seed).chunks(7200.0)) for seed in ((1,), (1,), (2,)))
    assert sum(chunk.arrived.sum() for chunk in first) / 7200 == pytest.approx(10.0, rel=0.15)
    assert all(np.array_equal(one.ttft, two.ttft) for one, two in zip(first, again, strict=True))
    assert not np.array_equal(first[0].ttft, other[0].ttft)
    assert all(np.array_equal(one.prefill.sum(axis=(1, 2)), one.arrived) for one in first)


def test_waiting_comes_with_load_and_is_in_ttft_alone(source: Lap) -> None:
    idle, busy = (next(World(replace(CALM, util=util), source, (3,)).chunks(3600.0)) for util in (0.05, 0.9))
    waited = [mean_place(chunk.ttft) - mean_place(chunk.prefill) for chunk in (idle, busy)]
    assert 0 <= waited[0] < waited[1] / 20


@pytest.mark.slow
def test_a_fault_hits_those_it_names_from_its_moment_on(source: Lap) -> None:
    fault = Fault(3600.0, 2.0, least_prompt=2049)
    before, after = World(CALM, source, (4,), (fault,)).chunks(7200.0)
    usual = list(World(CALM, source, (4,)).chunks(7200.0))
    assert np.array_equal(before.prefill, usual[0].prefill)
    assert np.array_equal(after.prefill[:, :3], usual[1].prefill[:, :3])
    assert mean_place(after.prefill[:, 3:]) - mean_place(usual[1].prefill[:, 3:]) == pytest.approx(32, abs=1)


def test_a_day_has_its_curve_and_a_week_its_end() -> None:
    hours = day_curve(np.arange(0, 7 * 86400.0, 3600.0), 0.6).reshape(7, 24)
    assert hours.max() <= 1.0 and hours[0].argmin() == 3 and hours[0, 3] < 0.5 * hours[0].max()
    assert hours[6].max() < 0.7 * hours[0].max()
