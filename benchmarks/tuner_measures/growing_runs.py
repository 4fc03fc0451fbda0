"""How early a hopeless run of a search ends: by its bounds, which are exact (tuner/replay/lost_cause.py), by the slopes
of queue and TTFT, and by either. Simulated engines with known, steady steps serve Poisson traffic at ever more load.

A slope is told by Mann and Kendall's test on what each arrival finds under way, and on how long requests waited that
have their first token, in the order of their arrival; five together, looked at with every fifth arrival from the
twentieth on; both have to be beyond `z`. (Waits that still last say that the newest are the shortest.)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.knobs import parse_config
from tests.tuner.served_pool import SHAPE, TRUTH, traffic
from tuner.replay.lost_cause import above_wanted
from tuner.twin.dealt_traffic import Scale, dealt
from tuner.twin.simulated_engine import SimulatedEngine
from tuner.workload.rescale import scale_rate

Floats = NDArray[np.float64]
LOADS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0)
"""Times three requests a second."""
SEATS, MANY_SEATS = 4, 16
Q, BATCH, FIRST, FEWEST_BATCHES = 0.95, 5, 20, 4
TIGHT, LOOSE = 1.5, 10.0
"""Bounds, in times the TTFT p95 of many seats at little load: of an objective, and of a limit far off."""
HEAD = (
    "| load | TTFT p95 beyond the tight bound | tight bound | and slopes | loose bound | and slopes | slopes alone "
    "| ended by slopes |\n|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Run:
    """Seconds of its requests, in the order of arrival; the first `lead_in` are in no quantile."""

    arrived: Floats
    ttft: Floats
    ended: Floats
    lead_in: int

    @property
    def whole_s(self) -> float:
        return float(self.ended.max())

    def p95(self) -> float:
        return float(np.quantile(self.ttft[self.lead_in :], Q))

    def lost_at(self, bound_s: float) -> float:
        """When so many have waited longer that the quantile will be above it; its end, if never."""
        late = np.sort((self.arrived + bound_s)[self.lead_in :][self.ttft[self.lead_in :] > bound_s])
        wanted = above_wanted(len(self.ttft) - self.lead_in, Q)
        return min(float(late[wanted - 1]), self.whole_s) if len(late) >= wanted else self.whole_s

    def grew_at(self, z: float) -> float:
        """When both slopes were beyond z; its end, if never."""
        for count in range(self.lead_in + FIRST, len(self.arrived), BATCH):
            now = self.arrived[count]
            found = np.array([(self.ended[:at] > self.arrived[at]).sum() for at in range(count)], dtype=float)
            waited = self.ttft[:count][self.arrived[:count] + self.ttft[:count] <= now]
            if min(slope_z(batches(found)), slope_z(batches(waited))) > z:
                return min(float(now), self.whole_s)
        return self.whole_s


def batches(values: Floats) -> Floats:
    count = len(values) // BATCH
    return np.asarray(values[: count * BATCH].reshape(count, BATCH).mean(axis=1))


def slope_z(values: Floats) -> float:
    """Mann and Kendall's statistic, corrected for ties; above 0: they rise."""
    n = len(values)
    if n < FEWEST_BATCHES:
        return 0.0
    score = float(np.sign(values[None, :] - values[:, None])[np.triu_indices(n, 1)].sum())
    _, ties = np.unique(values, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - (ties * (ties - 1) * (2 * ties + 5)).sum()) / 18
    return (score - math.copysign(min(1.0, abs(score)), score)) / math.sqrt(variance) if variance > 0 else 0.0


def served(seed: int, load: float, seats: int, requests: int) -> Run:
    workload = scale_rate(traffic(seed, requests + requests // 5, 3.0), load)
    ((_, arrivals),) = dealt(workload, 1, Scale(), seed)
    config = parse_config({"max_num_batched_tokens": 256, "max_num_seqs": seats})
    stories = SimulatedEngine(SHAPE, config, TRUTH).run(arrivals)
    arrived, first, ended = (
        np.array([getattr(one, name) for one in stories], dtype=float)
        for name in ("arrived_s", "first_token_s", "ended_s")
    )
    return Run(arrived, first - arrived, ended, requests // 5)


def measure(seeds: int, requests: int, z: float) -> None:
    """A row a load: means of the share of its time that a run takes, and shares of runs."""
    best = float(np.median([served(1000 + seed, 0.5, MANY_SEATS, requests).p95() for seed in range(10)]))
    print(f"\n{requests} requests, {SEATS} seats, {seeds} seeds, slopes beyond z = {z:g}\n\n{HEAD}")
    for load in LOADS:
        runs = [served(seed, load, SEATS, requests) for seed in range(seeds)]

        def taken(ended_at: Callable[[Run], float], of: list[Run] = runs) -> Floats:
            return np.array([ended_at(run) / run.whole_s for run in of])

        tight, loose = (taken(lambda run, b=times * best: run.lost_at(b)) for times in (TIGHT, LOOSE))  # type: ignore[misc]
        slopes = taken(lambda run: run.grew_at(z))
        shares = (tight, np.minimum(tight, slopes), loose, np.minimum(loose, slopes), slopes)
        above = np.mean([run.p95() > TIGHT * best for run in runs])
        told = " | ".join(f"{100 * one.mean():.0f} %" for one in shares)
        print(f"| {load:g} | {100 * above:.0f} % | {told} | {100 * (slopes < 1).mean():.0f} % |", flush=True)
