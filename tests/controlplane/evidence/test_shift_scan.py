"""The scan is silent about wandering, finds a rise soon, and does not take one freak tick for one."""

import numpy as np
import pytest

from controlplane.evidence.shift_scan import Scan, Sums, total
from controlplane.evidence.wander import TAUS_TICKS, Wander, fit
from tests.controlplane.evidence.test_wander import process

PAST, RISES, TOLERATED, ALARM = 4000, (0.3, 0.6, 1.2), 0.05, 15.0
SAMPLING = 0.01


def evidence(values: np.ndarray, wander: Wander | None = None) -> np.ndarray:
    sampling = np.full(values.size, SAMPLING)
    wander = wander or fit(values[:PAST], sampling[:PAST], [0.0] * len(TAUS_TICKS))
    level = float(np.nanmean(values[:PAST]))
    ends = np.arange(PAST + 1, values.size + 1)
    return total(Scan.of(wander, PAST).parts(Sums.of(values, sampling, wander, level), ends, RISES, TOLERATED))


def noise(seed: int, ticks: int = PAST + 2000) -> np.ndarray:
    return process(0.1, 12.0, ticks, seed) + 0.1 * np.random.default_rng(100 + seed).normal(size=ticks)


@pytest.mark.parametrize("seed", range(4))
def test_wandering_is_no_rise(seed: int) -> None:
    assert evidence(noise(seed)).max() < ALARM


@pytest.mark.parametrize("seed", range(4))
def test_a_rise_is_found_soon_whatever_the_level(seed: int) -> None:
    values = noise(seed) + 7.0
    values[PAST + 500 :] += 0.6
    found = evidence(values)
    assert found[:500].max() < ALARM
    assert np.argmax(found[500:] >= ALARM) < 30 and found[500:].max() >= ALARM


def test_one_freak_tick_is_no_rise_and_an_empty_one_is_nothing() -> None:
    values = noise(5)
    values[PAST + 300] += 50.0
    values[PAST + 600 : PAST + 700] = np.nan
    assert evidence(values).max() < ALARM


def test_evidence_is_a_mean_of_likelihood_ratios() -> None:
    """Under the null, with the noise known, the mean ratio of one onset and alternative is 1."""
    random, known = np.random.default_rng(9), Wander((0.0,) * len(TAUS_TICKS))
    scan = Scan.of(known, 200)
    ratios = []
    for _ in range(400):
        values = 0.1 * random.normal(size=220)
        sums = Sums.of(values, np.full(220, SAMPLING), known, 0.0)
        ratios.append(scan.parts(sums, np.array([220]), (0.1,), 0.0)[0, :, 0])
    gaps = np.diff(scan.edges[np.concatenate([[scan.onsets[0] - 1], scan.onsets])])
    means = np.exp(np.array(ratios)).mean(axis=0) / gaps
    assert means[:4] == pytest.approx(1.0, abs=0.4)  # Short spans: of long ones the mean is made by rare large ratios.
