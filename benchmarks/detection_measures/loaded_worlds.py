"""Worlds as a pool's load: what is served, what waits and what runs, tick by tick."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection_measures.arrivals import Floats, Ints
from benchmarks.detection_measures.worlds import BUCKET_TOPS, BUCKETS, Chunk, World
from controlplane.alerts.queueing.pool_load import PoolLoad
from controlplane.contract.metrics import WINDOW_S

Minutes = NDArray[np.uint16]
"""First tokens: uint16[minutes, buckets, axis]."""
MINUTE = 12


@dataclass
class LoadedWorld(World):
    """`run` gives the first tokens by minute and the whole load."""

    _counted: dict[str, Floats] = field(default_factory=dict)

    def note(self, at: Floats, prompts: Ints, service: Floats, waiting: Floats) -> None:
        begun, ended = at + waiting, at + waiting + service
        self._count("came", at)
        self._count("started", begun)
        self._count("ended", ended)
        self._count("tokens", ended, prompts.astype(np.float64))
        bucket = np.searchsorted(BUCKET_TOPS, prompts)
        for place, name in enumerate(BUCKETS):
            if (mine := bucket == place).any():
                self._count(name, ended[mine])

    def run(self, until_s: float) -> tuple[Minutes, PoolLoad]:
        ticks = round(until_s / WINDOW_S)
        self._counted = {name: np.zeros(ticks + 1) for name in ("came", "started", "ended", "tokens", *BUCKETS)}
        minutes = [_by_minute(chunk) for chunk in self.chunks(until_s)]
        counted = {name: one[:ticks] for name, one in self._counted.items()}
        came, started, ended = (np.cumsum(counted[name]) for name in ("came", "started", "ended"))
        load = PoolLoad(
            0.0,
            WINDOW_S,
            counted["ended"],
            counted["tokens"],
            came - started,
            started - ended,
            np.full(ticks, float(self.shape.nodes)),
            {name: counted[name] for name in BUCKETS if counted[name].any()},
        )
        return np.concatenate(minutes), load

    def _count(self, name: str, at_s: Floats, weights: Floats | None = None) -> None:
        """By tick; the last place holds what comes after the end."""
        ticks = self._counted[name].size
        tick = np.minimum((at_s / WINDOW_S).astype(np.int64), ticks - 1)
        self._counted[name] += np.bincount(tick, weights, ticks)


def _by_minute(chunk: Chunk) -> Minutes:
    whole = chunk.ttft[: chunk.ttft.shape[0] // MINUTE * MINUTE]
    return np.asarray(whole.reshape(-1, MINUTE, *whole.shape[1:]).sum(axis=1), dtype=np.uint16)


def windows_of(load: PoolLoad, first: int, back: int) -> Iterator[PoolLoad]:
    """At each tick from `first` on what was known then: at most so many ticks back."""
    for stop in range(first + 1, len(load) + 1):
        yield load.between(max(0, stop - back), stop)
