"""Blocks: the rows of one metric in one window, keyed by labels id, and their sums (pure).

Guarantee: counts are added exactly in types that hold them, whatever order blocks are merged in; a block's labels are
ascending and without repeats.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.values.columns import Floats, Ids, Ints

_TYPES = (np.uint8, np.uint16, np.uint32, np.uint64)


@dataclass(eq=False)
class HistogramBlock:
    """Histograms on the contract's axis, one row a label set.

    counts: unsigned[n, width], columns at axis positions low .. low + width - 1; error: relative error of a quantile.
    """

    labels: Ids
    low: int
    counts: NDArray[Any]
    zero: Ints
    total: Floats
    minimum: Floats
    maximum: Floats
    error: Floats

    kind = MetricKind.HISTOGRAM

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(eq=False)
class ScalarBlock:
    """Sums or gauges, one row a label set. time_ns: a gauge's instant; 0 for sums, of which nobody asks it."""

    labels: Ids
    value: Floats
    time_ns: Ints
    kind: MetricKind

    def __len__(self) -> int:
        return len(self.labels)


Block = HistogramBlock | ScalarBlock


def narrowest(largest: int) -> type[Any]:
    """The unsigned type that holds a number."""
    return next(kind for kind in _TYPES if largest <= np.iinfo(kind).max)


def merge(blocks: Sequence[Block]) -> Block:
    """The sum of blocks of one metric (at least one); of a gauge, each label set's latest value."""
    if len(blocks) == 1:
        return blocks[0]
    histograms = [block for block in blocks if isinstance(block, HistogramBlock)]
    if histograms:
        assert len(histograms) == len(blocks), "a metric has one kind"
        return merge_histograms(histograms)
    scalars = [block for block in blocks if isinstance(block, ScalarBlock)]
    kind = scalars[0].kind
    labels = np.concatenate([block.labels for block in scalars])
    value = np.concatenate([block.value for block in scalars])
    time_ns = np.concatenate([block.time_ns for block in scalars])
    order = np.argsort(labels, kind="stable")
    return collapse_scalars(ScalarBlock(labels[order], value[order], time_ns[order], kind))


def merge_histograms(blocks: Sequence[HistogramBlock]) -> HistogramBlock:
    """See `merge`."""
    low, width = _extent(blocks)
    dtype = narrowest(min(sum(int(block.counts.max(initial=0)) for block in blocks), 2**64 - 1))
    labels = blocks[0].labels
    if all(np.array_equal(block.labels, labels) for block in blocks[1:]):
        return _of_same_rows(blocks, low, np.zeros((len(labels), width), dtype))
    labels, inverse = np.unique(np.concatenate([block.labels for block in blocks]), return_inverse=True)
    n = len(labels)
    # Of nodes that report every 10 s each is in one of two windows of 5 s: then nothing is to be added up.
    apart = n == len(inverse)
    merged = HistogramBlock(
        labels.astype(np.int32, copy=False),
        low,
        np.zeros((n, width), dtype),
        np.zeros(n, np.int64),
        np.zeros(n),
        np.full(n, np.inf),
        np.full(n, -np.inf),
        np.zeros(n),
    )
    start = 0
    for block in blocks:
        rows = inverse[start : start + len(block)]
        start += len(block)
        if block.counts.shape[1]:
            columns = _columns(merged.counts, low, block)
            if apart:
                columns[rows] = block.counts
            else:
                columns[rows] += block.counts.astype(dtype, copy=False)
        merged.zero[rows] += block.zero
        merged.total[rows] += block.total
        merged.minimum[rows] = np.minimum(merged.minimum[rows], block.minimum)
        merged.maximum[rows] = np.maximum(merged.maximum[rows], block.maximum)
        merged.error[rows] = np.maximum(merged.error[rows], block.error)
    return merged


def _of_same_rows(blocks: Sequence[HistogramBlock], low: int, counts: NDArray[Any]) -> HistogramBlock:
    """The sum of blocks with the same labels; counts: zeros, from axis position `low` on, that hold it."""
    for block in blocks:
        if block.counts.shape[1]:
            columns = _columns(counts, low, block)
            np.add(columns, block.counts, out=columns, casting="same_kind")
    return HistogramBlock(
        blocks[0].labels,
        low,
        counts,
        np.add.reduce([block.zero for block in blocks]),
        np.add.reduce([block.total for block in blocks]),
        np.minimum.reduce([block.minimum for block in blocks]),
        np.maximum.reduce([block.maximum for block in blocks]),
        np.maximum.reduce([block.error for block in blocks]),
    )


def _columns(counts: NDArray[Any], low: int, block: HistogramBlock) -> NDArray[Any]:
    """Those of `counts`, which begin at axis position `low`, that a block has."""
    return counts[:, block.low - low : block.low - low + block.counts.shape[1]]


def collapse_histograms(block: HistogramBlock) -> HistogramBlock:
    """A block of ascending labels that may repeat, each label set's rows added up."""
    starts = _runs(block.labels)
    if len(starts) == len(block):
        return block
    longest = int(np.diff(np.append(starts, len(block))).max())
    dtype = narrowest(min(int(block.counts.max(initial=0)) * longest, 2**64 - 1))
    return HistogramBlock(
        block.labels[starts],
        block.low,
        np.add.reduceat(block.counts, starts, axis=0, dtype=dtype),
        np.add.reduceat(block.zero, starts),
        np.add.reduceat(block.total, starts),
        np.minimum.reduceat(block.minimum, starts),
        np.maximum.reduceat(block.maximum, starts),
        np.maximum.reduceat(block.error, starts),
    )


def collapse_scalars(block: ScalarBlock) -> ScalarBlock:
    """A block of ascending labels that may repeat: sums add up; of a gauge's rows the latest stays, of two at the
    same instant the one that comes later in the block."""
    starts = _runs(block.labels)
    if len(starts) == len(block):
        return block
    if block.kind is MetricKind.SUM:
        return replace(
            block,
            labels=block.labels[starts],
            value=np.add.reduceat(block.value, starts),
            time_ns=np.maximum.reduceat(block.time_ns, starts),
        )
    order = np.lexsort((np.arange(len(block)), block.time_ns, block.labels))
    keep = order[np.append(starts[1:], len(block)) - 1]
    return replace(block, labels=block.labels[keep], value=block.value[keep], time_ns=block.time_ns[keep])


def _runs(labels: Ids) -> NDArray[np.intp]:
    """Where each run of equal labels begins."""
    if not len(labels):
        return np.zeros(0, np.intp)
    return np.append(0, np.flatnonzero(labels[1:] != labels[:-1]) + 1)


def _extent(blocks: Sequence[HistogramBlock]) -> tuple[int, int]:
    """First position and width of what holds all blocks."""
    wide = [block for block in blocks if block.counts.shape[1]]
    if not wide:
        return 0, 0
    low = min(block.low for block in wide)
    return low, max(block.low + block.counts.shape[1] for block in wide) - low
