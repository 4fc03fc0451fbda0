"""Rivals on equal terms: what each says of a world, and the threshold at which it is as quiet as is wanted."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection_measures.fast_forward import REST_S, WARM_S
from benchmarks.detection_measures.rivals import PAST_TICKS, RIVALS
from benchmarks.detection_measures.worlds import Chunk
from controlplane.contract.metrics import WINDOW_S

Floats = NDArray[np.float64]

REST_TICKS = round(REST_S / WINDOW_S)
BISECTIONS = 40


@dataclass(frozen=True)
class Said:
    """What rivals say of a world, tick by tick from `WARM_S` on: float64[ticks] by rival."""

    numbers: Mapping[str, Floats]

    @classmethod
    def of(cls, chunks: Iterable[Chunk], metric: str, names: Sequence[str] = tuple(RIVALS)) -> "Said":
        past = np.zeros((0, 0), dtype=np.int64)
        said: dict[str, list[Floats]] = {name: [] for name in names}
        for chunk in chunks:
            fresh = chunk.pool(metric)
            recent = np.concatenate([past, fresh]) if past.size else fresh
            if chunk.start_s >= WARM_S:
                used = np.flatnonzero(recent.any(axis=0))
                part = slice(int(used[0]), int(used[-1]) + 1)
                usual, seen = past[:, part].sum(axis=0), recent[:, part]
                for name in names:
                    said[name].append(RIVALS[name](usual, seen, fresh.shape[0]))
            past = recent[-PAST_TICKS:]
        return cls({name: np.concatenate(parts) for name, parts in said.items()})


def alarms(numbers: Floats, threshold: float) -> list[float]:
    """The seconds after `WARM_S` at which it alarms; after an alarm it is silent for `REST_S`."""
    found, quiet_until = [], 0
    for tick in np.flatnonzero(numbers >= threshold):
        if tick >= quiet_until:
            found.append((float(tick) + 1.0) * WINDOW_S)
            quiet_until = int(tick) + REST_TICKS
    return found


def quiet_threshold(numbers: Sequence[Floats], most: int) -> float:
    """The least threshold, by bisection, at which no more than `most` alarms are raised over all of these nulls."""
    known = np.concatenate([one[np.isfinite(one)] for one in numbers])
    low, high = float(known.min()), float(known.max()) * (1.0 + 1e-9) + 1e-9
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        is_quiet = sum(len(alarms(one, middle)) for one in numbers) <= most
        low, high = (low, middle) if is_quiet else (middle, high)
    return high


def delay(numbers: Floats, threshold: float, fault_s: float) -> float:
    """Seconds from a fault, `fault_s` after `WARM_S`, to the first alarm; infinite where it came before, or never."""
    found = alarms(numbers, threshold)
    late = found[0] - fault_s if found else math.inf
    return late if late > 0.0 else math.inf
