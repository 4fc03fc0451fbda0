"""A threshold is the least that is quiet enough; what a rival says of a fault rises."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.detection_measures.equal_terms import REST_TICKS, Said, alarms, delay, quiet_threshold
from benchmarks.detection_measures.fast_forward import WARM_S
from benchmarks.detection_measures.rivals import PUBLISHED, RIVALS
from benchmarks.detection_measures.worlds import Chunk
from controlplane.contract.metrics import WINDOW_S

HOURS, TICKS, PLACE = 9, 720, 400


def chunks(factor_buckets: int, seed: int) -> Iterator[Chunk]:
    """Ten requests a tick, spread over forty buckets of the axis; from the eighth hour on so many buckets slower."""
    random = np.random.default_rng(seed)
    for hour in range(HOURS):
        tick = np.repeat(np.arange(TICKS), 10)
        slower = factor_buckets if hour >= 7 else 0
        places = PLACE + slower + random.integers(0, 40, tick.size)
        yield Chunk(
            3600.0 * hour,
            tick,
            np.zeros_like(tick),
            np.zeros_like(tick),
            np.full_like(tick, 100),
            {"prefill": places},
            np.full(TICKS, 10),
        )


@pytest.mark.parametrize("rival", sorted(RIVALS))
def test_a_rival_is_quiet_before_a_fault_and_loud_after_it(rival: str) -> None:
    calm, slow = (Said.of(chunks(by, 1), "prefill", [rival]).numbers[rival] for by in (0, 30))
    assert calm.size == slow.size == (HOURS * TICKS) - round(WARM_S / WINDOW_S)
    threshold = quiet_threshold([calm], 0)
    assert not alarms(calm, threshold)
    late = delay(slow, threshold * 1.01 if threshold > 0 else threshold, 3600.0)
    assert 0.0 < late < 3600.0
    assert rival in PUBLISHED and (slow[TICKS:] >= PUBLISHED[rival]).any()


def test_alarms_rest_and_a_threshold_allows_so_many() -> None:
    numbers = np.zeros(4 * REST_TICKS)
    numbers[[10, 20, 2 * REST_TICKS]] = [3.0, 5.0, 4.0]
    numbers[30] = math.nan
    assert alarms(numbers, 2.0) == [11 * WINDOW_S, (2 * REST_TICKS + 1) * WINDOW_S]
    assert quiet_threshold([numbers], 1) == pytest.approx(4.0, rel=1e-6)
    assert quiet_threshold([numbers], 0) == pytest.approx(5.0, rel=1e-6)
    assert delay(numbers, 2.0, 10.0) == 11 * WINDOW_S - 10.0
    assert delay(numbers, 2.0, 2 * 11 * WINDOW_S) == math.inf and delay(numbers, 9.0, 0.0) == math.inf
