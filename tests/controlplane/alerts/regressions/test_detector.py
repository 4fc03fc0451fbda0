"""The detector in simulated time: no alarm hides another, and what was accepted is no regression."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.alerts.regressions.detector import Detector, Key
from controlplane.alerts.regressions.learner import MIDDLE
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.load import LoadMeter
from controlplane.alerts.windows.material import Tail
from controlplane.alerts.windows.pool_record import NOTHING_KNOWN, Move, PoolRecord
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MAX, AXIS_MIN, BASE, SCALE, axis_position
from controlplane.evidence.sketch import Sketch
from tests.controlplane.alerts.regressions.served_by_nodes import METRIC, ServedByNodes
from tests.soak import soak

pytestmark = pytest.mark.slow

START_S = 1_000_000.0
GAPS = 12
"""Gaps between tokens that a request has."""


def tail(values: Any) -> Tail:
    places = np.clip(np.ceil(np.log2(values) * 2**SCALE).astype(np.int64) - 1, AXIS_MIN, AXIS_MAX) - AXIS_MIN
    return Tail.of(Sketch(counts=np.bincount(places, minlength=AXIS_LENGTH)))


@dataclass
class Pool:
    """Windows of a pool of `nodes`; each metric has its own random numbers, so that one never changes another."""

    nodes: int = 2
    seed: int = 1
    sigma: float = 0.5
    windows: list[Window] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = {name: np.random.default_rng([self.seed, place]) for place, name in enumerate(("ttft", "itl"))}
        self.meter = LoadMeter()

    @property
    def now_s(self) -> float:
        return START_S + 5.0 * len(self.windows)

    def serve(self, requests: int, ttft: float = 1.0, itl: float = 1.0, buckets: Sequence[str] = ("<=512",)) -> Window:
        """One window of so many requests a node; the factors multiply latencies."""
        n = requests * self.nodes
        load = self.meter.push(self.now_s, {f"n{node}": requests for node in range(self.nodes)}, {})
        tails: dict[str, dict[str, Tail]] = {"ttft": {}, "itl": {}}
        for bucket in buckets:
            tails["ttft"][bucket] = tail(0.15 * ttft * self.random["ttft"].lognormal(0.0, self.sigma, n))
            tails["itl"][bucket] = tail(0.01 * itl * self.random["itl"].lognormal(0.0, self.sigma, n * GAPS))
        self.windows.append(Window(self.now_s, load, tails))
        return self.windows[-1]


def seconds_to_alarm(detector: Detector, pool: Pool, metric: str, limit_s: float, **how: Any) -> float:
    """Serve until a metric is in alarm; how long its first window lay back when it was, infinite when it never was."""
    begun_s = pool.now_s
    while pool.now_s < begun_s + limit_s:
        detector.advance(pool.serve(**how), pool.windows)
        if detector.alarmed(metric):
            return pool.now_s - begun_s
    return math.inf


def run(detector: Detector, pool: Pool, seconds: float, record: PoolRecord = NOTHING_KNOWN, **how: Any) -> None:
    for _ in range(round(seconds / 5)):
        detector.advance(pool.serve(**how), pool.windows, record)


class TestNoAlarmHidesAnother:
    condition = RegressionCondition(metrics=["ttft", "itl"])

    @pytest.mark.parametrize("seed", range(10))
    def test_two_nodes_gaps_first_then_first_tokens(self, seed: int) -> None:
        detector, pool = Detector(self.condition), Pool(seed=seed)
        run(detector, pool, 40, requests=8)
        run(detector, pool, 60, requests=8, itl=3.0)
        assert detector.alarmed("itl") and not detector.alarmed("ttft")
        assert seconds_to_alarm(detector, pool, "ttft", 90, requests=8, itl=3.0, ttft=10.0) <= 90

    @pytest.mark.parametrize("seed", range(10))
    @pytest.mark.parametrize("quiet_s", [80, 100, 120, 150])
    def test_too_few_first_tokens_for_a_baseline_when_the_gaps_alarm(self, seed: int, quiet_s: int) -> None:
        """At 1.6 requests a second a first baseline of 200 wants 125 s, and 40 s of distance."""
        detector, pool = Detector(self.condition), Pool(nodes=2, seed=seed)
        run(detector, pool, 60, requests=4)
        run(detector, pool, quiet_s - 60, requests=4, itl=2.5)
        assert detector.alarmed("itl") and not detector.learners["ttft", "*"].baselines
        waited = seconds_to_alarm(detector, pool, "ttft", 90, requests=4, itl=2.5, ttft=12.0)
        assert waited <= 90
        # What came before the growth teaches it, not the growth itself.
        known = detector.baseline(detector.alarmed("ttft")[0])
        assert known is not None and known.end_s < START_S + quiet_s

    @settings(max_examples=25, deadline=None)
    @given(
        seed=st.integers(0, 1000),
        begun=st.integers(2, 50),
        factor=st.floats(1.0, 8.0),
        grown=st.sampled_from([1.0, 1.3, 2.0, 6.0]),
    )
    def test_what_one_metric_does_never_changes_what_another_says(
        self, seed: int, begun: int, factor: float, grown: float
    ) -> None:
        """The same first tokens beside calm gaps and beside slow ones: the same evidence, window by window."""
        said = []
        for slow in (1.0, factor):
            detector, pool = Detector(self.condition), Pool(seed=seed)
            for place in range(60):
                how = {"itl": slow if place >= begun else 1.0, "ttft": grown if place >= 40 else 1.0}
                detector.advance(pool.serve(6, **how), pool.windows)
                said.append([detector.learners["ttft", name].dump() for name in ("*", "<=512")])
        assert said[:60] == said[60:]

    @settings(max_examples=15, deadline=None)
    @given(seed=st.integers(0, 1000), begun=st.integers(2, 40), factor=st.floats(1.0, 8.0))
    def test_what_one_bucket_does_never_changes_what_another_says(self, seed: int, begun: int, factor: float) -> None:
        said = []
        for slow in (1.0, factor):
            detector = Detector(RegressionCondition(metrics=["ttft"]))
            long, short = Pool(seed=seed), Pool(seed=seed + 1)
            windows: list[Window] = []
            for place in range(60):
                one = long.serve(6, ttft=slow if place >= begun else 1.0, buckets=("<=2k",))
                other = short.serve(6, ttft=2.0 if place >= 45 else 1.0)
                windows.append(Window(one.start_s, one.load, {"ttft": {**one.tails["ttft"], **other.tails["ttft"]}}))
                detector.advance(windows[-1], windows)
                said.append(detector.learners["ttft", "<=512"].dump())
        assert said[:60] == said[60:]

    def test_a_prompt_bucket_that_comes_while_the_fleet_is_in_alarm_is_learned_and_judged(self) -> None:
        detector, windows = Detector(RegressionCondition(metrics=["ttft"])), []
        short, long = Pool(seed=3), Pool(seed=4)
        for place in range(80):
            one = short.serve(8, ttft=4.0 if place >= 30 else 1.0)
            tails = dict(one.tails["ttft"])
            other = long.serve(4, ttft=10.0 if place >= 60 else 1.0, buckets=("<=2k",))
            if place >= 36:
                tails |= other.tails["ttft"]
            windows.append(Window(one.start_s, one.load, {"ttft": tails}))
            detector.advance(windows[-1], windows)
            if place == 59:
                assert {key.bucket for key in detector.alarmed("ttft")} >= {"*", "<=512"}
                assert "<=2k" not in {key.bucket for key in detector.alarmed("ttft")}
        assert "<=2k" in {key.bucket for key in detector.alarmed("ttft")}

    def test_a_crowd_does_not_hide_growth_of_many_times(self) -> None:
        """Of a load that nobody has seen some slowness is expected; ten times as slow is told all the same."""
        detector, pool = Detector(RegressionCondition(metrics=["ttft"])), Pool(seed=2)
        run(detector, pool, 300, requests=8)
        run(detector, pool, 60, requests=40, ttft=1.5)
        assert not detector.alarmed("ttft")
        assert seconds_to_alarm(detector, pool, "ttft", 90, requests=40, ttft=10.0) <= 30
        assert seconds_to_recovery(detector, pool, requests=40) <= 60

    def test_restored_it_goes_on_as_if_it_had_never_stopped(self) -> None:
        detector, pool = Detector(self.condition), Pool(seed=6)
        run(detector, pool, 200, requests=8)
        run(detector, pool, 40, requests=8, itl=2.0)
        again = Detector(self.condition)
        again.restore(json.loads(json.dumps(detector.state())))
        assert again.state() == detector.state()
        run(detector, pool, 5, requests=8, ttft=8.0)
        again.advance(pool.windows[-1], pool.windows)
        assert [str(key) for key in again.alarmed("itl")] == [str(key) for key in detector.alarmed("itl")]

    def test_state_from_before_streams_learned_by_themselves_is_taken_over(self) -> None:
        detector, pool = Detector(self.condition), Pool(seed=6)
        run(detector, pool, 200, requests=8)
        run(detector, pool, 40, requests=8, itl=3.0)
        key = Key("itl", 0.99, "*")
        old = {"streams": {str(key): detector.stream(key).dump()}, "surge_since_s": 0.0, "last_start_s": pool.now_s}
        again = Detector(self.condition)
        again.restore(json.loads(json.dumps(old)))
        assert again.alarmed("itl") == [key]
        again = Detector(self.condition)
        again.restore({"form": 99, "streams": old["streams"]})
        assert not again.alarmed("itl")


def seconds_to_recovery(detector: Detector, pool: Pool, **how: Any) -> float:
    begun_s = pool.now_s
    while detector.alarmed("ttft") and pool.now_s < begun_s + 600:
        detector.advance(pool.serve(**how), pool.windows)
    return pool.now_s - begun_s


def shifts(factor: float) -> Mapping[float, int]:
    return dict.fromkeys((0.5, 0.95, 0.99), round(math.log(factor, BASE)))


def accepted(at_s: float, number: int = 1, ttft: float | None = 1.3, itl: float | None = 0.8) -> dict[str, list[Move]]:
    factors = {"ttft": ttft, "itl": itl}
    return {
        metric: [Move(number, at_s, None if factor is None else shifts(factor))] for metric, factor in factors.items()
    }


class TestAcceptedChanges:
    condition = RegressionCondition(metrics=["ttft", "itl"], baseline_s=1800)

    @pytest.mark.soak
    def test_promotions_that_trade_first_tokens_for_gaps_never_page(self) -> None:
        alarms = 0
        for seed in range(soak(12, 50)):
            detector, pool = Detector(self.condition), Pool(nodes=4, seed=seed)
            for _ in range(180):  # A quarter of an hour lies there when the rule begins.
                pool.serve(8)
            run(detector, pool, 30, requests=8)
            # The verdict measured the trade, but for the noise of its own sample.
            off = np.random.default_rng([9, seed]).normal(1.0, 0.05)
            record = PoolRecord(moves=accepted(pool.now_s, ttft=1.3 * off, itl=0.8 / off))
            run(detector, pool, 300, record, requests=8, ttft=1.3, itl=0.8)
            alarms += bool(detector.alarmed("ttft") or detector.alarmed("itl"))
        assert alarms == 0

    @pytest.mark.soak
    @pytest.mark.parametrize("seed", range(soak(6, 20)))
    def test_a_fault_right_after_is_caught(self, seed: int) -> None:
        detector, pool = Detector(self.condition), Pool(nodes=4, seed=seed)
        for _ in range(180):
            pool.serve(8)
        run(detector, pool, 30, requests=8)
        record, begun_s = PoolRecord(moves=accepted(pool.now_s)), pool.now_s
        while not detector.alarmed("ttft") and pool.now_s < begun_s + 90:
            detector.advance(pool.serve(8, ttft=1.3 * 3.0, itl=0.8), pool.windows, record)
        assert detector.alarmed("ttft")

    def test_without_the_record_the_trade_would_page(self) -> None:
        """So that the tests above show what they say."""
        detector, pool = Detector(self.condition), Pool(nodes=4)
        for _ in range(180):
            pool.serve(8)
        run(detector, pool, 330, requests=8, ttft=1.6)
        assert detector.alarmed("ttft")

    def test_gaps_that_got_faster_are_judged_by_what_they_are_now(self) -> None:
        """Half as long since the promotion: twice as long again is a regression, although it was normal before."""
        detector, pool = Detector(self.condition), Pool(nodes=4)
        for _ in range(180):
            pool.serve(8)
        run(detector, pool, 30, requests=8)
        record = PoolRecord(moves=accepted(pool.now_s, itl=0.5))
        run(detector, pool, 120, record, requests=8, ttft=1.3, itl=0.5)
        assert not detector.alarmed("itl")
        run(detector, pool, 60, record, requests=8, ttft=1.3, itl=1.1)
        assert detector.alarmed("itl")

    def test_what_nobody_measured_begins_anew(self) -> None:
        detector, pool = Detector(self.condition), Pool(nodes=4)
        for _ in range(180):
            pool.serve(8)
        run(detector, pool, 30, requests=8)
        changed_s = pool.now_s
        record = PoolRecord(moves=accepted(changed_s, ttft=None))
        run(detector, pool, 30, record, requests=8, ttft=1.5, itl=0.8)
        assert not detector.learners["ttft", "*"].baselines
        run(detector, pool, 120, record, requests=8, ttft=1.5, itl=0.8)
        known = detector.learners["ttft", "*"].baselines[0.95]
        assert known.start_s >= changed_s and not detector.alarmed("ttft")
        run(detector, pool, 60, record, requests=8, ttft=4.5, itl=0.8)
        assert detector.alarmed("ttft")

    def test_an_alarm_about_what_was_accepted_ends_and_says_so(self) -> None:
        detector, pool = Detector(self.condition), Pool(nodes=4)
        for _ in range(180):
            pool.serve(8)
        run(detector, pool, 30, requests=8)
        run(detector, pool, 60, requests=8, ttft=2.0)
        assert detector.alarmed("ttft")
        record = PoolRecord(moves=accepted(pool.now_s, number=7, ttft=2.0))
        run(detector, pool, 5, record, requests=8, ttft=2.0)
        assert not detector.alarmed("ttft") and detector.accepted == {"ttft": 7}
        run(detector, pool, 300, record, requests=8, ttft=2.0)
        assert not detector.alarmed("ttft") and detector.accepted == {}

    def test_windows_of_what_was_taken_back_teach_nothing(self) -> None:
        detector, pool = Detector(RegressionCondition(metrics=["ttft"], baseline_s=1800)), Pool(nodes=4)
        for place in range(240):
            pool.serve(8, ttft=1.4 if 120 <= place < 180 else 1.0)
        record = PoolRecord(taken_back=((START_S + 600, START_S + 900),))
        detector.advance(pool.serve(8), pool.windows, record)
        alone = Detector(RegressionCondition(metrics=["ttft"], baseline_s=1800))
        alone.advance(pool.windows[-1], pool.windows)
        with_it, without = (one.learners["ttft", "*"].baselines[0.95] for one in (alone, detector))
        assert without.count == pytest.approx(0.7 * with_it.count, rel=0.05)
        assert without.quantile_s < 0.95 * with_it.quantile_s


def test_a_young_baseline_of_very_different_requests_tells_a_slowdown_of_all_by_its_middle() -> None:
    """They differ by more than they got slower: at the edge of the slowest twentieth there is little to be seen."""
    condition = RegressionCondition(metrics=["ttft"])
    for seed in range(5):
        detector, pool = Detector(condition), Pool(sigma=1.2, seed=seed)
        run(detector, pool, 120, requests=18)
        assert not detector.alarmed("ttft")
        assert seconds_to_alarm(detector, pool, "ttft", 60.0, requests=18, ttft=2.7) <= 60.0
        assert detector.alarmed("ttft")[0].q == MIDDLE


@pytest.mark.parametrize("some", [1, 0])
def test_a_metric_that_is_mostly_nothing_is_judged_and_stops_no_other(some: int) -> None:
    """What is not accounted for is 0 in most requests of a good engine: the middle of such a metric is no latency."""
    detector, pool = Detector(RegressionCondition(metrics=["unaccounted", "ttft"])), Pool()
    counts = np.zeros(AXIS_LENGTH, dtype=np.int64)
    counts[200] = some
    mostly_nothing = {"<=512": Tail.of(Sketch(counts=counts, zero_count=15))}

    def serve(seconds: float, ttft: float = 1.0) -> None:
        for _ in range(round(seconds / 5)):
            window = pool.serve(8, ttft=ttft)
            pool.windows[-1] = replace(window, tails={**window.tails, "unaccounted": mostly_nothing})
            detector.advance(pool.windows[-1], pool.windows)

    serve(3900)
    assert detector.learners["unaccounted", "*"].baselines
    serve(60, ttft=4.0)
    assert detector.alarmed("ttft") and not detector.alarmed("unaccounted")


def test_the_promised_rate_of_false_alarms_sets_the_threshold_of_each_stream() -> None:
    """One in `false_alarm_every_s` over all: half of it is the fleet's to spend, two fifths the prompt buckets'.

    A young baseline is judged at the median, besides the rule's own quantiles.
    """
    condition = RegressionCondition(metrics=["ttft", "itl"], q=[0.9, 0.95, 0.99], false_alarm_every_s=3600.0)
    detector, pool = Detector(condition, pools=4), Pool()
    key = Key("ttft", 0.95, "*")
    assert detector.stream_count(key) == 4 * 2 * (3 + 1)
    assert detector.log_threshold(key) == pytest.approx(math.log(720 * 32 + 1))
    run(detector, pool, 600, requests=40, buckets=("<=512", "<=4096"))
    judged = len(detector.baseline(key).phi)  # type: ignore[union-attr]
    assert judged == 3, "all requests, and each bucket"
    assert detector.stream_count(key) == 4 * 2 * (3 + 1) * judged
    assert detector.log_threshold(key) == pytest.approx(math.log(720 * 32 * 2 + 1))
    bucket = detector.log_threshold(Key("ttft", 0.95, "<=512"))
    assert bucket == pytest.approx(math.log(720 * 32 * 5 + 1))
    promised = 1 / (720 * 32)
    assert math.exp(-detector.log_threshold(key)) + 2 * math.exp(-bucket) == pytest.approx(0.9 * promised, rel=1e-3)


class TestWhatItKeepsAndTells:
    condition = RegressionCondition(metrics=["ttft", "itl"])

    def test_a_key_is_read_as_it_was_written(self) -> None:
        for key in (Key("ttft", 0.95, "*"), Key("itl", 0.5, "<=512"), Key("itl", 0.5, "a|b")):
            assert Key.of(str(key)) == key
        assert str(Key("ttft", 0.95, "*")) == "ttft|0.95|*"

    def test_a_fresh_one_is_restored_as_it_was(self) -> None:
        fresh, other = Detector(self.condition), Detector(self.condition)
        other.restore(json.loads(json.dumps(fresh.state())))
        assert other == fresh and other.last_start_s == -math.inf

    def test_a_newer_state_is_not_taken_and_an_older_one_gives_its_evidence(self) -> None:
        detector = Detector(self.condition)
        detector.restore({**detector.state(), "form": 3, "last_start_s": 5.0})
        assert detector.last_start_s == -math.inf
        detector.restore({"streams": {"ttft|0.95|*": {"alarmed": True, "slow_above": 3}}, "last_start_s": 5.0})
        assert detector.alarmed("ttft") == [Key("ttft", 0.95, "*")] and detector.last_start_s == 5.0

    def test_where_nobody_says_it_is_one_pool(self) -> None:
        key = Key("ttft", self.condition.q[0], "*")
        assert Detector(self.condition).stream_count(key) == Detector(self.condition, pools=1).stream_count(key)
        assert Detector(self.condition, pools=3).stream_count(key) == 3 * Detector(self.condition).stream_count(key)

    def test_alarms_are_told_by_how_many_requests_were_slow(self) -> None:
        detector = Detector(self.condition)
        detector.restore(
            {
                "streams": {
                    f"ttft|0.95|{b}": {"alarmed": True, "slow_above": n} for b, n in (("a", 3), ("b", 9), ("c", 3))
                }
            }
        )
        assert [key.bucket for key in detector.alarmed("ttft")] == ["b", "a", "c"]
        assert detector.alarmed("itl") == []

    @pytest.mark.parametrize(("ago_s", "margin"), [(None, 5), (400.0, 18), (2400.0, 7)])
    def test_what_was_moved_lately_is_judged_as_a_baseline_that_is_as_young(
        self, ago_s: float | None, margin: int
    ) -> None:
        """Of an hour of windows. That a change moved them by what was measured, nobody has seen for long."""
        pool = Pool(nodes=4)
        for _ in range(720):
            pool.serve(8)
        moves = {} if ago_s is None else {"ttft": (Move(7, pool.now_s - ago_s, {0.95: 0}),)}
        detector = Detector(RegressionCondition(metrics=["ttft"], q=[0.95]))
        detector.advance(pool.serve(8), pool.windows, PoolRecord(moves=moves))
        baseline = detector.baseline(Key("ttft", 0.95, "*"))
        assert baseline is not None
        assert baseline.buckets["<=512"].edge - axis_position(baseline.quantile_s) == margin

    def test_a_move_is_news_once_and_not_when_it_is_old(self) -> None:
        detector, pool = Detector(self.condition), Pool(nodes=4)
        for _ in range(180):
            pool.serve(8)
        run(detector, pool, 30, requests=8)
        record = PoolRecord(moves=accepted(pool.now_s, number=7, ttft=1.5))
        run(detector, pool, 60, record, requests=8, ttft=1.5)
        assert [(metric, move.rollout_id) for metric, move in detector.moved if metric == "ttft"] == [("ttft", 7)]
        late = Detector(self.condition)
        late.advance(
            pool.serve(8, ttft=1.5), pool.windows, PoolRecord(moves=accepted(pool.now_s - 700, number=7, ttft=1.5))
        )
        assert late.moved == []


class TestNodes:
    """A node that got slower by itself (see `node_watch`)."""

    condition = RegressionCondition(metrics=["ttft", METRIC])

    def told(self) -> tuple[Detector, ServedByNodes]:
        """A pool whose node b has just got slower."""
        pool = ServedByNodes({"a": 1.0, "b": 1.0, "c": 1.3, "d": 0.8})
        pool.serve(4800.0)
        detector = Detector(self.condition)
        detector.advance(pool.windows[-1], pool.windows)
        assert detector.apart(METRIC) == []
        for window in pool.serve(60.0, {"b": 1.5}):
            detector.advance(window, pool.windows)
        return detector, pool

    def test_it_is_named_also_after_a_restart_and_forgotten_with_the_traffic(self) -> None:
        detector, pool = self.told()
        assert detector.apart(METRIC) == ["b"]
        assert detector.apart("ttft") == [], "that is not compared by node"
        restored = Detector(self.condition)
        restored.restore(json.loads(json.dumps(detector.state())))
        assert restored.apart(METRIC) == ["b"] and restored.state() == detector.state()
        (later,) = pool.serve(5.0)
        detector.advance(replace(later, start_s=later.start_s + 600.0), pool.windows)
        assert detector.apart(METRIC) == []


def wandering(seed: int, ticks: int, sd: float, tau_s: float) -> Any:
    """Factors on latency: the exponential of an Ornstein-Uhlenbeck process."""
    random, keep = np.random.default_rng([7, seed]), math.exp(-5.0 / tau_s)
    at, found = sd * random.normal(), np.empty(ticks)
    for place in range(ticks):
        at = keep * at + sd * math.sqrt(1.0 - keep**2) * random.normal()
        found[place] = at
    return np.exp(found)


class TestMatureBaselines:
    """From an hour on the usual wandering is known, and judged by (see `course`)."""

    condition = RegressionCondition(metrics=["ttft"])
    HOURS, TICKS = 3, 3 * 720

    def grown(self, seed: int, factors: Any, judged: int, requests: int = 8) -> tuple[Detector, Pool]:
        """A pool of so many factors, of which the detector has judged the last."""
        detector, pool = Detector(self.condition), Pool(seed=seed, nodes=4)
        for place, factor in enumerate(factors):
            window = pool.serve(requests, ttft=factor)
            if place >= len(factors) - judged:
                detector.advance(window, pool.windows)
        return detector, pool

    @pytest.mark.parametrize("seed", range(3))
    def test_machines_that_drift_are_no_regression(self, seed: int) -> None:
        factors = wandering(seed, 2 * self.TICKS, 0.05, 60.0) * wandering(50 + seed, 2 * self.TICKS, 0.04, 3600.0)
        detector, pool = Detector(self.condition), Pool(seed=seed, nodes=4)
        alarms = 0
        for place, factor in enumerate(factors):
            window = pool.serve(8, ttft=factor)
            if place >= self.TICKS:
                detector.advance(window, pool.windows)
                alarms += bool(detector.alarmed("ttft"))
        assert detector.learners["ttft", "*"].course is not None and alarms == 0

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize(("requests", "factor"), [(8, 1.5), (40, 4.0)])
    def test_growth_is_told_soon_dated_and_ends(self, seed: int, requests: int, factor: float) -> None:
        usual = wandering(seed, self.TICKS, 0.05, 60.0)
        detector, pool = self.grown(seed, usual, 60, requests)
        begun_s = pool.now_s
        assert not detector.alarmed("ttft")
        assert seconds_to_alarm(detector, pool, "ttft", 120, requests=requests, ttft=factor) <= 90
        keys = detector.alarmed("ttft")
        first = min(detector.stream(key).onset_s or math.inf for key in keys)
        assert first == pytest.approx(begun_s, abs=60)
        for _ in range(30):
            run(detector, pool, 10, requests=requests, ttft=factor)
            assert detector.alarmed("ttft"), "it lasts as long as what it tells of"
        course = detector.learners["ttft", "*"].course
        effect = course.effect("place", begun_s) if course else None
        assert effect is not None and effect.low <= factor <= effect.high
        assert seconds_to_recovery(detector, pool, requests=requests) <= 180
        run(detector, pool, 1200, requests=requests)
        assert not detector.alarmed("ttft"), "and is not told again of what is over"

    @pytest.mark.parametrize("sigma", [0.0, 0.005])
    def test_requests_that_hardly_differ(self, sigma: float) -> None:
        """Gaps on a steady GPU fill one bucket of the axis or two: what moves them by one is no regression."""
        detector, pool = Detector(self.condition), Pool(seed=1, nodes=4, sigma=sigma)
        for place in range(self.TICKS):
            window = pool.serve(8)
            if place >= self.TICKS - 12:
                detector.advance(window, pool.windows)
        run(detector, pool, 900, requests=8, ttft=1.03)
        assert not detector.alarmed("ttft")
        assert seconds_to_alarm(detector, pool, "ttft", 120, requests=8, ttft=1.25) <= 60

    def test_a_baseline_that_matures_goes_on_judging(self) -> None:
        detector, pool = self.grown(1, np.ones(700), 700)
        assert detector.learners["ttft", "*"].course is None
        run(detector, pool, 900, requests=8)
        assert detector.learners["ttft", "*"].course is not None and not detector.alarmed("ttft")
        assert seconds_to_alarm(detector, pool, "ttft", 120, requests=8, ttft=1.5) <= 90

    def test_restored_it_says_the_same(self) -> None:
        detector, pool = self.grown(2, np.ones(self.TICKS), 60)
        run(detector, pool, 120, requests=8, ttft=1.6)
        again = Detector(self.condition)
        again.restore(json.loads(json.dumps(detector.state())))
        assert again.state() == detector.state()
        run(detector, pool, 5, requests=8, ttft=1.6)
        again.advance(pool.windows[-1], pool.windows)
        assert again.alarmed("ttft") == detector.alarmed("ttft") != []
        for one in (again, detector):
            key = one.alarmed("ttft")[0]
            assert one.stream(key).onset_s == detector.stream(key).onset_s
        assert seconds_to_recovery(again, pool, requests=8) <= 180

    def test_nothing_is_dated_before_the_rule_began(self) -> None:
        factors = np.where(np.arange(self.TICKS) < self.TICKS - 120, 1.0, 1.5)
        detector, pool = self.grown(3, factors, 1)
        begun_s = pool.now_s - 5.0
        assert seconds_to_alarm(detector, pool, "ttft", 300, requests=8, ttft=2.4) <= 120
        assert all((detector.stream(key).onset_s or 0.0) >= begun_s for key in detector.alarmed("ttft"))

    @pytest.mark.parametrize("seed", range(10))
    def test_accepted_trades_do_not_page_and_a_fault_right_after_does(self, seed: int) -> None:
        detector, pool = self.grown(seed, wandering(seed, self.TICKS, 0.03, 60.0), 12)
        off = np.random.default_rng([9, seed]).normal(1.0, 0.03)
        record = PoolRecord(moves=accepted(pool.now_s, ttft=1.3 * off, itl=1.0))
        run(detector, pool, 600, record, requests=8, ttft=1.3)
        assert not detector.alarmed("ttft")
        assert detector.learners["ttft", "*"].course is not None
        run(detector, pool, 90, record, requests=8, ttft=1.3 * 1.6)
        assert detector.alarmed("ttft")

    def test_a_crowd_is_no_regression_and_growth_of_many_times_in_it_is(self) -> None:
        detector, pool = self.grown(4, np.ones(self.TICKS), 12)
        run(detector, pool, 120, requests=40, ttft=1.5)
        assert not detector.alarmed("ttft")
        assert seconds_to_alarm(detector, pool, "ttft", 90, requests=40, ttft=10.0) <= 30

    @pytest.mark.parametrize("seed", range(2))
    def test_a_load_that_is_new_and_stays_is_no_regression_and_one_in_it_is_told(self, seed: int) -> None:
        detector, pool = self.grown(seed, wandering(seed, self.TICKS, 0.03, 60.0), 12)
        for _ in range(16):
            run(detector, pool, 600, requests=24, ttft=1.4)
            assert not detector.alarmed("ttft")
        assert detector.learners["ttft", "*"].course is not None, "it is judged by a course again"
        assert seconds_to_alarm(detector, pool, "ttft", 300, requests=24, ttft=1.4 * 2.0) <= 120

    def test_nothing_for_ten_minutes_and_evidence_begins_anew(self) -> None:
        detector, pool = self.grown(5, np.ones(self.TICKS), 12)
        for _ in range(150):
            pool.windows.append(Window(pool.now_s, 0.0, {}))
        silent = [one for one in pool.windows if one.tails]
        detector.advance(pool.serve(8), silent)
        assert detector.learners["ttft", "*"].counts_since_s == pool.now_s - 5.0

    def test_what_only_one_bucket_does_is_that_buckets(self) -> None:
        detector, short, long = Detector(self.condition), Pool(seed=6, nodes=4), Pool(seed=7, nodes=4)
        windows: list[Window] = []
        for place in range(self.TICKS + 24):
            one = short.serve(8)
            other = long.serve(4, ttft=1.5 if place >= self.TICKS else 1.0, buckets=("<=2k",))
            windows.append(Window(one.start_s, one.load, {"ttft": {**one.tails["ttft"], **other.tails["ttft"]}}))
            if place >= self.TICKS - 12:
                detector.advance(windows[-1], windows)
        buckets = {key.bucket for key in detector.alarmed("ttft")}
        assert "<=2k" in buckets and "<=512" not in buckets

    def test_how_latency_wandered_longer_ago_is_kept_until_another_engine_version_serves(self) -> None:
        self.condition = RegressionCondition(metrics=["ttft"], baseline_s=5400)
        detector, pool = self.grown(1, wandering(1, 4 * 720, 0.05, 60.0), 4 * 720 - 1160)
        held = detector.learners["ttft", "*"].noise
        assert set(held.by_line) == {"place", "tail"}
        ticks = {one.scale: one.pairs for one in held.by_line["place"]}
        assert ticks[1] > 1.5 * 540, "more than one baseline's worth of neighbours"
        restored = Detector(self.condition)
        restored.restore(json.loads(json.dumps(detector.state())))
        assert restored.learners["ttft", "*"].noise.dump() == held.dump()
        younger = {"ttft": [Move(-1, pool.now_s, None, "0.33")]}
        run(restored, pool, 3000, PoolRecord(moves=younger), requests=8)
        assert restored.learners["ttft", "*"].baselines, "what is normal is known again"
        assert not restored.learners["ttft", "*"].noise.by_line
