"""Regression detection: how often it cries wolf, and how soon it sees a real slowdown.

    python -m benchmarks.detection --only nulls,delays --weeks 1 --trials 5
    python -m benchmarks.detection --only model

`nulls` and `delays` drive worlds of real arrivals through a queue a node, on machines that drift
(`detection_measures/worlds.py`); a null world has nothing wrong for `--weeks`, and each alarm there is false. `model`
is the older stationary model, which is kinder than any fleet (`detection_measures/model.py`). All methods watch the
same worlds; `exceedances alone` is the product's detector without courses (docs/decisions/0049). A model is not
production: read the figures as its answers.
"""

import argparse
import math
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.detection_measures import model
from benchmarks.detection_measures.arrivals import Lap, lap
from benchmarks.detection_measures.methods import METHODS, WARM_S
from benchmarks.detection_measures.model import poisson_interval
from benchmarks.detection_measures.worlds import Fault, Shape, World
from controlplane.contract.metrics import WINDOW_S

WEEK_S = 7 * 86400.0
EASY = Shape("easy: util .3, drift of 1 % in an hour", 5.0, slow=((0.01, 3600.0),))
DRIFT = Shape("drift: 4 % in an hour, and in six", 5.0, slow=((0.04, 3600.0), (0.03, 21600.0)))
BUSY = Shape(
    "busy: util .6 at noon, day curve, drift, jumps of 2 %",
    5.0,
    util=0.6,
    depth=0.6,
    slow=((0.03, 1200.0), (0.03, 7200.0)),
    jumps=(0.02, 7200.0),
)
NULLS = tuple(replace(shape, rate=rate) for shape in (EASY, DRIFT, BUSY) for rate in (5.0, 20.0))
FAULT_S = WARM_S + 1200.0
PATIENCE_S = 3600.0
FAULTS = {
    "all x1.2": Fault(FAULT_S, 1.2),
    "all x1.5": Fault(FAULT_S, 1.5),
    "9 % of requests x2": Fault(FAULT_S, 2.0, share=0.09),
    "one node of four x1.5": Fault(FAULT_S, 1.5, node=0),
    "prompts over 2k x1.5": Fault(FAULT_S, 1.5, least_prompt=2049),
    "creep to x1.5 in an hour": Fault(FAULT_S, 1.5, ramp_s=3600.0),
    "all x1.05": Fault(FAULT_S, 1.05),
}
RATES = (5.0, 20.0, 100.0)


def nulls(source: Lap, names: Sequence[str], weeks: float, seed: int) -> None:
    print(f"\nFalse alarms a pool-week, {weeks:g} weeks each, 95 % Poisson interval\n")
    print("| world | rate | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    for place, shape in enumerate(NULLS):
        cells = []
        for name in names:
            world = World(shape, source, (seed, place))
            raised = len(METHODS[name](world.chunks(WARM_S + weeks * WEEK_S)))
            low, high = (bound / weeks for bound in poisson_interval(raised))
            cells.append(f"{raised / weeks:.3g} ({low:.2g} to {high:.2g})")
        print(f"| {shape.name} | {shape.rate:g}/s | " + " | ".join(cells) + " |", flush=True)


def delays(source: Lap, names: Sequence[str], trials: int, seed: int) -> None:
    print(f"\nDelay in seconds on the easy world, median of {trials}; in brackets missed within an hour, or early\n")
    print("| fault | rate | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    for number, (title, fault) in enumerate(FAULTS.items()):
        for rate in RATES:
            cells = []
            for name in names:
                found = []
                for trial in range(trials):
                    world = World(replace(EASY, rate=rate), source, (seed, 100 + number, round(rate), trial), (fault,))
                    raised = METHODS[name](world.chunks(FAULT_S + PATIENCE_S))
                    late = [at_s - FAULT_S for at_s in raised]
                    found.append(late[0] if late and late[0] > 0 else math.inf)
                missed = sum(delay == math.inf for delay in found)
                median = statistics.median_high(found)
                cells.append((f"{median:.0f}" if median < math.inf else "> 3600") + (f" ({missed})" if missed else ""))
            print(f"| {title} | {rate:g}/s | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="nulls,delays", help="of nulls, delays, model")
    options.add_argument("--methods", help="comma-separated, as named in the tables' heads, with ; between")
    options.add_argument("--weeks", type=float, default=1.0, help="of each null world")
    options.add_argument("--trials", type=int, default=5, help="of each fault and rate")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--hours", type=float, default=24.0, help="model: null hours of each rate")
    chosen = options.parse_args()
    parts = chosen.only.split(",")
    if unknown := sorted(set(parts) - {"nulls", "delays", "model"}):
        options.error(f"--only: there is no {unknown[0]!r}; nulls, delays and model there are")
    names = chosen.methods.split(";") if chosen.methods else list(METHODS)
    if unknown := [name for name in names if name not in METHODS]:
        options.error(f"--methods: there is no {unknown[0]!r}; there are {'; '.join(METHODS)}")
    source = lap()
    print(f"seed {chosen.seed}; arrivals: {source.source}; ticks of {WINDOW_S:g} s")
    print(f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    began = time.monotonic()
    if "nulls" in parts:
        nulls(source, names, chosen.weeks, chosen.seed)
    if "delays" in parts:
        delays(source, names, chosen.trials, chosen.seed)
    if "model" in parts:
        model.report(hours=chosen.hours, trials=3 * chosen.trials, seed=chosen.seed)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
