"""How soon each sees a fault, beside how soon anybody could."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.detection_measures.arrivals import Lap
from benchmarks.detection_measures.equal_terms import Said, delay, quiet_threshold
from benchmarks.detection_measures.false_alarms import Thresholds
from benchmarks.detection_measures.fast_forward import WARM_S
from benchmarks.detection_measures.limit import by_requests_s, nats_a_request, nats_wanted, with_common_noise_s
from benchmarks.detection_measures.methods import METHODS, followed
from benchmarks.detection_measures.rivals import RIVALS
from benchmarks.detection_measures.scenes import DAY_S, GOALS_S, HOUR_S, SMALL, WEEK_S, shape
from benchmarks.detection_measures.worlds import BUCKET_TOPS, Fault, World
from controlplane.contract.bodies.alerts import RegressionCondition

TUNING_SEED = 7_000_000
FALSE_A_WEEK = 0.25
"""What the product promises, and what each rival is tuned to."""
BOTTOMS = (0, *(top + 1 for top in BUCKET_TOPS))


def tune(source: Lap, rivals: Sequence[str], rates: Sequence[float], weeks: float, seed: int) -> Thresholds:
    """By rival and rate, on easy worlds of seeds that nothing else uses: those in which delays are measured."""
    found: Thresholds = {}
    most = math.floor(FALSE_A_WEEK * weeks)
    for rate in rates if rivals else ():
        world = World(shape("easy", rate), source, (TUNING_SEED + seed, round(rate)))
        said = Said.of(world.chunks(WARM_S + weeks * WEEK_S), "prefill", rivals)
        for name in rivals:
            found[name, rate] = quiet_threshold([said.numbers[name]], most)
    if found:
        told = "; ".join(f"{name} at {rate:g}/s {at:.3g}" for (name, rate), at in found.items())
        print(f"\nthresholds, for at most {most} alarms in {weeks:g} easy weeks of other seeds: {told}", flush=True)
    return found


def measure(
    source: Lap,
    methods: Sequence[str],
    faults: Mapping[str, Fault],
    rates: Sequence[float],
    trials: int,
    seed: int,
    thresholds: Thresholds,
    without: Sequence[str] = (),
    past_s: float = 0.0,
) -> None:
    """Prints a row for each fault and rate. past_s: how long a pool has been watched before, beyond its baseline."""
    patience_s = DAY_S if faults is SMALL else HOUR_S
    watched = [name for name in methods if name in METHODS]
    rivals = [name for name in methods if name in RIVALS and faults is not SMALL]
    heads = ["goal", "limit", "with common noise", *watched, *rivals]
    print(f"\nDelay in seconds on the easy world, median of {trials} and quartiles; in brackets how many were missed")
    print(
        f"within {patience_s:.0f} s, or told before. limit: by the requests alone, and with the noise that all share\n"
    )
    print("| fault | rate | " + " | ".join(heads) + " |")
    print("|---|---|" + "---|" * len(heads), flush=True)
    for title, usual in faults.items():
        fault = replace(usual, at_s=usual.at_s + past_s)
        for rate in rates:
            found: dict[str, list[float]] = {name: [] for name in (*watched, *rivals)}
            for trial in range(trials):
                number = round(1000 * fault.factor + 100 * fault.share) + fault.least_prompt
                key = (seed, number, round(rate), trial)

                def world(key: tuple[int, ...] = key, rate: float = rate, fault: Fault = fault) -> World:
                    return World(shape("easy", rate), source, key, (fault,))

                for method in watched:
                    raised = followed(method, world().chunks(fault.at_s + patience_s), without, first_only=True).raised
                    late = raised[0] - fault.at_s if raised else math.inf
                    found[method].append(late if late > 0.0 else math.inf)
                if rivals:
                    said = Said.of(world().chunks(fault.at_s + patience_s), "prefill", rivals)
                    for name in rivals:
                        threshold = thresholds.get((name, rate), math.inf)
                        found[name].append(delay(said.numbers[name], threshold, fault.at_s - WARM_S))
            cells = [f"{GOALS_S[title, rate]}" if (title, rate) in GOALS_S else "-", *limits(source, fault, rate, seed)]
            print(f"| {title} | {rate:g}/s | " + " | ".join([*cells, *map(told, found.values())]) + " |", flush=True)


def limits(source: Lap, fault: Fault, rate: float, seed: int) -> list[str]:
    """By the requests alone, and with common noise where the fault is of all requests."""
    if fault.ramp_s or fault.no_drafts:
        return ["-", "-"]
    chunks = list(World(shape("easy", rate), source, (TUNING_SEED + seed, 1)).chunks(4 * HOUR_S))
    usual = np.sum([chunk.prefill.sum(axis=0) for chunk in chunks], axis=0)
    nats = nats_a_request(usual, BOTTOMS, fault, shape("easy", rate).nodes)
    wanted = nats_wanted(RegressionCondition().false_alarm_every_s)
    cells = [f"{by_requests_s(nats, rate, wanted):.2g}"]
    is_of_all = fault.share == 1.0 and fault.node is None and not fault.least_prompt
    if not is_of_all:
        return [*cells, "-"]
    spread = math.log(fault.factor) / math.sqrt(2.0 * nats)  # Of the normal distribution whose shift holds as much.
    late_s = with_common_noise_s(shape("easy", rate), fault.factor, spread, wanted)
    return [*cells, f"{late_s:.0f}" if math.isfinite(late_s) else "> a day"]


def told(found: Sequence[float]) -> str:
    """Median and quartiles, each one of what was found: half are missed rather than a mean of one and infinity."""
    each = sorted(found)
    first, median, third = (each[len(each) * part // 4] for part in (1, 2, 3))
    missed = sum(math.isinf(late) for late in found)
    return f"{_seconds(median)}, {_seconds(first)} to {_seconds(third)}" + (f" ({missed})" if missed else "")


def _seconds(late: float) -> str:
    return f"{late:.0f}" if math.isfinite(late) else "missed"
