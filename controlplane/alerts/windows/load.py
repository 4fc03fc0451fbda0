"""How hard a node works, as the baseline sees it: a smoothed rate of arrivals per node, in log-spaced bins.

Latency rises with load, so a busy hour is compared with busy hours. Arrivals are finished requests plus the growth of
those in flight: when an engine slows down or a crowd waits outside, the finished ones alone tell a lie.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from controlplane.contract.metrics import WINDOW_S

TAU_S = 30.0
NODE_MEMORY_S = 60.0
"""A node counts as part of the pool for so long after its last report."""
BIN_FACTOR = 1.2
LOWEST_RATE = 0.01


def load_bin(rate: float) -> int:
    """The bin of a rate in requests per second and node: each is `BIN_FACTOR` times as wide as the one below."""
    return math.floor(math.log(max(rate, LOWEST_RATE)) / math.log(BIN_FACTOR))


@dataclass
class LoadMeter:
    """An exponentially weighted mean of arrivals, with its start-up bias divided out."""

    _level: float = 0.0
    _weight: float = 0.0
    _seen_s: dict[str, float] = field(default_factory=dict)
    _in_flight: dict[str, float] = field(default_factory=dict)

    def keep(self, nodes: Collection[str]) -> None:
        """From now on only these are counted; what the level holds of the others goes with them."""
        kept = {node: seen for node, seen in self._seen_s.items() if node in nodes}
        if kept and len(kept) < len(self._seen_s):
            self._level *= len(kept) / len(self._seen_s)
            self._seen_s = kept
            self._in_flight = {node: value for node, value in self._in_flight.items() if node in nodes}

    def push(self, start_s: float, finished: Mapping[str, int], in_flight: Mapping[str, float]) -> float:
        """Take in one window, `WINDOW_S` after the one before; returns requests per second and node."""
        for node in (*finished, *in_flight):
            self._seen_s[node] = start_s
        self._seen_s = {node: seen for node, seen in self._seen_s.items() if start_s - seen <= NODE_MEMORY_S}
        if not self._seen_s:  # Nobody reports: what comes after starts afresh.
            self._level = self._weight = 0.0
            self._in_flight.clear()
            return 0.0
        growth = sum(value - self._in_flight.get(node, value) for node, value in in_flight.items())
        self._in_flight.update(in_flight)
        arrivals = max(0.0, sum(finished.values()) + growth)
        keep = math.exp(-WINDOW_S / TAU_S)
        self._level = keep * self._level + (1.0 - keep) * arrivals / WINDOW_S
        self._weight = keep * self._weight + (1.0 - keep)
        return self._level / self._weight / len(self._seen_s)
