"""How often each cries wolf: worlds in which nothing is wrong for weeks."""

import math
from collections.abc import Sequence

from benchmarks.detection_measures.arrivals import Lap
from benchmarks.detection_measures.equal_terms import Said
from benchmarks.detection_measures.equal_terms import alarms as alarms_of
from benchmarks.detection_measures.fast_forward import WARM_S
from benchmarks.detection_measures.methods import METHODS, followed
from benchmarks.detection_measures.rivals import PUBLISHED, RIVALS
from benchmarks.detection_measures.scenes import NULLS, WEEK_S, shape
from benchmarks.detection_measures.worlds import World
from controlplane.evidence.poisson import interval

Thresholds = dict[tuple[str, float], float]
"""Of a rival at so many requests a second."""


def null_world(source: Lap, name: str, rate: float, seed: int, week: int) -> World:
    return World(shape(name, rate), source, (seed, sorted(NULLS).index((name, rate)), week))


def measure(
    source: Lap,
    methods: Sequence[str],
    worlds: Sequence[str],
    rates: Sequence[float],
    weeks: float,
    seed: int,
    thresholds: Thresholds,
    without: Sequence[str] = (),
) -> None:
    """Prints a row for each world, and each pool-week of it as it is done."""
    watched = [name for name in methods if name in METHODS]
    rivals = [name for name in methods if name in RIVALS]
    heads = [*watched, *(f"{name}, {how}" for name in rivals for how in ("published", "tuned"))]
    print(f"\nFalse alarms a pool-week, {weeks:g} weeks of each world, 95 % Poisson interval\n")
    print("| world | rate | " + " | ".join(heads) + " |")
    print("|---|---|" + "---|" * len(heads), flush=True)
    for name, rate in [null for null in NULLS if null[0] in worlds and null[1] in rates]:
        raised, nearest = dict.fromkeys(heads, 0), dict.fromkeys(watched, -math.inf)
        judged, week = 0.0, 0
        while judged < weeks - 1e-9:
            part = min(1.0, weeks - judged)
            span_s = WARM_S + part * WEEK_S
            for method in watched:
                world = null_world(source, name, rate, seed, week)
                found = followed(method, world.chunks(span_s), without)
                raised[method] += len(found.raised)
                nearest[method] = max(nearest[method], found.nearest)
                for at_s, line in zip(found.raised, found.raised_by, strict=True):
                    print(f"<!-- {name} {rate:g}/s, week {week}: {line}, hour {at_s / 3600.0:.2f} -->", flush=True)
            if rivals:
                world = null_world(source, name, rate, seed, week)
                numbers = Said.of(world.chunks(span_s), "prefill", rivals).numbers
                for rival in rivals:
                    raised[f"{rival}, published"] += len(alarms_of(numbers[rival], PUBLISHED[rival]))
                    tuned = thresholds.get((rival, rate))
                    raised[f"{rival}, tuned"] += 0 if tuned is None else len(alarms_of(numbers[rival], tuned))
            judged, week = judged + part, week + 1
            near = ", ".join(f"{method} came within {-nats:.1f} nats of an alarm" for method, nats in nearest.items())
            print(f"<!-- {name} {rate:g}/s, {judged:.3g} weeks: {raised}; {near} -->", flush=True)
        print(f"| {name} | {rate:g}/s | " + " | ".join(told(raised[head], judged) for head in heads) + " |", flush=True)


def told(raised: int, weeks: float) -> str:
    low, high = (bound / weeks for bound in interval(raised))
    return f"{raised / weeks:.2g} ({low:.2g} to {high:.2g})"
