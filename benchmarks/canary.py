"""The canary judge against two rivals, on simulated traffic: who rolls back what, falsely or late?

    python benchmarks/canary.py [--hours 20] [--rates 3,20,100] [--shares 0.2,0.5] [--seed 1]

Each trial is one rollout: 30 minutes of history in which both arms run the same, then up to 30 minutes of judging.
Latency is lognormal (sigma 0.6) times two AR(1) factors (time constant 60 s): one common to both arms (load moves
everybody, sd 0.05), one of each arm's own (sd 0.02, machines differ). Windows are 5 s wide, arrivals Poisson.
Shifts apply to all requests, or to the slowest twentieth only ("tail").

Rivals see the same values: "Mann-Whitney" is Kayenta's test on per-minute p95 points at 0.01 one-sided, looked at each
minute from the fifth on; "threshold" is Flagger's: p99 of a minute above 1.1 times the control's in 3 checks in a row.

`--hours` is the number of null hours (two rollouts each) per row; shifted rows use a quarter of that, at least 10
rollouts. Delays are medians over the caught, in seconds.
"""

import argparse
import math
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.stats import beta, mannwhitneyu

from controlplane.contract.bodies.rollouts import RolloutCreate, Verdict
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MAX, AXIS_MIN, SCALE
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.judge import Judge
from controlplane.rollouts.judging.judging_plan import plan_of

Floats = NDArray[np.float64]

TICK_S = 5
HISTORY_TICKS = 360
JUDGED_TICKS = 360
TICKS_A_MINUTE = 12
SIGMA = 0.6
TAIL_FROM = 1.645  # Standard deviations above the median: the slowest twentieth.


@dataclass(frozen=True)
class Noise:
    common: float = 0.05
    arm: float = 0.02
    tau_s: float = 60.0


@dataclass(frozen=True)
class Shift:
    name: str
    everything: float = 1.0
    tail: float = 1.0


NULL = Shift("none")
SHIFTS = (
    Shift("all x1.2", everything=1.2),
    Shift("all x1.5", everything=1.5),
    Shift("tail x1.2", tail=1.2),
    Shift("tail x1.5", tail=1.5),
)


@dataclass
class Outcome:
    """Seconds until each said what, None for never."""

    worse_s: float | None = None
    better_s: float | None = None
    not_worse_s: float | None = None
    not_worse_requests: int | None = None
    mann_whitney_s: float | None = None
    threshold_s: float | None = None


@dataclass
class Traffic:
    """Latencies of both arms, tick by tick."""

    rng: np.random.Generator
    rates: tuple[float, float]  # Requests a second of control and canary.
    noise: Noise
    shift: Shift
    levels: list[Floats] = field(default_factory=list)

    def __post_init__(self) -> None:
        ticks = HISTORY_TICKS + JUDGED_TICKS
        common = self._ar1(ticks, self.noise.common)
        self.levels = [common + self._ar1(ticks, self.noise.arm) for _ in self.rates]

    def _ar1(self, ticks: int, sd: float) -> Floats:
        keep = math.exp(-TICK_S / self.noise.tau_s)
        steps = self.rng.normal(size=ticks) * sd * math.sqrt(1 - keep * keep)
        steps[0] = self.rng.normal() * sd
        for place in range(1, ticks):
            steps[place] += keep * steps[place - 1]
        found: Floats = steps
        return found

    def tick(self, place: int) -> tuple[Floats, Floats]:
        arms = []
        for arm, rate in enumerate(self.rates):
            z = self.rng.normal(size=self.rng.poisson(rate * TICK_S))
            values = 0.2 * np.exp(SIGMA * z + self.levels[arm][place])
            if arm == 1 and place >= HISTORY_TICKS:
                values *= self.shift.everything
                values[z > TAIL_FROM] *= self.shift.tail
            arms.append(values)
        return arms[0], arms[1]


def sketch_of(values: Floats) -> Sketch:
    sketch = Sketch()
    if len(values):
        index = np.clip(np.ceil(np.log2(values) * 2**SCALE).astype(int) - 1, AXIS_MIN, AXIS_MAX) - AXIS_MIN
        sketch.counts = np.bincount(index, minlength=AXIS_LENGTH).astype(np.int64)
        sketch.minimum, sketch.maximum = float(values.min()), float(values.max())
    return sketch


def judge_of(tolerance: float, alpha: float) -> Judge:
    plan = plan_of(RolloutCreate(pool="p", revision=1, metrics=["ttft"], alpha=alpha, tolerance=tolerance))
    assert plan is not None
    return Judge.start(plan, control="concurrent")


def rollout(
    seed: Sequence[int], rate: float, share: float, shift: Shift, noise: Noise, *, tolerance: float, alpha: float
) -> Outcome:
    """One simulated rollout, judged by all three to its horizon."""
    traffic = Traffic(np.random.default_rng(seed), (rate * (1 - share), rate * share), noise, shift)
    judge = judge_of(tolerance, alpha)
    past = [traffic.tick(place) for place in range(HISTORY_TICKS)]
    judge.rehearse({"ttft": [Window({"": sketch_of(a)}, {"": sketch_of(b)}) for a, b in past]})
    outcome = Outcome()
    requests = 0
    minute: tuple[list[Floats], list[Floats]] = ([], [])
    points: tuple[list[float], list[float]] = ([], [])
    strikes = 0
    for place in range(HISTORY_TICKS, HISTORY_TICKS + JUDGED_TICKS):
        a, b = traffic.tick(place)
        now_s = float((place - HISTORY_TICKS + 1) * TICK_S)
        requests += len(b)
        if outcome.worse_s is None:
            judge.feed({"ttft": Window({"": sketch_of(a)}, {"": sketch_of(b)})})
            said = judge.verdict()
            if said is Verdict.WORSE:
                outcome.worse_s = now_s
            elif said is Verdict.BETTER and outcome.better_s is None:
                outcome.better_s = now_s
            if said is not Verdict.WORSE and judge.streams["ttft"].is_not_worse and outcome.not_worse_s is None:
                outcome.not_worse_s, outcome.not_worse_requests = now_s, requests
        minute[0].append(a)
        minute[1].append(b)
        if len(minute[0]) < TICKS_A_MINUTE:
            continue
        values = [np.concatenate(arm) for arm in minute]
        minute = ([], [])
        if min(len(arm) for arm in values) == 0:
            continue
        for arm, found in zip(points, values, strict=True):
            arm.append(float(np.quantile(found, 0.95)))
        enough = outcome.mann_whitney_s is None and len(points[0]) >= 5
        if enough and mannwhitneyu(points[1], points[0], alternative="greater").pvalue < 0.01:
            outcome.mann_whitney_s = now_s
        slow = float(np.quantile(values[1], 0.99)) > 1.1 * float(np.quantile(values[0], 0.99))
        strikes = strikes + 1 if slow else 0
        if outcome.threshold_s is None and strikes >= 3:
            outcome.threshold_s = now_s
    return outcome


def interval(count: int, total: int) -> str:
    """A share with its Clopper-Pearson 95 % interval."""
    low = beta.ppf(0.025, count, total - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, total - count) if count < total else 1.0
    return f"{100 * count / total:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def caught(found: Sequence[float | None]) -> str:
    hits = [value for value in found if value is not None]
    return f"{len(hits)}/{len(found)}" + (f" {median(hits):.0f} s" if hits else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=20.0, help="null hours per row")
    parser.add_argument("--rates", default="3,20,100", help="requests a second of both arms together")
    parser.add_argument("--shares", default="0.2,0.5", help="the canary's share of the traffic")
    parser.add_argument("--tolerance", type=float, default=0.05)
    parser.add_argument("--alpha", type=float, default=0.01)
    parser.add_argument("--noise-common", type=float, default=Noise.common)
    parser.add_argument("--noise-arm", type=float, default=Noise.arm)
    parser.add_argument("--noise-tau", type=float, default=Noise.tau_s, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    noise = Noise(wanted.noise_common, wanted.noise_arm, wanted.noise_tau)
    began = time.monotonic()
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, {platform.machine()}"
    )
    print(f"seed {wanted.seed}, alpha {wanted.alpha:g}, tolerance {wanted.tolerance:g}, {noise}")
    nulls = max(1, round(2 * wanted.hours))
    shifted = max(10, nulls // 4)
    rates = [float(text) for text in wanted.rates.split(",")]
    shares = [float(text) for text in wanted.shares.split(",")]
    table: list[list[str]] = []
    for row, (rate, share) in enumerate((rate, share) for rate in rates for share in shares):
        options: dict[str, Any] = {"noise": noise, "tolerance": wanted.tolerance, "alpha": wanted.alpha}
        null = [rollout((wanted.seed, row, 0, n), rate, share, NULL, **options) for n in range(nulls)]
        fine = [one.not_worse_requests for one in null if one.not_worse_requests is not None]
        name = f"{rate:g}/s, {share:.0%}"
        print(
            f"\n{name}: null, {nulls} rollouts of 30 min; false rollbacks: judge "
            f"{interval(sum(one.worse_s is not None for one in null), nulls)}, Mann-Whitney "
            f"{interval(sum(one.mann_whitney_s is not None for one in null), nulls)}, threshold "
            f"{interval(sum(one.threshold_s is not None for one in null), nulls)}"
        )
        print(
            f"  judge: falsely better {interval(sum(one.better_s is not None for one in null), nulls)}, not worse "
            f"{caught([one.not_worse_s for one in null])}" + (f", {median(fine):.0f} canary requests" if fine else ""),
            flush=True,
        )
        for number, shift in enumerate(SHIFTS, 1):
            seeds = [(wanted.seed, row, number, n) for n in range(shifted)]
            found = [rollout(seed, rate, share, shift, **options) for seed in seeds]
            cells = [
                caught([getattr(one, who) for one in found]) for who in ("worse_s", "mann_whitney_s", "threshold_s")
            ]
            wrong = sum(one.worse_s is None and one.not_worse_s is not None for one in found)
            table.append([name, shift.name, *cells, str(wrong)])
            print(f"  {shift.name}: judge {cells[0]}, Mann-Whitney {cells[1]}, threshold {cells[2]}", flush=True)
    print("\n| traffic, canary share | shift | judge | Mann-Whitney | threshold | judge: called not worse |")
    print("|---|---|---|---|---|---|")
    for line in table:
        print(f"| {' | '.join(line)} |")
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
