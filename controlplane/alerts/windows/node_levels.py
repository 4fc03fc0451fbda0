"""What the requests of each node took in one window, kept small: what nodes are compared by. Pure.

Kept are, by node and prompt bucket, how many requests there were and the first two moments of the logarithm of their
latency. A request counts as no further than `REACH_BUCKETS` from the middle of the pool's in its window and prompt
bucket, so that a few stray ones do not speak for a node. Requests too quick for the axis are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import AXIS_MIN, BASE, SCALE
from controlplane.contract.metrics import ITL, PREFILL, TPOT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Keys = tuple[tuple[str, str], ...]

BY_NODE = frozenset({PREFILL.short, ITL.short, TPOT.short})
"""The metrics that are kept by node: what takes time, freed of waiting, which one node may do more of than another. Of
drafts that one node's requests lose no gap between deliveries tells, and no quantile in the pool's tail, where those
are that have none: their time per token does."""
FEWEST_NODES, MOST_NODES = 2, 32
"""Pools with more nodes are not compared node by node: it would cost more than all else."""
REACH_BUCKETS = 3 * 2**SCALE
"""Eight times as slow, or as quick."""


@dataclass(frozen=True)
class NodeLevels:
    """keys: node and prompt bucket; figures: float64[3, keys], requests, the sum of ln of their seconds, and that of
    its squares."""

    keys: Keys
    figures: Floats

    @classmethod
    def of(cls, keys: Sequence[tuple[str, str]], low: int, counts: Ints) -> "NodeLevels":
        """counts: int64[keys, width], from axis position `low` on."""
        places = np.arange(counts.shape[1])
        figures = np.zeros((3, len(keys)))
        buckets = [bucket for _, bucket in keys]
        for bucket in set(buckets):
            rows = [row for row, name in enumerate(buckets) if name == bucket]
            mine = counts[rows]
            below = np.cumsum(mine.sum(axis=0))
            if not below.size or not below[-1]:
                continue
            middle = int(np.searchsorted(below, below[-1] / 2.0))
            held = np.clip(places, middle - REACH_BUCKETS, middle + REACH_BUCKETS)
            logs = (held + low + AXIS_MIN + 0.5) * log(BASE)
            figures[:, rows] = (mine @ np.stack([np.ones_like(logs), logs, logs**2], axis=1)).T
        return cls(_known(tuple(keys)), figures)


@lru_cache(maxsize=4096)
def _known(keys: Keys) -> Keys:
    """The same object each time: hours of windows share it."""
    return keys
