"""Saturation, surges and mixes: how often they are told for nothing, and how soon where there is something.

    python -m benchmarks.detection_measures.saturation --only nulls,delays,told --weeks 1 --trials 20
    python -m benchmarks.detection_measures.saturation --only told --cases surge,mix --rates 5,20 --trials 50

The worlds are those of `benchmarks.detection`: real arrivals through a queue a node, on machines that drift. The
product's own judgement watches them (`controlplane/alerts/queueing`), as the rules are installed; arrivals that a surge
or another mix brings are told as such or not at all. A model is not production: read the figures as its answers.
"""

import argparse
import math
import platform
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection_measures.arrivals import Lap, lap
from benchmarks.detection_measures.false_alarms import told
from benchmarks.detection_measures.loaded_worlds import LoadedWorld, Minutes, windows_of
from benchmarks.detection_measures.scenes import BUSY, DAY_S, DRIFT, EASY, WEEK_S
from benchmarks.detection_measures.worlds import BUCKETS, Fault
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
TRAFFIC = math.log1p(2.0 * RULE.false_alarm_every_s / WINDOW_S)
"""What both watches of the traffic want as evidence."""
BACK = round((RULE.baseline_s + 600.0) / WINDOW_S)
FULL = replace(EASY, name="util .6, drift of 1 % in an hour", util=0.6)
HALF = replace(FULL, name="util .35, drift of 1 % in an hour", util=0.35)
NULLS = {"easy": EASY, "drift": DRIFT, "full": FULL, "busy": BUSY}
SATURATION, SURGE, MIX = "saturation", "surge", "mix"
MEASURES = ("nulls", "delays", "told")
KINDS = (SATURATION, SURGE, MIX)


@dataclass(frozen=True)
class Case:
    """What happens: the load times so much, or short prompts kept with this probability; and as what it is to be told,
    with saturation beside it or without."""

    title: str
    told: str | None
    load: float | None = None
    kept: float | None = None


CASES = {
    "surge": Case("load x2.2, util .35 to .77", SURGE, load=2.2),
    "weaker mix": Case("long prompts x2 to x3: short ones 30 % of what they were", MIX, kept=0.3),
    "mix": Case("long prompts x4: short ones 8 % of what they were", MIX, kept=0.08),
    "nothing": Case("nothing", None),
}


def watch(minutes: Minutes, load: PoolLoad, from_s: float, *, traffic: bool = True) -> Iterator[tuple[float, str]]:
    """The two rules over a whole run: when what is told; one that is told is told anew once it is over."""
    wait, rate, lengths = PeakWatch(), LevelWatch(), LevelWatch()
    felt: set[str] = set()
    for known in windows_of(load, round(from_s / WINDOW_S), BACK):
        at_s, was = known.end_s, wait.alarmed
        counts = bool(known.waiting[-1] >= LEAST_WAITING)
        wait.take(known.wait_s, known.start_s, known.step_s, MANNER, RULE.false_alarm_every_s, counts=counts)
        if wait.alarmed and not was:
            yield at_s, SATURATION
        if not traffic:
            continue
        rate.take(load_series(known), LOAD_RISES, TRAFFIC, LASTS_S)
        lengths.take(mix_series(known), MIX_RISES, TRAFFIC, LASTS_S)
        felt -= {name for name, one in ((SURGE, rate), (MIX, lengths)) if not one.alarmed}
        if rate.alarmed and SURGE not in felt and _slower(minutes, rate.onset_s or at_s, at_s):
            felt.add(SURGE)
            yield at_s, SURGE
        if lengths.alarmed and MIX not in felt and _longer(minutes, known, lengths.onset_s or at_s):
            felt.add(MIX)
            yield at_s, MIX


def _counts(minutes: Minutes, begin_s: float, end_s: float) -> NDArray[np.int64]:
    """int64[buckets, axis] of the first tokens of whole minutes, none of which ends later."""
    first, last = (max(0, math.floor(second / 60.0)) for second in (begin_s, end_s))
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


def nulls(source: Lap, worlds: Sequence[str], rates: Sequence[float], weeks: float, seed: int) -> None:
    """Prints a row for each world, and before it what was told in each week, as it is."""
    print(f"\nTold for nothing a pool-week, {weeks:g} weeks each, 95 % Poisson interval\n")
    print("| world | rate | " + " | ".join(KINDS) + " |\n|---|---|" + "---|" * len(KINDS), flush=True)
    for name in worlds:
        for rate in rates:
            shape = replace(NULLS[name], rate=rate)
            raised, judged, week = dict.fromkeys(KINDS, 0), 0.0, 0
            while judged < weeks - 1e-9:
                part = min(1.0, weeks - judged)
                world = LoadedWorld(shape, source, (seed, list(NULLS).index(name), round(rate), week))
                for at_s, kind in watch(*world.run(WARM_S + part * WEEK_S), WARM_S):
                    raised[kind] += 1
                    print(f"<!-- {name} {rate:g}/s, week {week}: {kind} on day {at_s / DAY_S:.2f} -->", flush=True)
                judged, week = judged + part, week + 1
                print(f"<!-- {name} {rate:g}/s, {judged:.3g} weeks: {raised} -->", flush=True)
            cells = [told(raised[kind], judged) for kind in KINDS]
            print(f"| {shape.name} | {rate:g}/s | " + " | ".join(cells) + " |", flush=True)


def delays(source: Lap, rates: Sequence[float], trials: int, seed: int) -> None:
    print(f"\nSaturation: delay in seconds, median of {trials}; in brackets missed within half an hour, or early\n")
    print("| what | " + " | ".join(f"{rate:g}/s" for rate in rates) + " |\n|---|" + "---|" * len(rates), flush=True)
    surge = (CHANGE_S, math.inf, 1.3 / FULL.util)
    cases: dict[str, tuple[tuple[Fault, ...], tuple[float, float, float] | None]] = {
        "load 1.3 times what can be served": ((), surge),
        "capacity x0.5 at util .6": ((Fault(CHANGE_S, 2.0),), None),
    }
    for number, (title, (faults, risen)) in enumerate(cases.items()):
        cells = []
        for rate in rates:
            found = []
            for trial in range(trials):
                seeds = (seed, 50 + number, round(rate), trial)
                world = LoadedWorld(replace(FULL, rate=rate), source, seeds, faults, risen)
                raised = next(watch(*world.run(CHANGE_S + PATIENCE_S), YOUNG_S, traffic=False), None)
                found.append(raised[0] - CHANGE_S if raised and raised[0] > CHANGE_S else math.inf)
            missed = sum(delay == math.inf for delay in found)
            median = statistics.median_high(found)
            cells.append((f"{median:.0f}" if median < math.inf else "> 1800") + (f" ({missed})" if missed else ""))
        print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


def told_as(source: Lap, cases: Sequence[str], rates: Sequence[float], trials: int, seed: int) -> None:
    """Right is what is told as itself after it happened, never before, and at no time as the other."""
    print(f"\nTold as what, of {trials} each, within half an hour; delay: median in seconds of those told right\n")
    print("| what happened | rate | right | delay | surge | mix | saturation | any before it happened |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in cases:
        case = CASES[name]
        for rate in rates:
            found, late = [], []
            for trial in range(trials):
                seeds = (seed, 80 + list(CASES).index(name), round(rate), trial)
                surge = None if case.load is None else (CHANGE_S, math.inf, case.load)
                mix = None if case.kept is None else (CHANGE_S, case.kept)
                world = LoadedWorld(replace(HALF, rate=rate), source, seeds, (), surge, mix)
                raised = [(at_s - CHANGE_S, kind) for at_s, kind in watch(*world.run(CHANGE_S + PATIENCE_S), YOUNG_S)]
                found.append(raised)
                late += [raised_s for raised_s in [told_right(case.told, raised)] if raised_s is not None]
                words = ", ".join(f"{kind} after {after_s:.0f} s" for after_s, kind in raised) or "nothing"
                print(f"<!-- {name} {rate:g}/s, {len(late)} of {trial + 1} right; told: {words} -->", flush=True)
            counted = [sum(any(one == kind for _, one in each) for each in found) for kind in (SURGE, MIX, SATURATION)]
            before = sum(any(after_s <= 0.0 for after_s, _ in each) for each in found)
            delay = f"{statistics.median_high(late):.0f}" if late and case.told else "-"
            cells = [f"{len(late)} of {trials}", delay, *map(str, counted), f"{before}"]
            print(f"| {case.title} | {rate:g}/s | " + " | ".join(cells) + " |", flush=True)


def told_right(wanted: str | None, raised: Sequence[tuple[float, str]]) -> float | None:
    """After how many seconds it was told as it is to be, None where it was not.

    raised: in order, seconds after it happened. Of nothing nothing is to be told: 0.
    """
    as_traffic = [(after_s, kind) for after_s, kind in raised if kind != SATURATION or after_s <= 0.0]
    if wanted is None:
        return None if raised else 0.0
    right = as_traffic and as_traffic[0][0] > 0.0 and all(kind == wanted for _, kind in as_traffic)
    return as_traffic[0][0] if right else None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default=",".join(MEASURES), help="of " + ", ".join(MEASURES))
    options.add_argument("--worlds", default=",".join(NULLS), help="nulls: of " + ", ".join(NULLS))
    options.add_argument("--cases", default=",".join(CASES), help="told: of " + ", ".join(CASES))
    options.add_argument("--rates", default="5,20", help="requests a second")
    options.add_argument("--weeks", type=float, default=1.0, help="of each null world")
    options.add_argument("--trials", type=int, default=20, help="of each case and rate")
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    lists = {
        "only": (chosen.only.split(","), MEASURES),
        "worlds": (chosen.worlds.split(","), NULLS),
        "cases": (chosen.cases.split(","), CASES),
    }
    for name, (wanted, known) in lists.items():
        if unknown := [one for one in wanted if one not in known]:
            options.error(f"--{name}: there is no {unknown[0]!r}; there are {', '.join(known)}")
    parts, worlds, cases = (wanted for wanted, _ in lists.values())
    rates = [float(rate) for rate in chosen.rates.split(",")]
    source = lap()
    print(f"seed {chosen.seed}; arrivals: {source.source}; ticks of {WINDOW_S:g} s")
    print(f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    began = time.monotonic()
    if "delays" in parts:
        delays(source, rates, chosen.trials, chosen.seed)
    if "told" in parts:
        told_as(source, cases, rates, chosen.trials, chosen.seed)
    if "nulls" in parts:
        nulls(source, worlds, rates, chosen.weeks, chosen.seed)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
