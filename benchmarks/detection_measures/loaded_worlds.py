"""Worlds as a pool's load: what is served, what waits and what runs, tick by tick; and worlds whose mix changes."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection_measures.arrivals import Floats, Ints, Traffic
from benchmarks.detection_measures.worlds import BUCKET_TOPS, BUCKETS, Chunk, World
from controlplane.alerts.queueing.pool_load import PoolLoad
from controlplane.contract.metrics import WINDOW_S

Minutes = NDArray[np.uint16]
"""First tokens: uint16[minutes, buckets, axis]."""
MINUTE = 12


@dataclass
class LoadedWorld(World):
    """mix: from a second on short prompts are kept with this probability, so that long ones are more of the requests.

    `run` gives the first tokens by minute and the whole load.
    """

    mix: tuple[float, float] | None = None
    _seen: list[tuple[Floats, Ints, Floats, Floats]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mix is not None:
            self._traffic = _Mixed(self._traffic, *self.mix, self._random)  # type: ignore[assignment]

    def note(self, at: Floats, prompts: Ints, service: Floats, waiting: Floats) -> None:
        self._seen.append((at, prompts, service, waiting))

    def run(self, until_s: float) -> tuple[Minutes, PoolLoad]:
        minutes = [_by_minute(chunk) for chunk in self.chunks(until_s)]
        at, prompts, service, waiting = (np.concatenate(parts) for parts in zip(*self._seen, strict=True))
        ticks = round(until_s / WINDOW_S)
        begun, ended = at + waiting, at + waiting + service
        edges = WINDOW_S * np.arange(1, ticks + 1)
        came, started, done = (np.searchsorted(np.sort(one), edges, "right") for one in (at, begun, ended))
        tick = np.minimum((ended / WINDOW_S).astype(np.int64), ticks)
        bucket = np.searchsorted(BUCKET_TOPS, prompts)
        by_bucket = {
            name: np.bincount(tick[bucket == place], minlength=ticks + 1)[:ticks].astype(np.float64)
            for place, name in enumerate(BUCKETS)
        }
        load = PoolLoad(
            0.0,
            WINDOW_S,
            np.bincount(tick, minlength=ticks + 1)[:ticks].astype(np.float64),
            np.bincount(tick, weights=prompts, minlength=ticks + 1)[:ticks],
            (came - started).astype(np.float64),
            (started - done).astype(np.float64),
            np.full(ticks, float(self.shape.nodes)),
            {name: one for name, one in by_bucket.items() if one.any()},
        )
        return np.concatenate(minutes), load


def _by_minute(chunk: Chunk) -> Minutes:
    whole = chunk.ttft[: chunk.ttft.shape[0] // MINUTE * MINUTE]
    return np.asarray(whole.reshape(-1, MINUTE, *whole.shape[1:]).sum(axis=1), dtype=np.uint16)


class _Mixed:
    """Traffic in which short prompts are fewer from a second on."""

    def __init__(self, traffic: Traffic, at_s: float, kept: float, random: np.random.Generator) -> None:
        self._traffic, self._at_s, self._kept, self._random = traffic, at_s, kept, random

    def until(self, end_s: float) -> tuple[Floats, Ints]:
        at, prompts = self._traffic.until(end_s)
        stays = (at < self._at_s) | (prompts > BUCKET_TOPS[2]) | (self._random.random(at.size) < self._kept)
        return at[stays], prompts[stays]


def windows_of(load: PoolLoad, first: int, back: int) -> Iterator[tuple[int, PoolLoad]]:
    """Each tick from `first` on, with what was known then: at most so many ticks back."""
    for stop in range(first + 1, len(load) + 1):
        start = max(0, stop - back)
        yield (
            stop,
            PoolLoad(
                load.start_s + start * load.step_s,
                load.step_s,
                *(one[start:stop] for one in (load.served, load.tokens, load.waiting, load.running, load.nodes)),
                {name: one[start:stop] for name, one in load.by_bucket.items()},
            ),
        )
