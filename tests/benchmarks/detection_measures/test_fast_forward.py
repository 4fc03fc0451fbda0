"""Weeks at once raise what the detector raises tick by tick."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.detection_measures.arrivals import Lap, lap
from benchmarks.detection_measures.fast_forward import REST_S, WARM_S, watch, windows_of
from benchmarks.detection_measures.worlds import BUCKETS, Chunk, Fault, Shape, World
from controlplane.alerts.regressions.detector import Detector
from controlplane.alerts.windows.load import LoadMeter
from controlplane.alerts.windows.pool_record import Move, PoolRecord
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, BASE
from controlplane.contract.metrics import WINDOW_S

BASELINE_S = 7200.0
SHAPE = Shape("test", 4.0, slow=((0.01, 3600.0),))


@pytest.fixture(scope="module")
def source() -> Lap:
    return lap()


def chunks(source: Lap, seed: int, *faults: Fault, surge: tuple[float, float, float] | None = None) -> list[Chunk]:
    """Three hours, of which the third is judged."""
    made = World(SHAPE, source, (seed,), faults, surge).chunks(BASELINE_S + 3600.0)
    return [replace(chunk, start_s=chunk.start_s + WARM_S - BASELINE_S) for chunk in made]


def detector() -> Detector:
    return Detector(RegressionCondition(metrics=["prefill"], baseline_s=BASELINE_S))


def tick_by_tick(made: Sequence[Chunk], records: Sequence[tuple[float, PoolRecord]]) -> list[float]:
    one, meter = detector(), LoadMeter()
    windows = [window for chunk in made for window in windows_of(chunk, "prefill", meter)]
    raised, was_alarmed, quiet_until_s = [], False, 0.0
    for window in windows:
        if window.start_s < WARM_S:
            continue
        record = [known for since_s, known in records if since_s <= window.start_s]
        one.advance(window, windows, *record[-1:])
        is_alarmed = bool(one.alarmed("prefill") or one.apart("prefill"))
        if is_alarmed and not was_alarmed and window.start_s >= quiet_until_s:
            raised.append(window.start_s + WINDOW_S)
            quiet_until_s = window.start_s + REST_S
        was_alarmed = is_alarmed
    return raised


SLOW = Fault(BASELINE_S + 600.0, 1.4)
ONE_SLOW = Fault(BASELINE_S + 600.0, 1.5, node=2)
ACCEPTED = PoolRecord(moves={"prefill": (Move(1, WARM_S + 600.0, {0.5: 16, 0.95: 16, 0.99: 16}),)})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "surge", "records", "alarms"),
    [
        ((), None, (), 0),
        ((SLOW,), None, (), 1),
        ((ONE_SLOW,), None, (), 1),
        ((), (BASELINE_S + 600.0, BASELINE_S + 1200.0, 3.0), (), 0),
        ((SLOW,), None, ((WARM_S + 600.0, ACCEPTED),), 0),
    ],
)
def test_it_is_the_detector_and_its_alarms(
    source: Lap,
    faults: tuple[Fault, ...],
    surge: tuple[float, float, float] | None,
    records: tuple[tuple[float, PoolRecord], ...],
    alarms: int,
) -> None:
    made = chunks(source, 3, *faults, surge=surge)
    found = watch(detector(), "prefill", made, records)
    assert found.raised == tick_by_tick(made, records)
    assert len(found.raised) == alarms and math.isfinite(found.nearest)
    assert watch(detector(), "prefill", made, records, first_only=True).raised == found.raised[:1]


def test_nodes_levels_are_of_the_chunks_requests(source: Lap) -> None:
    chunk = chunks(source, 4)[0]
    for tick, window in enumerate(windows_of(chunk, "prefill", LoadMeter())):
        mine = chunk.tick == tick
        assert ("prefill" in window.nodes) == bool(mine.any())
        levels = window.nodes.get("prefill")
        for place, (node, bucket) in enumerate(levels.keys if levels is not None else ()):
            cell = mine & (chunk.node == int(node[1:])) & (chunk.bucket == BUCKETS.index(bucket))
            logs = (chunk.places["prefill"][cell] + AXIS_MIN + 0.5) * math.log(BASE)
            assert levels is not None and levels.figures[0, place] == cell.sum()
            assert levels.figures[1, place] == pytest.approx(logs.sum())


def test_windows_hold_the_chunks_histograms(source: Lap) -> None:
    chunk = chunks(source, 4)[0]
    for window, counts in zip(windows_of(chunk, "ttft", LoadMeter()), chunk.ttft, strict=True):
        tails = window.tails.get("ttft", {})
        assert set(tails) == {name for place, name in enumerate(BUCKETS) if counts[place].any()}
        for place, name in enumerate(BUCKETS):
            found = np.zeros(AXIS_LENGTH, dtype=np.int64)
            if name in tails:
                tails[name].add_to(found)
                assert tails[name].count == counts[place].sum()
            assert np.array_equal(found, counts[place])
