"""Saturation, surges and mixes: how often they are told for nothing, and how soon where there is something.

    python -m benchmarks.detection_measures.saturation --only nulls,delays,told --weeks 1 --trials 20

The worlds are those of `benchmarks.detection`: real arrivals through a queue a node, on machines that drift. The
product's own judgement watches them (`controlplane/alerts/queueing`), as the rules are installed; arrivals that a surge
or another mix brings are told as such or not at all. A model is not production: read the figures as its answers.
"""

import argparse
import math
import platform
import statistics
import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection import BUSY, DRIFT, EASY, WEEK_S
from benchmarks.detection_measures.arrivals import Lap, lap
from benchmarks.detection_measures.loaded_worlds import MINUTE, LoadedWorld, Minutes, windows_of
from benchmarks.detection_measures.model import poisson_interval
from benchmarks.detection_measures.worlds import BUCKETS, Fault, Shape
from controlplane.alerts.conditions.saturation import LEAST_WAITING, MANNER
from controlplane.alerts.conditions.traffic_changed import FELT, FELT_Q, LASTS_S
from controlplane.alerts.queueing.level_watch import LevelWatch
from controlplane.alerts.queueing.peak_watch import PeakWatch
from controlplane.alerts.queueing.pool_load import PoolLoad
from controlplane.alerts.queueing.traffic_shift import (
    LOAD_RISES,
    MIX_RISES,
    MIX_S,
    by_mix_alone,
    load_series,
    mix_series,
    shares,
)
from controlplane.contract.bodies.alerts import SaturationCondition
from controlplane.contract.metrics import WINDOW_S
from controlplane.evidence.sketch import Sketch

RULE = SaturationCondition()
WARM_S = RULE.baseline_s
YOUNG_S = 2 * 3600.0
CHANGE_S = YOUNG_S + 1200.0
"""What happens does so after two hours: a whole past of six makes limits lower and delays shorter."""
PATIENCE_S = 1800.0
RATES = (5.0, 20.0)
TRAFFIC = math.log1p(2.0 * RULE.false_alarm_every_s / WINDOW_S)
"""What both watches of the traffic want as evidence."""
BACK = round((RULE.baseline_s + 600.0) / WINDOW_S)
FULL = replace(EASY, name="util .6, drift of 1 % in an hour", util=0.6)
NULLS = tuple(replace(shape, rate=rate) for shape in (EASY, DRIFT, FULL, BUSY) for rate in (5.0, 20.0))


@dataclass
class Told:
    """Seconds at which each thing was told."""

    saturated: list[float]
    surge: list[float]
    mix: list[float]


def watch(minutes: Minutes, load: PoolLoad, from_s: float, *, traffic: bool = True) -> Told:
    """The two rules over a whole run; one that is told is told anew once it is over."""
    told, wait, surge, mix = Told([], [], []), PeakWatch(), LevelWatch(), LevelWatch()
    felt: set[str] = set()
    for stop, known in windows_of(load, round(from_s / WINDOW_S), BACK):
        at_s, of = stop * WINDOW_S, (known.start_s, known.step_s)
        was = wait.alarmed
        counts = bool(known.waiting[-1] >= LEAST_WAITING)
        wait.take(known.wait_s, *of, MANNER, RULE.false_alarm_every_s, counts=counts)
        if wait.alarmed and not was:
            told.saturated.append(at_s)
        if not traffic:
            continue
        surge.take(load_series(known), LOAD_RISES, TRAFFIC, LASTS_S)
        mix.take(mix_series(known), MIX_RISES, TRAFFIC, LASTS_S)
        felt -= {name for name, one in (("surge", surge), ("mix", mix)) if not one.alarmed}
        if surge.alarmed and "surge" not in felt and _slower(minutes, surge.onset_s or at_s, at_s):
            felt.add("surge")
            told.surge.append(at_s)
        if mix.alarmed and "mix" not in felt and _longer(minutes, known, mix.onset_s or at_s):
            felt.add("mix")
            told.mix.append(at_s)
    return told


def _counts(minutes: Minutes, begin_s: float, end_s: float) -> NDArray[np.int64]:
    """int64[buckets, axis] of the first tokens of whole minutes."""
    first, last = (max(0, round(second / (MINUTE * WINDOW_S))) for second in (begin_s, end_s))
    return np.asarray(minutes[first:last].sum(axis=0), dtype=np.int64)


def _slower(minutes: Minutes, onset_s: float, at_s: float) -> bool:
    then, now = (
        Sketch(counts=_counts(minutes, *span).sum(axis=0)) for span in ((onset_s - 600, onset_s), (at_s - 60, at_s))
    )
    return bool(then.count and now.count) and now.quantile(FELT_Q) >= FELT * then.quantile(FELT_Q)


def _longer(minutes: Minutes, known: PoolLoad, onset_s: float) -> bool:
    past = dict(zip(BUCKETS, map(Sketch, _counts(minutes, onset_s - 3600.0, onset_s)), strict=True))
    now = shares(known, slice(len(known) - known.ticks_of(MIX_S), len(known)))
    grown = by_mix_alone(past, now)
    return grown is not None and grown.now_s >= FELT * grown.before_s


def nulls(source: Lap, weeks: float, seed: int) -> None:
    print(f"\nTold for nothing a pool-week, {weeks:g} weeks each, 95 % Poisson interval\n")
    print("| world | rate | saturation | surge | mix |\n|---|---|---|---|---|")
    for place, shape in enumerate(NULLS):
        told = watch(*LoadedWorld(shape, source, (seed, place)).run(WARM_S + weeks * WEEK_S), WARM_S)
        cells = []
        for raised in (told.saturated, told.surge, told.mix):
            low, high = (bound / weeks for bound in poisson_interval(len(raised)))
            cells.append(f"{len(raised) / weeks:.3g} ({low:.2g} to {high:.2g})")
        print(f"| {shape.name} | {shape.rate:g}/s | " + " | ".join(cells) + " |", flush=True)


def delays(source: Lap, trials: int, seed: int) -> None:
    print(f"\nSaturation: delay in seconds, median of {trials}; in brackets missed within half an hour, or early\n")
    print("| what | 5/s | 20/s |\n|---|---|---|")
    surge = (CHANGE_S, math.inf, 1.3 / FULL.util)
    cases: dict[str, tuple[Shape, tuple[Fault, ...], tuple[float, float, float] | None]] = {
        "load 1.3 times what can be served": (FULL, (), surge),
        "capacity x0.5 at util .6": (FULL, (Fault(CHANGE_S, 2.0),), None),
    }
    for number, (title, (shape, faults, risen)) in enumerate(cases.items()):
        cells = []
        for rate in RATES:
            found = []
            for trial in range(trials):
                world = LoadedWorld(
                    replace(shape, rate=rate), source, (seed, 50 + number, round(rate), trial), faults, risen
                )
                raised = watch(*world.run(CHANGE_S + PATIENCE_S), YOUNG_S, traffic=False).saturated
                found.append(raised[0] - CHANGE_S if raised and raised[0] > CHANGE_S else math.inf)
            missed = sum(delay == math.inf for delay in found)
            median = statistics.median_high(found)
            cells.append((f"{median:.0f}" if median < math.inf else "> 1800") + (f" ({missed})" if missed else ""))
        print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


def told_as(source: Lap, trials: int, seed: int) -> None:
    print(f"\nTold as what, of {trials} each, within half an hour\n")
    print("| what happened | rate | surge | mix | saturation |\n|---|---|---|---|---|")
    for rate in RATES:
        shape = replace(FULL, rate=rate, util=0.35)
        for number, (title, surge, mix) in enumerate(
            (
                ("load x2.2, util .35 to .77", (CHANGE_S, math.inf, 2.2), None),
                ("long prompts x2 to x3, short ones fewer", None, (CHANGE_S, 0.3)),
                ("long prompts x4, short ones hardly any", None, (CHANGE_S, 0.08)),
                ("nothing", None, None),
            )
        ):
            told = []
            for trial in range(trials):
                seeds = (seed, 80 + number, round(rate), trial)
                world = LoadedWorld(shape, source, seeds, (), surge, mix=mix)
                told.append(watch(*world.run(CHANGE_S + PATIENCE_S), YOUNG_S))
            counted = [
                sum(bool(one) for one in kind)
                for kind in zip(*((t.surge, t.mix, t.saturated) for t in told), strict=True)
            ]
            print(f"| {title} | {rate:g}/s | " + " | ".join(map(str, counted)) + " |", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="nulls,delays,told", help="of nulls, delays, told")
    options.add_argument("--weeks", type=float, default=1.0, help="of each null world")
    options.add_argument("--trials", type=int, default=20, help="of each case and rate")
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    parts = chosen.only.split(",")
    if unknown := sorted(set(parts) - {"nulls", "delays", "told"}):
        options.error(f"--only: there is no {unknown[0]!r}; nulls, delays and told there are")
    source = lap()
    print(f"seed {chosen.seed}; arrivals: {source.source}; ticks of {WINDOW_S:g} s")
    print(f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    began = time.monotonic()
    if "delays" in parts:
        delays(source, chosen.trials, chosen.seed)
    if "told" in parts:
        told_as(source, chosen.trials, chosen.seed)
    if "nulls" in parts:
        nulls(source, chosen.weeks, chosen.seed)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
