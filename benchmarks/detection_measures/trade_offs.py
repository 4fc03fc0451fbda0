"""What must not page: a rollout that was judged and promoted, a surge, a changed mix; and what must, right after."""

import statistics
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from benchmarks.detection_measures.arrivals import Ints, Lap
from benchmarks.detection_measures.fast_forward import WARM_S
from benchmarks.detection_measures.methods import followed
from benchmarks.detection_measures.scenes import HOUR_S, shape
from benchmarks.detection_measures.worlds import Fault, World
from controlplane.alerts.conditions.deliberate import changes_of
from controlplane.alerts.windows.pool_record import PoolRecord
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.evidence.poisson import interval
from controlplane.evidence.sketch import Sketch

POOL, METRIC, METHOD = "chat", "prefill", "product, prefill"
JUDGED_S, PROMOTING_S, WAVES_S, WATCHED_S = 1800.0, WARM_S + 1800.0, 300.0, 5400.0
CANARY_SHARE = 0.25
LATER = 1.3
"""A fault that comes when the change has been watched."""


def promotions(source: Lap, count: int, seed: int) -> None:
    """Rollouts by which prefill gets slower, up to half as long again, each with the verdict that measured it."""
    paged, delays = 0, []
    for trial in range(count):
        random = np.random.default_rng((seed, 50, trial))
        rate, factor = float(random.choice([5.0, 20.0])), float(random.uniform(1.1, 1.5))
        change = Fault(PROMOTING_S, factor, ramp_s=WAVES_S)
        fault = Fault(PROMOTING_S + WATCHED_S, LATER)
        world = World(shape("easy", rate), source, (seed, 51, trial), (change, fault))
        judged = World(shape("easy", rate), source, (seed, 52, trial)).chunks(JUDGED_S)
        records = _records(_rollout(trial + 1, next(judged).pool(METRIC).sum(axis=0), factor, random))
        raised = followed(METHOD, world.chunks(fault.at_s + HOUR_S), records=records).raised
        paged += any(at_s <= fault.at_s for at_s in raised)
        delays += [min((at_s - fault.at_s for at_s in raised if at_s > fault.at_s), default=HOUR_S)]
        print(f"<!-- {trial + 1} rollouts, {paged} paged, then a fault after {delays[-1]:.0f} s -->", flush=True)
    print(f"\n{count} promoted rollouts (prefill x1.1 to x1.5, at 5 and 20/s), watched for {WATCHED_S:.0f} s:")
    print(
        f"{paged} page{_bound(paged, count)}; then x{LATER:g}: median {statistics.median_high(delays):.0f} s,", end=" "
    )
    print(f"{sum(one >= HOUR_S for one in delays)} missed within an hour", flush=True)


def surges(source: Lap, count: int, seed: int) -> None:
    """An hour of 2.2 times the load: waiting grows, what the engine does takes as long as ever."""
    begin = WARM_S + 1200.0

    def world(rate: float, trial: int) -> World:
        return World(shape("easy", rate), source, (seed, 60, trial), surge=(begin, begin + HOUR_S, 2.2))

    _watched(f"{count} surges (load x2.2 for an hour)", world, count, begin + 1.5 * HOUR_S)


def mixes(source: Lap, count: int, seed: int) -> None:
    """From one moment on twice the share of prompts over 2k tokens, for short ones stay away."""
    share = float((source.prompts > 2048).mean())
    kept = (1.0 - 2.0 * share) / (2.0 * (1.0 - share))
    begin = WARM_S + 1200.0

    def world(rate: float, trial: int) -> World:
        return World(shape("easy", rate), source, (seed, 61, trial), mix=(begin, kept))

    _watched(f"{count} changed mixes (long prompts doubled)", world, count, begin + HOUR_S)


def _watched(what: str, world: Callable[[float, int], World], count: int, end: float) -> None:
    """How many page, be it before it happened, by each method; each is told as it is seen."""
    for method in ("product, prefill", "product, ttft"):
        paged = 0
        for trial in range(count):
            rate = (5.0, 20.0)[trial % 2]
            paged += bool(followed(method, world(rate, trial).chunks(end), first_only=True).raised)
            print(f"<!-- {what}, {method}: {paged} of {trial + 1} page -->", flush=True)
        print(f"{what}, {method}: {paged} page{_bound(paged, count)}", flush=True)


def _bound(count: int, of: int) -> str:
    return f" (at most {min(100.0, 100.0 * interval(count)[1] / of):.0f} % at 95 %)"


def _rollout(number: int, usual: Ints, factor: float, random: np.random.Generator) -> list[LedgerEntry]:
    """What the ledger holds of it, as its store writes it; usual: int64[axis], what the pool served while it judged."""
    canary = random.binomial(usual, CANARY_SHARE)
    arms = {"control": _quantiles(usual - canary, 1.0), "canary": _quantiles(canary, factor)}
    told: dict[str, Any] = {"verdict": "not_worse", "previous_revision": 1, "revision": 2, "canary_nodes": ["gpu-1"]}
    told["judging"] = {"metrics": {METRIC: arms}}
    begun_s = PROMOTING_S - JUDGED_S
    steps = [("created", begun_s, {"spec": {"pool": POOL, "revision": 2}}), ("canary", begun_s, told)]
    steps += [("judging", begun_s + 30.0, told), ("promoting", PROMOTING_S, told)]
    steps += [("promoted", PROMOTING_S + WAVES_S, told)]
    return [
        LedgerEntry(
            id=place + 1,
            time=datetime.fromtimestamp(at_s, UTC),
            actor="tailwright",
            kind=f"rollout.{verb}",
            subject=f"rollout/{number}",
            message="",
            evidence=evidence,
        )
        for place, (verb, at_s, evidence) in enumerate(steps)
    ]


def _quantiles(counts: Ints, factor: float) -> dict[str, float]:
    p50, p95, p99 = (factor * value for value in Sketch(counts=counts).quantiles([0.5, 0.95, 0.99]))
    return {"count": int(counts.sum()), "p50": p50, "p95": p95, "p99": p99}


def _records(entries: Sequence[LedgerEntry]) -> list[tuple[float, PoolRecord]]:
    """What is known of the pool from each entry on."""
    found = []
    for place, entry in enumerate(entries):
        change = changes_of(entries[: place + 1], [METRIC]).get(POOL)
        if change is not None:
            record = PoolRecord({}, tuple(change.taken_back), change.moves, change.on_trial, tuple(change.changing))
            found.append((entry.time.timestamp(), record))
    return found
