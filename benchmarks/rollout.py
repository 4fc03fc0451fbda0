"""The judge of rollouts on pools with real arrivals: what it promotes, what it takes back, how soon, and its rivals.

    python -m benchmarks.rollout [--trials 20] [--equal 60] [--seed 1] [--only equal,all] [--rivals 30] [--processes 2]

A trial is one rollout: four hours in which all nodes run the same, then a canary of one node in five (a share of a
fifth of 20 requests a second), judged to its end. What happens is a row (`SCENARIOS`). `--rivals N`: N more equal
canaries set the rivals' thresholds so that they take back as many equal canaries as `--alpha-rivals` says. Machines are
modelled (`rollout_measures/canary_pool.py`), arrivals and prompts real. Seconds are medians. A trial follows from the
seed and its number alone: so many `--processes` find the same. How far a long row is goes to standard error.
"""

import argparse
import math
import multiprocessing
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.pool import Pool
from statistics import median
from zlib import crc32

import numpy as np

from benchmarks.canary import interval
from benchmarks.detection_measures.arrivals import lap
from benchmarks.rollout_measures.canary_pool import Scenario, Shape
from benchmarks.rollout_measures.judged_rollout import Rollout, Told
from benchmarks.rollout_measures.rivals import RIVALS, minutes_of

SCENARIOS = {
    "equal": Scenario("equal"),
    "warm-up of a minute from x1.8": Scenario("warm", warm_factor=1.8, warm_s=60.0),
    "its cache is cold for five minutes": Scenario("cold", cold_s=300.0),
    "re-hash: 15 % hits for 40 %": Scenario("rehash", hits=0.15),
    "tenants' bursts of their own": Scenario("bursts", sticky=True),
    "hardware 8 % slower": Scenario("hardware 8", hardware=1.08),
    "hardware 15 % slower": Scenario("hardware 15", hardware=1.15),
    "both arms overloaded": Scenario("overload", rush=1.72),
    "all x1.2": Scenario("all", factor=1.2),
    "9 % of requests x2": Scenario("tail", factor=2.0, share=0.09),
    "prompts over 2k x1.5": Scenario("long", factor=1.5, least_prompt=2049),
    "x1.15 on a node 8 % faster": Scenario("fast", factor=1.15, hardware=0.92),
    "sheds its slowest 30 %": Scenario("sheds", sheds=0.3),
}
DRIFTS = Shape(drift=((0.02, 1200.0), (0.03, 7200.0)))
"""Nodes that drift by 4 %."""
ROWS = {name: (Shape(), scenario) for name, scenario in SCENARIOS.items()} | {
    "equal, nodes drift by 4 %": (DRIFTS, Scenario("drift"))
}
HALF = Scenario("half", factor=1.2, from_told=5)
ENDS = ("promoted", "better", "worse", "inconclusive")
TOLD_EACH = 100
WAVES = replace(Shape(), nodes=10)


def limit_s(shape: Shape, share: float, factor: float, tolerance: float, alpha: float) -> float:
    """The least seconds after which anybody could know (the logarithm of 1 / alpha nats of evidence), were requests
    independent and the noise of nodes none."""
    log_apart = abs(math.log(factor) - math.log(1.0 + tolerance))
    per_s = shape.rate * share * (1.0 - share) * log_apart**2 / (2.0 * shape.sigma**2)
    return math.log(1.0 / alpha) / per_s


@dataclass(frozen=True)
class Trial:
    """One rollout. seed: with the trial's number; waves: nodes of the canary and of each wave, 0: the canary alone, of
    one node; quiet_ticks: so many more are seen after it where rivals look on, 0: they do not."""

    shape: Shape
    scenario: Scenario
    seed: tuple[int, ...]
    waves: int = 0
    quiet_ticks: int = 0

    def run(self) -> tuple[Told, dict[str, list[float]]]:
        """What became of it, and by rival its statistic, minute by minute up to the twentieth."""
        rollout = Rollout(self.shape, self.scenario, source(), (*self.seed, crc32(self.scenario.name.encode())))
        told = rollout.waves(self.waves) if self.waves else rollout.canary(1)
        if not self.quiet_ticks:
            return told, {}
        minutes = minutes_of([*rollout.seen, rollout.pool.requests(self.quiet_ticks)], [0])[:20]
        return told, {name: statistic(minutes) for name, statistic in RIVALS.items()}


source = cache(lap)


def run(trials: Sequence[Trial], pool: Pool | None) -> Iterator[tuple[Told, dict[str, list[float]]]]:
    """What trials found, in their order."""
    told = []
    for number, one in enumerate(map(Trial.run, trials) if pool is None else pool.imap(Trial.run, trials), 1):
        told.append(one[0])
        if number % TOLD_EACH == 0:
            print(f"{trials[0].scenario.name}: {number} of {len(trials)}; {shares(told)}", file=sys.stderr, flush=True)
        yield one


def shares(told: Sequence[Told]) -> str:
    """Of each end its share, with the 95 % interval."""
    ends = Counter(one.said for one in told)
    return ", ".join(f"{what} {interval(ends[what], len(told))}" for what in ENDS)


def row(name: str, told: Sequence[Told], extra: Sequence[str] = ()) -> str:
    said = Counter(one.said for one in told)
    cells = []
    for what in ENDS:
        at_s = [one.at_s for one in told if one.said == what]
        cells.append(f"{said[what]} ({median(at_s):.0f} s)" if at_s else "0")
    return f"| {name} | {len(told)} | " + " | ".join([*cells, *extra]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--equal", type=int, default=60)
    parser.add_argument("--rivals", type=int, default=0, help="equal canaries that set the rivals' thresholds; 0: none")
    parser.add_argument("--alpha-rivals", type=float, default=0.05)
    parser.add_argument("--only", default="", help="scenarios by name, with commas; waves too")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    wanted = parser.parse_args()
    if wanted.processes == 1:
        measure(wanted, None)
        return
    with multiprocessing.Pool(wanted.processes) as pool:
        measure(wanted, pool)


def measure(wanted: argparse.Namespace, pool: Pool | None) -> None:
    began = time.monotonic()
    print(f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, seed {wanted.seed}")
    print(f"arrivals: {source().source}; {Shape()}")
    print(f"limit of information: not worse {limit_s(Shape(), 0.2, 1.0, 0.1, 0.005):.0f} s, x1.2 worse ", end="")
    print(f"{limit_s(Shape(), 0.2, 1.2, 0.1, 0.005):.0f} s\n")
    only = [one for one in wanted.only.split(",") if one]
    thresholds = {}
    if wanted.rivals:
        highest: dict[str, list[float]] = {name: [] for name in RIVALS}
        equal = [
            Trial(Shape(), SCENARIOS["equal"], (wanted.seed, 1, number), quiet_ticks=120)
            for number in range(wanted.rivals)
        ]
        for _, minutes in run(equal, pool):
            for name, by_minute in minutes.items():
                highest[name].append(max(by_minute))
        thresholds = {name: float(np.quantile(found, 1.0 - wanted.alpha_rivals)) for name, found in highest.items()}
        print(f"thresholds of the rivals by {wanted.rivals} equal canaries of twenty minutes: {thresholds}\n")
    heads = " | ".join([f"{name} takes back" for name in thresholds])
    print(f"| | rollouts | not worse | better | worse | inconclusive |{f' {heads} |' if heads else ''}")
    print("|---|---|---|---|---|---|" + "---|" * len(thresholds))
    for name, (shape, scenario) in ROWS.items():
        if only and scenario.name not in only:
            continue
        told, caught = [], {rival: list[float]() for rival in thresholds}
        asked = [
            Trial(shape, scenario, (wanted.seed, 0, number), quiet_ticks=240 if thresholds else 0)
            for number in range(wanted.equal if name == "equal" else wanted.trials)
        ]
        for found, minutes in run(asked, pool):
            told.append(found)
            for rival, threshold in thresholds.items():
                above = np.flatnonzero(np.array(minutes[rival]) > threshold)
                caught[rival] += [60.0 * (float(above[0]) + 1.0)] if above.size else []
        extra = [f"{len(at_s)}" + (f" ({median(at_s):.0f} s)" if at_s else "") for at_s in caught.values()]
        print(row(name, told, extra), flush=True)
        by = Counter(line for one in told for line in one.by)
        print(f"<!-- {dict(by)}; {shares(told)} -->", flush=True)
    if not only or "waves" in only:
        asked = [Trial(WAVES, HALF, (wanted.seed, 3, number), waves=2) for number in range(wanted.trials)]
        waves = [found for found, _ in run(asked, pool)]
        print(row("x1.2 from half of the pool on", waves) + f" waves {Counter(one.wave for one in waves)}", flush=True)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
