"""Many windows at once are judged as they are tick by tick: every finding, word for word."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.detection_measures.arrivals import Lap
from benchmarks.detection_measures.fast_forward import windows_of
from benchmarks.detection_measures.worlds import Fault, Shape, World
from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.regression_findings import FEW, judge_regression
from controlplane.alerts.regressions.detector import Detector
from controlplane.alerts.regressions.look_ahead import LookAhead
from controlplane.alerts.windows.history import History, Window
from controlplane.alerts.windows.load import LoadMeter
from controlplane.alerts.windows.pool_record import NOTHING_KNOWN, Move, PoolRecord
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.contract.metrics import WINDOW_S

PAST_S, JUDGED_S = 7200.0, 3600.0
METRICS = ("prefill", "tpot")
AT_S = PAST_S + 900.0


def served(*faults: Fault, surge: tuple[float, float, float] | None = None, until_s: float = JUDGED_S) -> list[Window]:
    """Two hours and what is judged, of two metrics."""
    random = np.random.default_rng(5)
    source = Lap(np.sort(3600.0 * random.random(14400)), random.integers(50, 3000, 14400), "made up")
    shape = Shape("test", 4.0, slow=((0.01, 3600.0),))
    meters = {metric: LoadMeter() for metric in METRICS}
    found = []
    for chunk in World(shape, source, (5,), faults, surge).chunks(PAST_S + until_s):
        for one, other in zip(*(windows_of(chunk, metric, meters[metric]) for metric in METRICS), strict=True):
            both = {**one.tails, **other.tails}, {**one.nodes, **other.nodes}
            found.append(Window(one.start_s, one.load, *both, one.tokens))
    return found


def judged(
    windows: Sequence[Window], at_once_s: float, record: PoolRecord = NOTHING_KNOWN, until_s: float = JUDGED_S
) -> list[Finding]:
    detector = Detector(RegressionCondition(metrics=list(METRICS), baseline_s=PAST_S))
    history = History({"pool": "p"}, METRICS, 0.0)
    found: list[Finding] = []
    for begin_s in np.arange(PAST_S, PAST_S + until_s, at_once_s).tolist():
        end_s = begin_s + at_once_s
        history.windows = [window for window in windows if window.start_s < end_s]
        last = {one.labels["metric"]: one.reading for one in found if one.reading is not Reading.HOLD}
        firing = {metric for metric, reading in last.items() if reading is Reading.BREACH}
        found += judge_regression(
            detector, history, "p", begin_s, end_s, record, lambda labels, known=firing: labels["metric"] in known
        )
    return found


WHOLE = {"all": Fault(AT_S, 1.5), "a node": Fault(AT_S, 1.6, node=1), "some": Fault(AT_S, 2.0, share=0.09)}
CREEP = Fault(PAST_S + 300.0, 1.3, ramp_s=2400.0)
DRAFTS = Fault(AT_S, 1.0, node=0, no_drafts=True)
MOVED = PoolRecord(moves={"prefill": (Move(1, PAST_S + 1200.0, {0.5: 16, 0.95: 16, 0.99: 16}),)})
CHANGING = PoolRecord(changing=((PAST_S + 600.0, PAST_S + 1100.0),), on_trial=frozenset())
TRIAL = PoolRecord(on_trial=frozenset({"n1"}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "surge", "record"),
    [
        ((), None, NOTHING_KNOWN),
        *(((fault,), None, NOTHING_KNOWN) for fault in (*WHOLE.values(), CREEP, DRAFTS)),
        ((), (AT_S, AT_S + 600.0, 3.0), NOTHING_KNOWN),
        ((WHOLE["all"],), None, MOVED),
        ((WHOLE["a node"],), None, CHANGING),
        ((WHOLE["a node"],), None, TRIAL),
    ],
)
def test_findings_are_those_tick_by_tick(
    faults: tuple[Fault, ...], surge: tuple[float, float, float] | None, record: PoolRecord
) -> None:
    windows = served(*faults, surge=surge)
    slowly = judged(windows, FEW * WINDOW_S, record)
    assert judged(windows, JUDGED_S, record) == slowly
    assert len(slowly) == len(METRICS) * JUDGED_S / WINDOW_S


@pytest.mark.slow
def test_where_ticks_are_missing_it_is_the_same() -> None:
    windows = [one for one in served(WHOLE["all"]) if not 300.0 <= one.start_s % 900.0 < 400.0]
    found = judged(windows, JUDGED_S)
    assert found == [one for one in judged(windows, FEW * WINDOW_S) if one.reading is not Reading.HOLD]
    assert any(one.reading is Reading.BREACH for one in found)


def test_what_is_near_no_alarm_is_passed_over_and_what_is_is_not() -> None:
    windows = served(replace(WHOLE["all"], at_s=PAST_S + 300.0), until_s=600.0)
    detector = Detector(RegressionCondition(metrics=list(METRICS), baseline_s=PAST_S))
    first = next(place for place, window in enumerate(windows) if window.start_s >= PAST_S)
    detector.advance(windows[first], windows)
    passed = LookAhead(detector).pass_over(windows, first + 1, windows)
    assert first + 20 < passed and PAST_S + 300.0 <= windows[passed].start_s + WINDOW_S <= PAST_S + 400.0
    assert detector.last_start_s == windows[passed - 1].start_s
