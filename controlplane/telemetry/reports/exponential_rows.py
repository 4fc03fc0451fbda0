"""A report's exponential histograms, all at once: what nearly every point of a sender at the contract's scale is.

Guarantee: a row is made here only where `histogram_point` would make the same one; every other point is left to it
(and told by its place), so that what is refused, and why, is decided in one place.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, RELATIVE_ERROR, SCALE, ZERO_THRESHOLD_S
from controlplane.contract.metrics import WINDOW_NS
from controlplane.telemetry.otlp.bounds import Bounds
from controlplane.telemetry.otlp.histogram_point import AXIS_EDGES, MAX_COUNT, SLACK
from controlplane.telemetry.reports.column_builder import cell_type
from controlplane.telemetry.values.columns import HistogramRows, Mask
from controlplane.telemetry.values.magnitude import all_that_fit

_EDGES = np.array(AXIS_EDGES)
_UPPER = np.append(_EDGES[1:-1], np.inf)
"""Upper edge of each position; the last one holds everything above."""
U64 = NDArray[np.uint64]


Gathered = tuple[int, int, int, int, int, int, int, int, float, float, float, bool, bool, bool, bytes]
"""One point, as sent: metric and label set (places in the table), start and end (ns), count, zero count, scale, offset,
sum, minimum, maximum, whether each of these three is stated, and its packed bucket counts (varints). A plain tuple:
hundreds are made for each report."""


def rows_of(points: list[Gathered], bounds: Bounds) -> tuple[HistogramRows, Mask]:
    """The rows of the points that are in order, and which ones these are."""
    metric, labels, start, end, count, zero, scale, offset, *real, packed = zip(*points, strict=True)
    starts, ends, counts, zeros = (np.array(column, np.uint64) for column in (start, end, count, zero))
    cells, first, last = decode_varints(packed)
    totals, lows, highs = (np.array(column, float) for column in real[:3])
    totals_stated, lows_stated, highs_stated = (np.array(column, bool) for column in real[3:])
    most = np.uint64(MAX_COUNT)
    keep = (ends >= np.uint64(max(bounds.oldest_ns, 1))) & (ends <= np.uint64(bounds.newest_ns)) & (starts <= ends)
    keep &= (np.array(scale) == SCALE) & (counts > 0) & (counts <= most) & (zeros <= most)

    # What the buckets hold, and where the first and the last occupied one are.
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(cells)])
    too_large = np.concatenate([[0], np.cumsum(cells > most)])
    keep &= (too_large[last] == too_large[first]) & (running[last] - running[first] + zeros == counts)
    occupied = np.flatnonzero(cells)
    nth_first, nth_end = np.searchsorted(occupied, first), np.searchsorted(occupied, last)
    keep &= nth_end > nth_first
    if not keep.any():
        return HistogramRows.empty(), keep
    from_cell = occupied[np.minimum(nth_first, len(occupied) - 1)]
    to_cell = occupied[np.maximum(nth_end, 1) - 1] + 1
    low = np.array(offset, np.int64) + (from_cell - first) - AXIS_MIN
    width = to_cell - from_cell
    keep &= (low >= 0) & (low + width <= AXIS_LENGTH)

    # The extremes: as stated, where they lie in the buckets; else the outer edges.
    at_low, at_high = np.clip(low, 0, AXIS_LENGTH - 1), np.clip(low + width, 1, AXIS_LENGTH)
    minima = np.where(lows_stated, lows, np.where(zeros > 0, 0.0, _EDGES[at_low]))
    maxima = np.where(highs_stated, highs, np.maximum(_EDGES[at_high], minima))
    last_lower = _EDGES[at_high - 1]
    keep &= (
        totals_stated
        & all_that_fit(totals)
        & (totals >= 0)
        & all_that_fit(minima)
        & (minima >= 0)
        & all_that_fit(maxima)
    )
    keep &= (maxima * SLACK >= last_lower) | (last_lower <= ZERO_THRESHOLD_S)
    keep &= (maxima >= 0) & (
        ~lows_stated | ((minima <= np.maximum(_UPPER[at_low], ZERO_THRESHOLD_S) * SLACK) & (minima <= maxima * SLACK))
    )
    inside = np.zeros(len(cells) + 1, np.int64)
    np.add.at(inside, from_cell[keep], 1)
    np.add.at(inside, to_cell[keep], -1)
    kept_cells = cells[np.cumsum(inside[:-1]) > 0]
    ends_ns = ends[keep].astype(np.int64)
    return (
        HistogramRows(
            (ends_ns - 1) // WINDOW_NS,
            np.array(metric, np.int32)[keep],
            np.array(labels, np.int32)[keep],
            low[keep].astype(np.int32),
            width[keep].astype(np.int32),
            kept_cells.astype(cell_type(int(kept_cells.max(initial=0)))),
            zeros[keep].astype(np.int64),
            totals[keep],
            np.minimum(minima, maxima)[keep],
            maxima[keep],
            np.full(len(ends_ns), RELATIVE_ERROR),
        ),
        keep,
    )


def decode_varints(packed: tuple[bytes, ...]) -> tuple[U64, NDArray[np.int64], NDArray[np.int64]]:
    """(values, first, end): the unsigned varints of all items, and for each item where its own are.

    An item that is cut off within a varint, or has one of more than 9 bytes, has no values: they are to be read by
    somebody who can say what is wrong with them.
    """
    sizes = np.array([len(item) for item in packed], np.int64)
    data = np.frombuffer(b"".join(packed), np.uint8)
    ends_of = np.cumsum(sizes)
    if not len(data):
        return np.zeros(0, np.uint64), ends_of, ends_of
    is_last = data < 128
    if is_last.all():
        return data.astype(np.uint64), ends_of - sizes, ends_of
    cut_off = (sizes > 0) & ~is_last[np.maximum(ends_of, 1) - 1]
    if cut_off.any() or _longest(is_last) > 9:
        return _decode_singly(packed, sizes)
    stops = np.flatnonzero(is_last)
    begins = np.concatenate([[0], stops[:-1] + 1])
    lengths = stops - begins + 1
    values = (data[begins] & 127).astype(np.uint64)
    for place in range(1, int(lengths.max())):
        longer = lengths > place
        values[longer] |= (data[begins[longer] + place] & 127).astype(np.uint64) << np.uint64(7 * place)
    ordinal = np.concatenate([[0], np.cumsum(is_last)])
    return values, ordinal[ends_of - sizes], ordinal[ends_of]


def _longest(is_last: Mask) -> int:
    stops = np.flatnonzero(is_last)
    return int(np.diff(stops, prepend=-1).max(initial=0))


def _decode_singly(packed: tuple[bytes, ...], sizes: NDArray[Any]) -> tuple[U64, NDArray[np.int64], NDArray[np.int64]]:
    """As `decode_varints`, each item by itself: one of them is damaged."""
    parts = []
    for item in packed:
        is_last = np.frombuffer(item, np.uint8) < 128
        sound = bool(len(item)) and bool(is_last[-1]) and _longest(is_last) <= 9
        parts.append(decode_varints((item,))[0] if sound else np.zeros(0, np.uint64))
    ends = np.cumsum([len(part) for part in parts])
    return np.concatenate(parts), ends - [len(part) for part in parts], ends
