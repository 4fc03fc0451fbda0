"""A surge or a mix is counted as told as it is meant, in worlds whose load adds up and whose mix is thinned once."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.detection_measures.arrivals import Lap, lap
from benchmarks.detection_measures.loaded_worlds import LoadedWorld
from benchmarks.detection_measures.saturation import HALF, MIX, SATURATION, SURGE, told_right
from benchmarks.detection_measures.worlds import BUCKETS

HOUR = 720


@pytest.fixture(scope="module")
def source() -> Lap:
    return lap()


def test_right_is_what_is_told_as_itself_afterwards_and_never_as_the_other() -> None:
    assert told_right(SURGE, [(5.0, SATURATION), (60.0, SURGE), (900.0, SURGE)]) == 60.0
    for wrong in ([], [(5.0, SATURATION)], [(60.0, SURGE), (90.0, MIX)], [(-10.0, SURGE), (60.0, SURGE)]):
        assert told_right(SURGE, wrong) is None
    assert told_right(SURGE, [(-300.0, SATURATION), (60.0, SURGE)]) is None
    assert told_right(None, []) == 0.0 and told_right(None, [(5.0, SATURATION)]) is None


@pytest.mark.slow
def test_who_came_has_been_served_or_waits_or_runs(source: Lap) -> None:
    world = LoadedWorld(replace(HALF, rate=5.0, util=0.9), source, (3,))
    minutes, load = world.run(3600.0)
    assert minutes.sum() == load.served.sum() + load.waiting[-1] + load.running[-1]
    assert load.waiting.min() >= 0.0 and 0.0 <= load.running.min() <= load.running.max() <= world.shape.nodes
    assert np.array_equal(sum(load.by_bucket.values()), load.served)
    assert load.waiting.max() > 0.0 and load.tokens.sum() > 0.0


@pytest.mark.slow
def test_short_prompts_are_kept_with_the_probability_that_is_told(source: Lap) -> None:
    usual, mixed = (LoadedWorld(replace(HALF, rate=20.0), source, (4,), mix=mix) for mix in (None, (0.0, 0.3)))
    before, after = (one.run(HOUR * 5.0)[1] for one in (usual, mixed))
    short, kept = (sum(one.by_bucket[name].sum() for name in BUCKETS[:3]) for one in (before, after))
    assert kept / short == pytest.approx(0.3, abs=0.03)
