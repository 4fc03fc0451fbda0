"""Many windows' histograms of one prompt bucket, end to end in flat arrays: hours are counted and scored at once. Pure.

Guarantee: what is counted is exact, as window by window.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.material import Tail
from controlplane.contract.histogram import AXIS_LENGTH, RELATIVE_ERROR
from controlplane.evidence.sketch import Sketch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class StackedTails:
    """places: int64[n], which of the windows hold anything of the bucket; counts: int64[n], their requests; lows,
    sizes, starts: int64[n], where each histogram begins on the axis, how wide it is, and where it lies in `flat`."""

    places: Ints
    counts: Ints
    lows: Ints
    sizes: Ints
    starts: Ints
    flat: Ints
    relative_error: float

    @classmethod
    def of(cls, places: Sequence[int], tails: Sequence[Tail]) -> "StackedTails":
        sizes = np.array([one.tail.size for one in tails], dtype=np.int64)
        return cls(
            np.array(places, dtype=np.int64),
            np.array([one.count for one in tails], dtype=np.int64),
            np.array([one.low for one in tails], dtype=np.int64),
            sizes,
            np.cumsum(sizes) - sizes,
            np.concatenate([one.tail for one in tails]),
            max([RELATIVE_ERROR, *{one.relative_error for one in tails}]),
        )

    def among(self, is_kept: Flags) -> "StackedTails":
        """Of some of the windows: bool[windows]."""
        mine = is_kept[self.places]
        places = (np.cumsum(is_kept) - 1)[self.places[mine]]
        sizes = self.sizes[mine]
        flat = self.flat[np.repeat(mine, self.sizes)]
        starts = np.cumsum(sizes) - sizes
        return StackedTails(places, self.counts[mine], self.lows[mine], sizes, starts, flat, self.relative_error)

    def above(self, position: int) -> Ints:
        """As `Tail.above`, of each."""
        place = np.maximum(position + 1 - self.lows, 0)
        inside = place < self.sizes
        found = np.zeros(self.sizes.size, dtype=np.int64)
        found[inside] = self.flat[(self.starts + place)[inside]]
        return found

    @property
    def merged(self) -> Sketch:
        """All together."""
        positions, counts = self._cells()
        whole = np.bincount(positions, weights=counts, minlength=AXIS_LENGTH).astype(np.int64)
        zero = int(self.counts.sum()) - int(whole.sum())
        return Sketch(counts=whole, zero_count=zero, relative_error=self.relative_error)

    def scored(self, tables: Floats) -> tuple[Ints, Floats]:
        """How many requests of each are on the axis, int64[n], and the sums of their scores, float64[tables, n].

        tables: float64[tables, axis], the score at each position.
        """
        positions, counts = self._cells()
        some = self.sizes > 0
        found = np.zeros((len(tables), self.sizes.size))
        on_axis = np.zeros(self.sizes.size, dtype=np.int64)
        if some.any():
            found[:, some] = np.add.reduceat(tables[:, positions] * counts, self.starts[some], axis=1)
            on_axis[some] = self.flat[self.starts[some]]
        return on_axis, found

    def _cells(self) -> tuple[Ints, Ints]:
        """Each bucket of each histogram: its position on the axis, and how many it holds."""
        positions = np.arange(self.flat.size) + np.repeat(self.lows - self.starts, self.sizes)
        counts = self.flat.copy()
        counts[:-1] -= self.flat[1:]
        ends = (self.starts + self.sizes - 1)[self.sizes > 0]
        counts[ends] = self.flat[ends]
        return positions, counts


@dataclass(frozen=True)
class Stack:
    """A metric's histograms in so many windows; buckets: by prompt bucket, in the order of their names."""

    metric: str
    windows: Sequence[Window]
    buckets: Mapping[str, StackedTails]

    @classmethod
    def of(cls, windows: Sequence[Window], metric: str) -> "Stack":
        found: dict[str, tuple[list[int], list[Tail]]] = {}
        for place, window in enumerate(windows):
            for name, tail in window.tails.get(metric, {}).items():
                places, tails = found.setdefault(name, ([], []))
                places.append(place)
                tails.append(tail)
        return cls(metric, windows, {name: StackedTails.of(*found[name]) for name in sorted(found)})

    def among(self, is_kept: Flags) -> "Stack":
        """Some of the windows: bool[windows]; a bucket of which nothing is left is absent."""
        windows = [window for window, kept in zip(self.windows, is_kept, strict=True) if kept]
        kept = {name: one.among(is_kept) for name, one in self.buckets.items()}
        return Stack(self.metric, windows, {name: one for name, one in kept.items() if one.places.size})

    @property
    def has_any(self) -> Flags:
        """bool[windows]: those that hold the metric at all."""
        found = np.zeros(len(self.windows), dtype=bool)
        for one in self.buckets.values():
            found[one.places] = True
        return found
