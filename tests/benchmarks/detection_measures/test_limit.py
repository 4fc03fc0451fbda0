"""The limits are those of cases that can be worked out by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.detection_measures.limit import by_requests_s, nats_a_request, nats_wanted, with_common_noise_s
from benchmarks.detection_measures.worlds import Fault, Shape
from controlplane.contract.histogram import AXIS_LENGTH, SCALE

SIGMA = 0.6
STILL = Shape("still", 5.0, fast_sd=0.0)


def lognormal() -> np.ndarray:
    """Two prompt buckets alike, a million requests each."""
    log = (np.arange(AXIS_LENGTH) - 500.0) / 2**SCALE * math.log(2.0)
    shares = np.exp(-0.5 * (log / SIGMA) ** 2)
    return np.tile(np.round(1e6 * shares / shares.sum()).astype(np.int64), (2, 1))


def test_a_shift_of_a_lognormal_holds_half_its_square() -> None:
    exact = 0.5 * (math.log(1.2) / SIGMA) ** 2
    assert nats_a_request(lognormal(), (0, 2049), Fault(0.0, 1.2), 4) == pytest.approx(exact, rel=0.05)
    half = nats_a_request(lognormal(), (0, 2049), Fault(0.0, 1.2, least_prompt=2049), 4)
    assert half == pytest.approx(exact / 2.0, rel=0.05)
    one_node = nats_a_request(lognormal(), (0, 2049), Fault(0.0, 1.5, node=0), 4)
    share = nats_a_request(lognormal(), (0, 2049), Fault(0.0, 1.5, share=0.25), 4)
    assert 0.0 < one_node == share < nats_a_request(lognormal(), (0, 2049), Fault(0.0, 1.5), 4) / 4.0


def test_without_common_noise_both_limits_are_one() -> None:
    wanted = nats_wanted(28 * 86400.0)
    assert wanted == pytest.approx(13.09, abs=0.01)
    nats = 0.5 * (math.log(1.1) / SIGMA) ** 2
    alone = by_requests_s(nats, 5.0, wanted)
    assert with_common_noise_s(STILL, 1.1, SIGMA, wanted) == pytest.approx(alone, abs=10.0)


def test_common_noise_bounds_what_more_requests_bring() -> None:
    wanted = nats_wanted(28 * 86400.0)
    noisy = replace(STILL, fast_sd=0.05)
    late = [with_common_noise_s(replace(noisy, rate=rate), 1.05, 0.3, wanted) for rate in (5.0, 100.0, 1e6)]
    assert late[0] > late[1] > late[2] > 600.0
    assert with_common_noise_s(replace(noisy, slow=((0.3, 3600.0),)), 1.02, 0.3, wanted) == math.inf
