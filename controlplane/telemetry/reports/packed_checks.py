"""Checks of the rows of packed reports, all at once (pure).

Guarantee: as for OTLP points (`histogram_point`, `number_point`): the counts of what is kept fit the sums to come, and
sum, minimum and maximum agree with the buckets. A row that is not kept is in `refusals` of its own report.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, SCALE, ZERO_THRESHOLD_S
from controlplane.telemetry.otlp.histogram_point import MAX_COUNT, SLACK
from controlplane.telemetry.reports.packed_table import KINDS, REFUSED, PackedTable
from controlplane.telemetry.values.batch import offsets
from controlplane.telemetry.values.columns import HistogramRows, Ids, Mask, NumberRows
from controlplane.telemetry.values.magnitude import LARGEST, all_that_fit
from controlplane.telemetry.values.refusal import Problem, Reason, Refusals

EDGES = np.exp2((np.arange(AXIS_LENGTH + 1) + AXIS_MIN) / 2.0**SCALE)
"""EDGES[i], EDGES[i + 1]: the lower and upper edge of axis position i; values beyond the axis are at its ends."""
EDGES[0], EDGES[-1] = 0.0, np.inf
SUMMED_ROWS = 8192
Check = tuple[Mask, Callable[[int], Problem]]
"""Which rows are wrong, and what is wrong with one of them."""


class Found(NamedTuple):
    """metric, labels: places in all tables of the batch, REFUSED where there is none; kind: the metric's code."""

    metric: Ids
    labels: Ids
    kind: NDArray[np.int8]
    sent_metric: NDArray[np.uint16]
    sent_labels: NDArray[np.uint16]


class Places:
    """Places of several reports' own tables to places in all their tables, one after the other."""

    def __init__(self, tables: Sequence[PackedTable]) -> None:
        self.tables = tables
        self._metric_count = np.array([len(table.kind) for table in tables], np.int32)
        self._labels_count = np.array([len(table.labels) for table in tables], np.int32)
        self._metric_at, self._labels_at = offsets(self._metric_count), offsets(self._labels_count)
        # One more at the end, where a place beyond its table leads to.
        self._kind = np.concatenate([*(table.kind for table in tables), np.array([REFUSED], np.int8)])
        self._metric = _shifted([table.metric for table in tables], [len(table.table.metrics) for table in tables])
        self._labels = _shifted([table.labels for table in tables], [len(table.table.labels) for table in tables])

    def find(self, owner: Ids, metric: NDArray[np.uint16], labels: NDArray[np.uint16]) -> Found:
        of_metric = np.where(metric < self._metric_count[owner], self._metric_at[owner] + metric, len(self._metric) - 1)
        of_labels = np.where(labels < self._labels_count[owner], self._labels_at[owner] + labels, len(self._labels) - 1)
        return Found(self._metric[of_metric], self._labels[of_labels], self._kind[of_metric], metric, labels)

    def why(self, owner: int, metric: int, labels: int) -> Problem:
        """Why a row has no metric or no labels."""
        table = self.tables[owner]
        if metric >= len(table.kind):
            return Problem(Reason.MALFORMED, f"metric: place {metric} of a table of {len(table.kind)}")
        name = table.metric_names[metric]
        if metric in table.metric_problems:
            return table.metric_problems[metric]
        if labels >= len(table.labels):
            return Problem(Reason.MALFORMED, f"{name}: labels: place {labels} of a table of {len(table.labels)}")
        problem = table.labels_problems[labels]
        return Problem(problem.reason, f"{name}: {problem.message}")


def histograms(
    rows: HistogramRows,
    owner: Ids,
    found: Found,
    places: Places,
    refusals: Sequence[Refusals],
    silent: NDArray[np.int64],
) -> Mask:
    """The rows to be kept. One that counts nothing is not kept either; it is added to `silent` of its report."""
    if not len(rows):
        return np.zeros(0, bool)
    inside, huge = _counts(rows)
    count = rows.zero.astype(np.float64) + inside
    some = count > 0
    first_upper, last_lower = _occupied(rows)
    low, high, total = rows.minimum, rows.maximum, rows.total
    with np.errstate(invalid="ignore", over="ignore"):
        no_number = some & ~(all_that_fit(total) & all_that_fit(low) & all_that_fit(high))
        negative = some & ((total < 0) | (low < 0) | (high < 0))
        reversed_ = some & (low > high * SLACK)
        low_off = some & (low > first_upper * SLACK)
        high_off = some & (high * SLACK < last_lower)
        total_off = some & ((total * SLACK < count * low) | (total > count * high * SLACK))
    problems: list[Check] = [
        (
            rows.low + rows.width > AXIS_LENGTH,
            lambda i: Problem(
                Reason.COUNTS, f"low: {rows.low[i]} and {rows.width[i]} cells reach beyond the axis of {AXIS_LENGTH}"
            ),
        ),
        (
            huge | (count > MAX_COUNT),
            lambda i: Problem(Reason.COUNTS, f"count is over {MAX_COUNT} in one point"),
        ),
        (
            no_number,
            lambda i: Problem(
                Reason.VALUE, f"sum {total[i]}, min {low[i]}, max {high[i]}: must all be finite and at most {LARGEST:g}"
            ),
        ),
        (
            negative,
            lambda i: Problem(
                Reason.VALUE, f"sum {total[i]}, min {low[i]}, max {high[i]}: a duration cannot be negative"
            ),
        ),
        (reversed_, lambda i: Problem(Reason.VALUE, f"min {low[i]} is above max {high[i]}")),
        (
            low_off,
            lambda i: Problem(Reason.COUNTS, f"min is {low[i]}, but there are values at or below {first_upper[i]}"),
        ),
        (
            high_off,
            lambda i: Problem(Reason.COUNTS, f"max is {high[i]}, but there are values above {last_lower[i]}"),
        ),
        (
            total_off,
            lambda i: Problem(
                Reason.COUNTS, f"sum is {total[i]}, but {count[i]:.0f} values lie between {low[i]} and {high[i]}"
            ),
        ),
    ]
    keep = _kept(0, problems, owner, found, places, refusals)
    nothing = keep & ~some
    if nothing.any():
        silent += np.bincount(owner[nothing], minlength=len(silent))
    return keep & some


def numbers(
    rows: NumberRows, kind: int, owner: Ids, found: Found, places: Places, refusals: Sequence[Refusals]
) -> Mask:
    """The rows to be kept; kind: the code of a sum or a gauge."""
    if not len(rows):
        return np.zeros(0, bool)
    value = rows.value
    problems: list[Check] = [
        (
            ~all_that_fit(value),
            lambda i: Problem(Reason.VALUE, f"value is {value[i]}, must be finite and at most {LARGEST:g}"),
        )
    ]
    if KINDS[kind] == "sum":
        problems.append(
            (value < 0, lambda i: Problem(Reason.VALUE, f"value is {value[i]}, a monotonic sum cannot be negative"))
        )
    return _kept(kind, problems, owner, found, places, refusals)


def _kept(
    kind: int,
    problems: Sequence[Check],
    owner: Ids,
    found: Found,
    places: Places,
    refusals: Sequence[Refusals],
) -> Mask:
    nameless = (found.metric == REFUSED) | (found.labels == REFUSED)
    wrong_kind = found.kind != kind
    bad = nameless | wrong_kind
    for mask, _ in problems:
        bad = bad | mask
    for i in np.flatnonzero(bad).tolist():
        of, metric = int(owner[i]), int(found.sent_metric[i])
        if nameless[i]:
            why = places.why(of, metric, int(found.sent_labels[i]))
            refusals[of].add(why.reason, why.message)
            continue
        name = places.tables[of].metric_names[metric]
        if wrong_kind[i]:
            stated = KINDS[found.kind[i]]
            refusals[of].add(Reason.METRIC, f"{name}: is a {stated} in the table, but stands among {KINDS[kind]}s")
            continue
        why = next(make(i) for mask, make in problems if mask[i])
        refusals[of].add(why.reason, f"{name}: {why.message}")
    keep: Mask = ~bad
    return keep


def _counts(rows: HistogramRows) -> tuple[NDArray[np.float64], Mask]:
    """Values in the buckets of each row (exact up to MAX_COUNT), and where a number is beyond MAX_COUNT by itself."""
    huge = rows.zero > MAX_COUNT
    # Capped, a row's sum fits 64 bits: it has 2**16 cells at most.
    cells = np.minimum(rows.cells, MAX_COUNT + 1) if rows.cells.dtype.itemsize == 8 else rows.cells
    inside = np.zeros(len(rows))
    occupied = rows.width > 0
    if occupied.any():
        starts = (np.cumsum(rows.width) - rows.width)[occupied]
        inside[occupied] = _sums(cells, starts)
    return inside, huge


def _sums(cells: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Of the cells from each start to the next, some at a time: `reduceat` makes a wide copy of all it is given."""
    found = [
        np.add.reduceat(
            cells[starts[at] : starts[at + SUMMED_ROWS] if at + SUMMED_ROWS < len(starts) else None],
            starts[at : at + SUMMED_ROWS] - starts[at],
            dtype=np.uint64,
        )
        for at in range(0, len(starts), SUMMED_ROWS)
    ]
    return np.concatenate(found)


def _occupied(rows: HistogramRows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Upper edge of each row's first occupied bucket, lower edge of its last; the zero bucket is the lowest of all."""
    first, last = _ends(rows)
    some = last >= 0
    top = AXIS_LENGTH - 1
    first_upper = np.where(some & (rows.zero == 0), EDGES[np.clip(first + 1, 1, top + 1)], ZERO_THRESHOLD_S)
    last_lower = np.where(some, EDGES[np.clip(last, 0, top)], 0.0)
    return first_upper, last_lower


def _ends(rows: HistogramRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Axis positions of each row's first and last occupied cell; -1 where none is."""
    first = rows.low.astype(np.int64)
    last = first + rows.width - 1
    if not len(rows.cells):
        return np.full(len(rows), -1), np.full(len(rows), -1)
    ends = np.cumsum(rows.width)
    starts = ends - rows.width
    bare = (rows.width > 0) & (
        (rows.cells[np.minimum(starts, len(rows.cells) - 1)] == 0) | (rows.cells[np.maximum(ends - 1, 0)] == 0)
    )
    for i in np.flatnonzero(bare).tolist():  # Our agents send no empty cells at the ends.
        filled = np.flatnonzero(rows.cells[starts[i] : ends[i]])
        first[i], last[i] = (first[i] + filled[0], first[i] + filled[-1]) if len(filled) else (-1, -1)
    none = rows.width == 0
    return np.where(none, -1, first), np.where(none, -1, last)


def _shifted(parts: Sequence[Ids], lengths: Sequence[int]) -> Ids:
    """Places in tables of these lengths to places in all of them, one after the other; REFUSED stays."""
    places = np.concatenate([*parts, np.array([REFUSED], np.int32)])
    starts = np.repeat(offsets(lengths), [len(part) for part in parts])
    return np.where(places == REFUSED, REFUSED, places + np.append(starts, 0)).astype(np.int32)
