"""What reading nodes from the store costs: a window of many pools, of a metric whose nodes are compared and of another.

    python -m benchmarks.detection_measures.nodes_read [--pools 12] [--windows 24] [--seed 1]

Seconds a token are read by prompt bucket and by node and bucket, whole requests by prompt bucket alone; both are of as
many requests. Pools are of four nodes at ten requests a second.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.attribution_measures.simulated_pool import NODES, RATE, World
from benchmarks.attribution_measures.told_service import START, Teller, ToldService, simulated_node
from controlplane.alerts.windows.material import read
from controlplane.contract.metrics import WINDOW_S

METRICS = ("tpot", "e2e")
FIRST = 6
"""Windows that nobody measures: pools fill up."""


def measure(pools: int, windows: int, seed: int) -> dict[str, float]:
    """Median processor seconds of reading one window of all pools, by metric."""
    names = [f"pool-{number}" for number in range(pools)]
    spent: dict[str, list[float]] = {metric: [] for metric in METRICS}
    with tempfile.TemporaryDirectory(prefix="nodes-read-") as folder:
        service = ToldService(Path(folder) / "service", seed, START.timestamp())
        service.tellers = [
            Teller(simulated_node(f"{name}-{node}", chance, service.now_s), chance, name)
            for name, chances in zip(names, np.random.default_rng(seed).spawn(pools), strict=True)
            for node, chance in zip(NODES, chances.spawn(len(NODES)), strict=True)
        ]
        for window in range(windows):
            service.serve(World(rate=RATE * pools), 1, judge=False)
            service.store.tick(service.now())
            # What any first question about a window pays is nobody's in particular.
            read(service.store, ["e2e"], {"pool": names}, service.now_s - WINDOW_S, service.now_s)
            for metric in METRICS if window >= FIRST else ():
                began = time.process_time()
                found = read(service.store, [metric], {"pool": names}, service.now_s - WINDOW_S, service.now_s)
                spent[metric].append(time.process_time() - began)
                assert len(found) == pools
                assert all(bool(one.nodes) is (metric == "tpot") for one in found.values())
        service.close()
    return {metric: median(each) for metric, each in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, default=12)
    parser.add_argument("--windows", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    found = measure(wanted.pools, wanted.windows, wanted.seed)
    nodes = wanted.pools * len(NODES)
    each_us = 1e6 * (found["tpot"] - found["e2e"]) / nodes
    print(", ".join(f"{metric}: {1e3 * seconds:.1f} ms" for metric, seconds in found.items()), end="; ")
    print(f"{each_us:.0f} us a node, metric and window, of {nodes} nodes")


if __name__ == "__main__":
    main()
