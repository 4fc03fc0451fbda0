"""Columns with the nodes summed: for the fleet's own frames, and for queries that do not ask for nodes (pure)."""

from dataclasses import replace

import numpy as np

from controlplane.telemetry.frames.block import HistogramBlock
from controlplane.telemetry.frames.frame_store import FrameKey
from controlplane.telemetry.frames.gather import fleet_blocks
from controlplane.telemetry.values.columns import Columns, HistogramRows, Ids, Ints, NumberRows, concatenate


def summed(columns: Columns, histograms: Ids, sums: Ids) -> Columns:
    """One row for each window, metric and fleet label set; `histograms`, `sums`: the fleet set of each row.

    Gauges are left out: a mean over nodes needs each node's own value.
    """
    of_fleet = Columns(
        replace(columns.histograms, labels=histograms), replace(columns.sums, labels=sums), NumberRows.empty()
    )
    parts = []
    for key, block in fleet_blocks(of_fleet):
        if isinstance(block, HistogramBlock):
            parts.append(Columns(_histograms(key, block), NumberRows.empty(), NumberRows.empty()))
        else:
            n = len(block)
            rows = NumberRows(_full(n, key.window), _ids(n, key.metric), block.labels, block.value, block.time_ns)
            parts.append(Columns(HistogramRows.empty(), rows, NumberRows.empty()))
    return concatenate(parts) if parts else Columns.empty()


def _histograms(key: FrameKey, block: HistogramBlock) -> HistogramRows:
    n, width = block.counts.shape
    return HistogramRows(
        _full(n, key.window),
        _ids(n, key.metric),
        block.labels,
        _ids(n, block.low),
        _ids(n, width),
        block.counts.reshape(-1),
        block.zero,
        block.total,
        block.minimum,
        block.maximum,
        block.error,
    )


def _full(n: int, value: int) -> Ints:
    return np.full(n, value, np.int64)


def _ids(n: int, value: int) -> Ids:
    return np.full(n, value, np.int32)
