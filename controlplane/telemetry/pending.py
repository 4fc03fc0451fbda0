"""The log of points that are not in a frame yet: one row per commit and window (pure encoding).

A row holds a frame of its own for each metric and kind, not compressed, since it lives for half a minute: the time of a
report goes into its durability, not into its size. A JSON line before them says what they are.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import orjson

from controlplane.contract.metrics import MetricKind
from controlplane.telemetry import frame
from controlplane.telemetry.frame import HistogramBlock, ScalarBlock, merge_gauges, merge_histograms, merge_sums
from controlplane.telemetry.point import Point

Key = tuple[str, MetricKind]
Block = HistogramBlock | ScalarBlock
Row = tuple[int, list[Any]]
"""A series id and a point's values."""

_TYPES = ((255, "B"), (65_535, "H"), (2**32 - 1, "I"), (2**64 - 1, "Q"))


def encode(points: Iterable[tuple[int, Point]]) -> bytes:
    """Points of one window, each with its series id."""
    groups: dict[Key, list[Row]] = defaultdict(list)
    for series, point in points:
        groups[point.metric, point.kind].append((series, point.values))
    index, frames = [], []
    for (metric, kind), rows in groups.items():
        if kind is MetricKind.HISTOGRAM:
            data = frame.encode_histograms(_histograms(rows), plain=True)
        else:
            data = frame.encode_scalars(_scalars(rows, kind), plain=True)
        index.append((metric, kind.value, len(data)))
        frames.append(data)
    return b"".join([orjson.dumps(index), b"\n", *frames])


def decode(row: bytes) -> dict[Key, Block]:
    """One block per metric and kind."""
    at = row.index(b"\n") + 1
    blocks: dict[Key, Block] = {}
    for metric, name, size in orjson.loads(row[:at]):
        kind, data = MetricKind(name), row[at : at + size]
        at += size
        is_histogram = kind is MetricKind.HISTOGRAM
        blocks[metric, kind] = frame.decode_histograms(data) if is_histogram else frame.decode_scalars(data)
    return blocks


def merge(kind: MetricKind, blocks: Sequence[Block]) -> Block:
    """Blocks of one metric and kind into one."""
    if kind is MetricKind.HISTOGRAM:
        return merge_histograms([block for block in blocks if isinstance(block, HistogramBlock)])
    scalars = [block for block in blocks if isinstance(block, ScalarBlock)]
    return merge_gauges(scalars) if kind is MetricKind.GAUGE else merge_sums(scalars)


def _histograms(rows: list[Row]) -> HistogramBlock:
    by_series: dict[int, list[Any]] = {}
    more: list[Row] = []
    for series, values in sorted(rows, key=lambda row: row[0]):
        if series in by_series:
            more.append((series, values))  # Two reports of one series in one commit: a block's rows are distinct.
        else:
            by_series[series] = values
    block = _distinct(by_series)
    return merge_histograms([block, *(_distinct(dict([row])) for row in more)]) if more else block


def _distinct(rows: dict[int, list[Any]]) -> HistogramBlock:
    lows, counts, zero, total, minimum, maximum, error = zip(*rows.values(), strict=True)
    low = min((first for first, row in zip(lows, counts, strict=True) if row), default=0)
    width = max((first + len(row) - low for first, row in zip(lows, counts, strict=True) if row), default=0)
    largest = max(max(row, default=0) for row in counts)
    code = next(code for most, code in _TYPES if largest <= most)
    size = array(code).itemsize
    # Joining bytes is several times faster than assigning lists to the rows of an array.
    dense = b"".join(
        (array(code, row).tobytes().rjust((first - low + len(row)) * size, b"\0") if row else b"").ljust(
            width * size, b"\0"
        )
        for first, row in zip(lows, counts, strict=True)
    )
    return HistogramBlock(
        np.array(list(rows), np.int32),
        low,
        np.frombuffer(dense, np.dtype(f"u{size}")).reshape(len(rows), width),
        np.array(zero, np.int64),
        np.array(total, float),
        np.array(minimum, float),
        np.array(maximum, float),
        np.array(error, float),
    )


def _scalars(rows: list[Row], kind: MetricKind) -> ScalarBlock:
    values = [values for _, values in rows]
    block = ScalarBlock(
        np.array([series for series, _ in rows], np.int32),
        np.array([value for value, _ in values], float),
        np.array([time_ns for _, time_ns in values], np.int64),
    )
    return merge_gauges([block]) if kind is MetricKind.GAUGE else merge_sums([block])
