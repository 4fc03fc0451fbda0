"""A stationary model of a pool, and how the product's detector and its ablations do on it.

Requests arrive as a Poisson process whose rate follows a curve of two hours, +-50 %. Latency is lognormal (sigma 0.6)
around 0.2 s; its logarithm moves with the load (0.3 per factor e) and with AR(1) noise (sd 0.05, time constant 60 s).
Null hours have no shift; each shift multiplies every latency from one moment on. One metric, p95 and p99, one prompt
bucket; the baseline is two hours long. The threshold is the product's default: one false alarm in 28 days.

Rivals see the same windows. `p99 rule` is `p99[5m] > 1.2 x baseline for 5m`. `exceedances alone` is the detector
without courses, as it judges baselines of less than an hour; its ablations take away the load bins, the tempering, or
both with a baseline that is never renewed. A model is not production: read the figures as its answers.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controlplane.alerts.regressions.baseline import Baseline, BucketBaseline
from controlplane.alerts.regressions.course import Course
from controlplane.alerts.regressions.detector import Detector, Workshop
from controlplane.alerts.regressions.learner import Learner
from controlplane.alerts.windows.history import Tail, Window, merged
from controlplane.alerts.windows.load import LoadMeter, load_bin
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MAX, AXIS_MIN, SCALE, axis_position
from controlplane.contract.metrics import WINDOW_S
from controlplane.evidence.sketch import Sketch

METRIC, BUCKET = "ttft", "<=512"
SIGMA, NOISE_SD, NOISE_TAU_S, LOAD_SLOPE = 0.6, 0.05, 60.0, 0.3
CURVE_S = BASELINE_S = 7200.0
HOUR = round(3600 / WINDOW_S)
WARM = round(BASELINE_S / WINDOW_S)
SETTLE = 24  # Windows a detector judges before a shift begins.
PATIENCE = 1800.0 / WINDOW_S
RATES = (5.0, 20.0, 100.0)
SHIFTS = (1.2, 1.5, 3.0)
RULE_WINDOWS = 60


@dataclass
class Plant:
    """A simulated pool of one node; `windows` continues where it was, so that a shift can be laid over it."""

    rate: float
    random: np.random.Generator
    noise: float = 0.0
    step: int = 0

    def __post_init__(self) -> None:
        self.meter = LoadMeter()

    def windows(self, count: int, shift: float = 1.0) -> list[Window]:
        keep = math.exp(-WINDOW_S / NOISE_TAU_S)
        made = []
        for _ in range(count):
            start_s = self.step * WINDOW_S
            busy = 1.0 + 0.5 * math.sin(2.0 * math.pi * start_s / CURVE_S)
            n = int(self.random.poisson(self.rate * busy * WINDOW_S))
            self.noise = keep * self.noise + NOISE_SD * math.sqrt(1.0 - keep * keep) * self.random.normal()
            center = math.log(0.2 * shift) + LOAD_SLOPE * math.log(busy) + self.noise
            log2 = (center + SIGMA * self.random.normal(size=n)) / math.log(2.0)
            places = np.clip(np.ceil(log2 * 2**SCALE).astype(np.int64) - 1, AXIS_MIN, AXIS_MAX) - AXIS_MIN
            counts = np.bincount(places, minlength=AXIS_LENGTH)
            load = self.meter.push(start_s, {"n": n}, {})
            made.append(Window(start_s, load, {METRIC: {BUCKET: Tail.of(Sketch(counts=counts))}} if n else {}))
            self.step += 1
        return made


class ExceedancesAlone(Detector):
    """The detector without courses; of that, without tempering, load bins, or with the first baseline for ever."""

    tempered = binned = renewed = True

    def workshop(self, history: Sequence[Window]) -> Workshop:
        return AblatedWorkshop(self, history)

    def ablate(self, built: Baseline) -> Baseline:
        if not self.tempered:
            built = replace(built, phi=dict.fromkeys(built.phi, 1.0))
        if not self.binned:
            middle = load_bin(built.highest_load)
            flat = {name: BucketBaseline(b.edge, {middle: b.total}, b.total) for name, b in built.buckets.items()}
            built = replace(built, buckets=flat, highest_load=math.inf)
        return built


class AblatedWorkshop(Workshop):
    def __init__(self, detector: ExceedancesAlone, history: Sequence[Window]) -> None:
        super().__init__(detector.condition, history)
        self._detector = detector

    def survey(self, learner: Learner, end_s: float, at_s: float) -> Course | None:
        return None

    def build(self, learner: Learner, end_s: float, least: int) -> dict[float, Baseline]:
        if learner.baselines and not self._detector.renewed:
            return learner.baselines
        return {q: self._detector.ablate(built) for q, built in super().build(learner, end_s, least).items()}


class Unbinned(ExceedancesAlone):
    binned = False


class Untempered(ExceedancesAlone):
    tempered = False


class StaticUntempered(ExceedancesAlone):
    tempered = binned = renewed = False


def condition() -> RegressionCondition:
    return RegressionCondition(metrics=[METRIC], baseline_s=BASELINE_S)


def alarms_of(kind: type[Detector], windows: Sequence[Window], first: int, *, stop_at_first: bool) -> list[int]:
    """Indices at which a new alarm is raised, judging from `first` on. After an alarm the evidence starts afresh."""
    detector = kind(condition())
    raised = []
    for index in range(first, len(windows)):
        # A view of the recent past only, as the product forgets what no baseline needs.
        past = windows[max(0, index - WARM - HOUR) : index] if is_due(detector, windows[index]) else windows[:1]
        detector.advance(windows[index], past)
        if detector.alarmed(METRIC):
            raised.append(index)
            for learner in detector.learners.values():
                learner.streams.clear()
                learner.crowded.clear()
            if stop_at_first:
                break
    return raised


def is_due(detector: Detector, window: Window) -> bool:
    learners = [learner for learner in detector.learners.values() if learner.metric in detector.condition.metrics]
    return any(not one.baselines or window.start_s - one.built_s >= 300.0 for one in learners)


def alarms_of_rule(windows: Sequence[Window], first: int, *, stop_at_first: bool) -> list[int]:
    """`p99[5m] > 1.2 x p99 of the two hours before the first judged window, for 5m`."""
    normal = merged(windows[max(0, first - WARM) : first], METRIC).quantile(0.99)
    edge = axis_position(1.2 * normal)
    pairs = [_counts(window, edge) for window in windows]
    total = np.cumsum([0, *(count for count, _ in pairs)])
    above = np.cumsum([0, *(slow for _, slow in pairs)])
    raised, lasted = [], 0
    for index in range(max(first, RULE_WINDOWS), len(windows)):
        share = (above[index + 1] - above[index + 1 - RULE_WINDOWS]) / max(
            1, total[index + 1] - total[index + 1 - RULE_WINDOWS]
        )
        lasted = lasted + 1 if share > 0.01 else 0
        if lasted == RULE_WINDOWS:
            raised.append(index)
            if stop_at_first:
                break
    return raised


def _counts(window: Window, edge: int) -> tuple[int, int]:
    tail = window.tails.get(METRIC, {}).get(BUCKET)
    return (0, 0) if tail is None else (tail.count, tail.above(edge))


Method = Callable[[Sequence[Window], int, bool], list[int]]


def _with(kind: type[Detector]) -> Method:
    return lambda windows, first, stop: alarms_of(kind, windows, first, stop_at_first=stop)


METHODS: dict[str, Method] = {
    "tailwright": _with(Detector),
    "exceedances alone": _with(ExceedancesAlone),
    "without load bins": _with(Unbinned),
    "without tempering": _with(Untempered),
    "static, untempered": _with(StaticUntempered),
    "p99 rule": lambda windows, first, stop: alarms_of_rule(windows, first, stop_at_first=stop),
}


def poisson_interval(count: int) -> tuple[float, float]:
    """95 % interval of a Poisson mean (Garwood 1936), found by bisection on the exact tail."""

    def below(mean: float, k: int) -> float:
        return sum(math.exp(-mean + i * math.log(mean) - math.lgamma(i + 1)) for i in range(k + 1))

    def solve(goal: float, k: int) -> float:
        low, high = 1e-9, 10.0 * (k + 10)
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if below(middle, k) > goal else (low, middle)
        return low

    return (0.0 if count == 0 else solve(0.975, count - 1)), solve(0.025, count)


def report(*, hours: float, trials: int, seed: int) -> None:
    names = list(METHODS)
    print(f"\nThe stationary model: {hours:g} null hours and {trials} trials per cell, rates {RATES} requests/s")
    began = time.monotonic()
    false: dict[str, int] = dict.fromkeys(names, 0)
    delays: dict[tuple[str, float, float], list[float]] = {}
    for place, rate in enumerate(RATES):
        plant = Plant(rate, np.random.default_rng([seed, place]))
        windows = plant.windows(WARM + round(hours * HOUR))
        for name in names:
            false[name] += len(METHODS[name](windows, WARM, False))
        for number, shift in enumerate(SHIFTS):
            for trial in range(trials):
                plant = Plant(rate, np.random.default_rng([seed, place, 1 + number, trial]))
                plant.step = round(CURVE_S / WINDOW_S * trial / trials)
                run = plant.windows(WARM + SETTLE) + plant.windows(round(PATIENCE), shift)
                for name in names:
                    raised = [index for index in METHODS[name](run, WARM, True) if index >= WARM + SETTLE]
                    late = math.inf if not raised else (raised[0] - WARM - SETTLE + 1) * WINDOW_S
                    delays.setdefault((name, rate, shift), []).append(late)
    weeks = hours * len(RATES) / 168
    print(f"\n{weeks:.2f} null weeks; false alarms a week with 95 % Poisson interval;")
    print("median delay in seconds, in brackets how many were missed or had alarmed before the slowdown")
    heads = [f"x{shift:g} at {rate:g}/s" for shift in SHIFTS for rate in RATES]
    print("| method | false alarms a week | " + " | ".join(heads) + " |")
    print("|---|---|" + "---|" * len(heads))
    for name in names:
        low, high = (bound / weeks for bound in poisson_interval(false[name]))
        cells = []
        for shift in SHIFTS:
            for rate in RATES:
                found = delays[name, rate, shift]
                missed = sum(1 for delay in found if delay == math.inf)
                median = statistics.median(found)
                cells.append((f"{median:.0f}" if median < math.inf else "> 1800") + (f" ({missed})" if missed else ""))
        print(f"| {name} | {false[name] / weeks:.1f} ({low:.1f} to {high:.1f}) | " + " | ".join(cells) + " |")
    print(f"\n{time.monotonic() - began:.0f} s")
