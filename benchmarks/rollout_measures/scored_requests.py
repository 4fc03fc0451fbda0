"""Requests of a pool put straight to the judge's comparison, as the windows of their sketches would be, only sooner."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection_measures.worlds import BUCKETS
from benchmarks.rollout_measures.canary_pool import CLASSES, Floats, Ints, Requests
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MAX, AXIS_MIN, SCALE
from controlplane.rollouts.judging.score_sums import Scored, Yardstick

STRATA = tuple(f"{bucket} {one}" for bucket in BUCKETS for one in CLASSES)


def places(values_s: Floats) -> Ints:
    """Positions on the axis."""
    found = np.ceil(np.log2(np.maximum(values_s, 1e-9)) * 2**SCALE).astype(np.int64) - 1
    return np.asarray(np.clip(found, AXIS_MIN, AXIS_MAX) - AXIS_MIN)


@dataclass(frozen=True)
class Placed:
    """One metric of the requests of some ticks; mine: bool[n], whether the canary's."""

    ticks: int
    tick: Ints
    stratum: Ints
    place: Ints
    mine: Ints

    @classmethod
    def of(cls, found: Requests, values_s: Floats, ticks: int, mine: NDArray[np.bool_]) -> "Placed":
        return cls(ticks, found.tick, found.stratum, places(values_s), mine.astype(np.int64))

    def usual(self) -> dict[str, Ints]:
        flat = np.bincount(self.stratum * AXIS_LENGTH + self.place, minlength=len(STRATA) * AXIS_LENGTH)
        counts = flat.reshape(len(STRATA), AXIS_LENGTH)
        return {name: counts[place] for place, name in enumerate(STRATA) if counts[place].any()}

    def scored(self, yardstick: Yardstick) -> Scored:
        strata = yardstick.strata
        among = np.array([strata.index(name) if name in strata else -1 for name in STRATA])[self.stratum]
        kept = among >= 0
        cell = ((self.mine * self.ticks + self.tick) * len(strata) + among)[kept]
        shape = (2, self.ticks, len(strata))
        size = 2 * self.ticks * len(strata)
        counts = np.bincount(cell, minlength=size).reshape(shape).astype(np.float64)
        tables = np.array(yardstick.tables)
        scores, squares = {}, {}
        for number, kind in enumerate(yardstick.kinds):
            value = tables[among[kept], number, self.place[kept]]
            sums = np.bincount(cell, value, minlength=size).reshape(shape)
            scores[kind] = (sums[0], sums[1])
            squares[kind] = np.bincount(among[kept], value**2, minlength=len(strata)).astype(np.float64)
        return Scored(strata, (counts[0], counts[1]), scores, squares)
