"""The load-binned baseline: bounds, load, tempering, and what is kept out of it."""

import math

import numpy as np
import pytest
from scipy import stats

from controlplane.alerts.regressions.baseline import (
    FLEET,
    Baseline,
    BucketBaseline,
    Cell,
    build_each,
    load_reach,
    margin_buckets,
    threshold_s,
)
from controlplane.alerts.regressions.detector import Detector
from controlplane.alerts.regressions.stacked_tails import Stack
from controlplane.alerts.windows.history import Tail, Window, merged
from controlplane.alerts.windows.load import LoadMeter, load_bin
from controlplane.alerts.windows.pool_record import PoolRecord
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.contract.histogram import AXIS_LENGTH, axis_position
from controlplane.evidence.binomial import Z_95, Z_99, wilson_upper
from controlplane.evidence.dispersion import dispersion_of
from controlplane.evidence.sketch import Sketch


def windows(
    count: int, *, rate: float = 50, seed: int = 1, noise: float = 0.0, first_s: float = 0.0, scale: float = 1.0
) -> list[Window]:
    random = np.random.default_rng(seed)
    made, drift = [], 0.0
    for place in range(count):
        if place % 12 == 0:
            drift = noise * random.normal()
        values = 0.2 * scale * np.exp(0.6 * random.normal(size=int(rate)) + drift)
        counts = np.bincount([axis_position(float(value)) for value in values], minlength=AXIS_LENGTH)
        made.append(Window(first_s + 5.0 * place, rate / 5.0, {"ttft": {"<=512": Tail.of(Sketch(counts=counts))}}))
    return made


def build(windows: list[Window]) -> Baseline | None:
    return build_each(Stack.of(windows, "ttft"), [0.95], 200).get(0.95)


def test_a_tail_says_what_the_sketch_says() -> None:
    random = np.random.default_rng(2)
    counts = np.zeros(AXIS_LENGTH, dtype=np.int64)
    np.add.at(counts, random.integers(300, 380, size=500), 1)
    sketch = Sketch(counts=counts, zero_count=3)
    tail = Tail.of(sketch)
    assert all(tail.above(position) == sketch.above(position) for position in range(AXIS_LENGTH))
    back = merged([Window(0.0, 1.0, {"ttft": {"": tail}})], "ttft")
    assert (back.counts == counts).all() and back.zero_count == 3 and tail.count == 503


def test_too_little_history_is_no_baseline() -> None:
    assert build(windows(3)) is None
    assert build([]) is None
    assert build(windows(5)) is not None


def test_the_null_covers_the_truth_and_narrows_with_history() -> None:
    fresh = merged(windows(1500, seed=11), "ttft")
    excess = []
    for minutes in (1, 5, 30):
        baseline = build(windows(12 * minutes))
        assert baseline is not None
        share = baseline.null_share("<=512", 10.0, 0.0)
        assert share is not None
        excess.append(share / (fresh.above(baseline.buckets["<=512"].edge) / fresh.count))
    assert excess[0] > excess[1] > excess[2] >= 1.0


def test_a_young_baseline_forgives_more() -> None:
    assert [margin_buckets(span_s) for span_s in (60, 600, 1800, 3600, 7200, 6 * 3600)] == [18, 18, 8, 5, 3, 2]


def test_noise_tempers() -> None:
    quiet, noisy = (build(windows(480, noise=noise)) for noise in (0.0, 0.3))
    assert quiet is not None and noisy is not None
    assert quiet.phi[FLEET] < 1.6 < 3.0 < noisy.phi[FLEET]


def test_each_load_has_its_own_share_and_an_unseen_one_none() -> None:
    busy = windows(200, rate=100, seed=2, first_s=1000.0, scale=2.0)
    baseline = build(windows(200, rate=25) + busy)
    assert baseline is not None
    quiet_share, busy_share = (baseline.null_share("<=512", load, 0.0) for load in (5.0, 20.0))
    assert quiet_share is not None and busy_share is not None and busy_share > 2 * quiet_share
    assert baseline.null_share("<=512", 40.0, 0.0) is None
    assert baseline.null_share(">32k", 5.0, 0.0) is None


def test_a_load_that_neighbours_speak_for_is_bounded_more_widely() -> None:
    baseline = build(windows(480, rate=25))
    assert baseline is not None
    (cell,), phi = baseline.buckets["<=512"].cells.values(), baseline.phi["<=512"]
    for load, z in ((5.0, Z_95), (2.5, Z_99)):
        assert baseline.null_share("<=512", load, 0.0) == wilson_upper(cell.above / phi, cell.count / phi, z)


def test_a_slow_regression_does_not_become_the_baseline_while_suspected() -> None:
    detector = Detector(RegressionCondition(metrics=["ttft"], q=[0.95]))
    history = windows(360)
    for window in windows(240, seed=3, first_s=1800.0, scale=1.35):
        history.append(window)
        detector.advance(window, history)
        if detector.alarmed("ttft"):
            break
    assert detector.alarmed("ttft")
    assert detector.learners["ttft", "*"].baselines[0.95].end_s < 1800.0


def test_spans_of_alarms_are_left_out() -> None:
    detector = Detector(RegressionCondition(metrics=["ttft"], q=[0.95]))
    history = windows(120) + windows(120, scale=3.0, first_s=600.0) + windows(120, first_s=1200.0, seed=5)
    detector.advance(windows(1, first_s=1800.0)[0], history, PoolRecord(alerts={"ttft": [(600.0, 1200.0)]}))
    known = detector.learners["ttft", "*"].baselines[0.95]
    assert known.quantile_s == pytest.approx(0.2 * math.exp(0.6 * 1.645), rel=0.1)
    detector = Detector(RegressionCondition(metrics=["ttft"], q=[0.95]))
    detector.advance(windows(1, first_s=1800.0)[0], history, PoolRecord(alerts={"ttft": [(600.0, math.inf)]}))
    assert detector.learners["ttft", "*"].baselines[0.95].end_s < 600.0


def test_evidence_goes_stale_without_traffic() -> None:
    detector = Detector(RegressionCondition(metrics=["ttft"], q=[0.95]))
    history = windows(120)
    for window in windows(10, first_s=600.0, scale=5.0):
        detector.advance(window, history)
    assert detector.alarmed("ttft")
    detector.advance(windows(1, first_s=2000.0)[0], history)
    assert not detector.alarmed("ttft")


class TestLoad:
    def test_right_from_the_first_window(self) -> None:
        assert LoadMeter().push(0.0, {"a": 50}, {}) == pytest.approx(10.0)

    def test_per_node(self) -> None:
        meter = LoadMeter()
        for place in range(40):
            load = meter.push(5.0 * place, {"a": 25, "b": 25}, {})
        assert load == pytest.approx(5.0)

    def test_a_crowd_outside_is_load(self) -> None:
        """Ten requests a second arrive, five are finished: the queue grows, and the load is ten."""
        meter, waiting = LoadMeter(), 0.0
        for place in range(60):
            waiting += 25
            load = meter.push(5.0 * place, {"a": 25}, {"a": waiting})
        assert load == pytest.approx(10.0, rel=0.05)

    def test_silence_starts_afresh(self) -> None:
        meter = LoadMeter()
        meter.push(0.0, {"a": 50}, {})
        for place in range(1, 20):
            meter.push(5.0 * place, {}, {})
        assert meter.push(100.0, {"a": 10}, {}) == pytest.approx(2.0)

    def test_bins_are_logarithmic(self) -> None:
        assert load_bin(0.0) <= load_bin(0.5) < load_bin(1.0) < load_bin(2.0) < load_bin(4.0)


# -- the share that counts as normal -----------------------------------------------------------------------------------


def known(cells: dict[int, tuple[int, int]], phi: float = 1.0, highest_load: float = 1000.0) -> Baseline:
    """A baseline of an hour at p95, of one bucket, with these counts and exceedances by load."""
    sums = {load_bin(load): Cell(*cell) for load, cell in cells.items()}
    total = Cell(sum(cell.count for cell in sums.values()), sum(cell.above for cell in sums.values()))
    bucket = BucketBaseline(300, sums, total)
    return Baseline("ttft", 0.95, {"b": bucket}, {"b": phi}, 0.5, 0.0, 3600.0, highest_load)


def upper(above: int, count: int, confidence: float) -> float:
    """Wilson's one-sided bound, by scipy."""
    return float(stats.binomtest(above, count).proportion_ci(2 * confidence - 1, method="wilson").high)


def test_the_bound_is_of_95_percent_and_of_99_where_other_loads_had_to_help() -> None:
    alone = known({8: (1000, 60)}).null_share("b", 8.0, 0.0)
    helped = known({8: (100, 6), 16: (900, 54)}).null_share("b", 8.0, 0.0)
    elsewhere = known({16: (1000, 60)}).null_share("b", 8.0, 0.0)
    assert alone == pytest.approx(upper(60, 1000, 0.95), abs=2e-5)
    assert helped == elsewhere == pytest.approx(upper(60, 1000, 0.99), abs=2e-5)


def test_noise_makes_as_many_requests_say_less() -> None:
    assert known({8: (4000, 240)}, phi=4.0).null_share("b", 8.0, 0.0) == pytest.approx(upper(60, 1000, 0.95), abs=2e-5)
    # At phi 4 a bin that expects 30 exceedances says no more than one that expects 7.5: it wants help.
    helped = known({8: (600, 36), 16: (3400, 204)}, phi=4.0).null_share("b", 8.0, 0.0)
    assert helped == pytest.approx(upper(60, 1000, 0.99), abs=2e-5)


def test_of_two_equally_near_loads_the_busier_helps_and_no_more_than_needed() -> None:
    share = known({4: (2000, 20), 8: (10, 1), 16: (2000, 200)}).null_share("b", 8.0, 0.0)
    assert share == pytest.approx(upper(201, 2010, 0.99), abs=2e-5)


def test_the_share_has_a_floor_a_ceiling_and_a_tolerance() -> None:
    assert known({8: (10**6, 0)}).null_share("b", 8.0, 0.0) == pytest.approx(0.25 * 0.05)
    assert known({8: (1000, 990)}).null_share("b", 8.0, 0.5) == 0.9
    tolerated, plain = (known({8: (1000, 60)}).null_share("b", 8.0, tolerance) for tolerance in (0.2, 0.0))
    assert tolerated is not None and plain is not None and tolerated == pytest.approx(1.2 * plain)


def test_a_quarter_beyond_the_highest_load_is_judged_and_no_more() -> None:
    baseline = known({8: (1000, 60)}, highest_load=8.0)
    assert baseline.load_limit == pytest.approx(10.0) and baseline.count == 1000
    assert baseline.null_share("b", 10.0, 0.0) is not None and baseline.null_share("b", 10.01, 0.0) is None


def test_the_margin_is_of_the_span_whenever_it_was() -> None:
    for first_s in (0.0, 1.7e9):
        baseline = build_each(Stack.of(windows(12, first_s=first_s), "ttft"), [0.95], 200).get(0.95)
        assert baseline is not None
        assert baseline.buckets["<=512"].edge - axis_position(baseline.quantile_s) == 18


def test_the_span_is_to_the_last_window_whatever_lies_between() -> None:
    baseline = build(windows(11) + windows(1, first_s=7195.0))
    assert baseline is not None
    assert baseline.buckets["<=512"].edge - axis_position(baseline.quantile_s) == margin_buckets(7200.0) == 3


def test_at_an_edge_of_gross_growth_a_request_is_slow_at_twice_the_quantile() -> None:
    found = build_each(Stack.of(windows(120), "ttft"), [0.5], 200, gross=[0.5])[0.5]
    assert threshold_s(found.buckets["<=512"]) / found.quantile_s == pytest.approx(2.0, rel=0.05)


def test_a_load_that_expects_ten_exceedances_speaks_for_itself_and_one_with_fewer_is_helped() -> None:
    alone, helped = (known({8: (count, 12), 16: (3000, 300)}).null_share("b", 8.0, 0.0) for count in (201, 199))
    assert alone == pytest.approx(upper(12, 201, 0.95), abs=2e-5)
    assert helped == pytest.approx(upper(312, 3199, 0.99), abs=2e-5)


def test_noise_is_measured_by_the_binomial_scatter_of_the_exceedances() -> None:
    """At the median, where half of the requests lie above: their variance is half of their expected number."""
    noisy = [window for window in windows(480, noise=0.3) if window.tails]
    found = build_each(Stack.of(noisy, "ttft"), [0.5], 200)[0.5]
    bucket = found.buckets["<=512"]
    counts = np.array([window.tails["ttft"]["<=512"].count for window in noisy], float)
    above = np.array([window.tails["ttft"]["<=512"].above(bucket.edge) for window in noisy], float)
    share = above.sum() / counts.sum()
    assert share > 0.4 and len(bucket.cells) == 1
    wanted = dispersion_of(above - counts * share, counts * share * (1.0 - share), 1)
    assert found.phi["<=512"] == pytest.approx(wanted) and wanted > 3.0


def test_a_short_history_is_taken_for_noisier_than_it_looks() -> None:
    def least(minutes: int) -> float:
        found = [
            build_each(Stack.of(windows(12 * minutes, seed=seed), "ttft"), [0.95], 200).get(0.95) for seed in range(12)
        ]
        return min(one.phi[FLEET] for one in found if one is not None)

    assert least(1) == pytest.approx(1.875), "a part of two: seven of eight blocks of a minute are missing"
    assert least(8) < 1.2


def test_it_says_when_its_windows_were_and_reaches_for_load_as_their_span_allows() -> None:
    told = build(windows(20, first_s=1000.0))
    assert told is not None
    assert (told.start_s, told.end_s) == (1000.0, 1095.0)
    assert told.load_limit == pytest.approx(10.0 * load_reach(100.0)) and load_reach(100.0) > 1.5


def test_the_edge_is_moved_by_the_whole_time_from_the_first_window_to_the_last() -> None:
    """Where five seconds less would move it by one more."""
    turns = [count for count in range(121, 200) if margin_buckets(5.0 * count) != margin_buckets(5.0 * (count - 1))]
    assert len(turns) > 3
    for count in turns[:4]:
        told = build(windows(count))
        assert told is not None
        assert told.buckets["<=512"].edge - axis_position(told.quantile_s) == margin_buckets(5.0 * count)


def test_a_prompt_bucket_of_a_few_requests_is_judged_with_all_alone() -> None:
    made = windows(20)
    for few, known in ((29, False), (30, True)):
        counts = np.bincount([axis_position(0.4)] * few, minlength=AXIS_LENGTH)
        made[3].tails["ttft"]["<=2k"] = Tail.of(Sketch(counts=counts))
        told = build(made)
        assert told is not None and ("<=2k" in told.buckets) == known


def test_a_load_that_one_request_was_seen_at_has_the_share_of_that_one() -> None:
    """One of one was slow there: no more than its own load allows, so that it scatters about nothing."""
    made = windows(40)
    lone = np.bincount([axis_position(9.0)], minlength=AXIS_LENGTH)
    usual = build(made)
    made.append(Window(200.0, 1.0, {"ttft": {"<=512": Tail.of(Sketch(counts=lone))}}))
    told = build(made)
    assert usual is not None and told is not None
    assert told.buckets["<=512"].cells[load_bin(1.0)] == Cell(1, 1)
    assert told.phi["<=512"] == pytest.approx(usual.phi["<=512"], rel=0.1)
