"""The same values as a Prometheus client would expose them: classic histograms with prometheus_client's 15 buckets.

Pure. Buckets of the fine axis count where their upper edge belongs; raw values count exactly.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Histogram

from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, SCALE

BOUNDS: tuple[float, ...] = tuple(Histogram.DEFAULT_BUCKETS)
"""15, the last infinite."""
LE = tuple("+Inf" if bound == float("inf") else repr(bound) for bound in BOUNDS)


def of_axis(low: int, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """counts[..., width] from axis position `low` to cumulative [..., 15]."""
    edges = np.exp2((np.arange(AXIS_LENGTH) + AXIS_MIN + 1) / 2**SCALE)
    columns = np.clip(np.arange(counts.shape[-1]) + low, 0, AXIS_LENGTH - 1)
    place = np.searchsorted(BOUNDS, edges[columns], side="left")
    found = np.zeros((*counts.shape[:-1], len(BOUNDS)), np.int64)
    for bucket in range(len(BOUNDS)):
        found[..., bucket] = counts[..., place == bucket].sum(axis=-1)
    return found.cumsum(axis=-1)


def of_values(values: NDArray[np.float64], owner: NDArray[np.int64], owners: int) -> NDArray[np.int64]:
    """Cumulative [owners, 15] of raw values; `owner` says whose each value is."""
    place = np.searchsorted(BOUNDS, values, side="left")
    counts = np.bincount(owner * len(BOUNDS) + place, minlength=owners * len(BOUNDS))
    found: NDArray[np.int64] = counts.reshape(owners, len(BOUNDS)).cumsum(axis=1)
    return found


def prometheus_name(name: str) -> str:
    return name.replace(".", "_") + "_seconds"


def labels_text(labels: dict[str, str]) -> str:
    """The labels as they stand between braces, label names as Prometheus allows them."""
    return ",".join(f'{name.replace(".", "_")}="{value}"' for name, value in labels.items())


def histogram_lines(name: str, labels: str, cumulative: Sequence[int], total: float) -> Iterator[str]:
    """The 17 lines of one histogram in the text format."""
    for le, count in zip(LE, cumulative, strict=True):
        yield f'{name}_bucket{{{labels},le="{le}"}} {count}\n'
    yield f"{name}_sum{{{labels}}} {total!r}\n"
    yield f"{name}_count{{{labels}}} {cumulative[-1]}\n"
