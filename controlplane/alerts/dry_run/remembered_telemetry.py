"""A read-ahead cache before telemetry, for judges that ask for a window which moves on by a little each time.

Guarantee: counts are those of the store, to the one; a histogram's least and greatest value are not known of a part, so
quantiles are within a bucket and not cut to them. Windows longer than `LONGEST_S`, and questions by step, go through.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.windows.history import instant
from controlplane.contract.histogram import AXIS_LENGTH, RELATIVE_ERROR
from controlplane.contract.metrics import WINDOW_S
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, SketchSeries, Span, TelemetryReader

AHEAD_S, AHEAD_SHARE = 3600.0, 0.25
"""What is read beyond a window: an hour, and of a longer window a quarter of it."""
LONGEST_S = 3 * 86400.0
MOST_BYTES = 256 << 20
"""Of all that is held; the answer to the question at hand is, whatever it takes."""


@dataclass(frozen=True)
class Ahead:
    """Of one question: cumulative figures by step from `first` on, a row of float64[groups, steps + 1] each.

    lowest: the position on the axis of the first bucket that is held; outside of those that are nothing was counted.
    """

    first: int
    last: int
    labels: Sequence[dict[str, str]]
    lowest: int
    counts: NDArray[np.int32]  # [groups, steps + 1, buckets]
    zeros: NDArray[np.int64]
    totals: NDArray[np.float64]
    error: float

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + self.zeros.nbytes + self.totals.nbytes

    def between(self, first: int, last: int) -> list[SketchSeries]:
        found = []
        for row, labels in enumerate(self.labels):
            start, end = first - self.first, last - self.first
            counts = np.zeros(AXIS_LENGTH, np.int64)
            held = self.counts[row, end] - self.counts[row, start]
            counts[self.lowest : self.lowest + len(held)] = held
            zero = int(self.zeros[row, end] - self.zeros[row, start])
            if zero or held.any():
                total = float(self.totals[row, end] - self.totals[row, start])
                found.append(SketchSeries(dict(labels), Sketch(counts, zero, total, -math.inf, math.inf, self.error)))
        return found


class RememberedTelemetry:
    """Implements `TelemetryReader` for one thread and a past that no longer changes, up to `end`."""

    def __init__(self, telemetry: TelemetryReader, end: datetime) -> None:
        self._telemetry = telemetry
        self._end = end
        self._ahead: OrderedDict[Any, Ahead] = OrderedDict()

    def __getattr__(self, name: str) -> Any:
        """Whatever else a reader answers."""
        return getattr(self._telemetry, name)

    def latest(self) -> datetime:
        return self._end

    def histograms(self, question: Question) -> list[SketchSeries]:
        span = question.span
        first, last = (math.ceil(time.timestamp() / WINDOW_S) for time in (span.start, span.end))
        if question.step_s is not None or span.seconds > LONGEST_S:
            return self._telemetry.histograms(question)
        return self._covering(question, first, last).between(first, last)

    def _covering(self, question: Question, first: int, last: int) -> Ahead:
        where = tuple((label, str(value)) for label, value in sorted(question.where.items()))
        key = (question.metric, tuple(question.by), where)
        known = self._ahead.get(key)
        if known is None or first < known.first or last > known.last:
            ahead_s = max(AHEAD_S, AHEAD_SHARE * question.span.seconds)
            known = self._ahead[key] = self._read(question, first, last + round(ahead_s / WINDOW_S))
        self._ahead.move_to_end(key)
        while len(self._ahead) > 1 and sum(one.nbytes for one in self._ahead.values()) > MOST_BYTES:
            self._ahead.popitem(last=False)
        return known

    def _read(self, question: Question, first: int, last: int) -> Ahead:
        span = Span(instant(first * WINDOW_S), instant(last * WINDOW_S))
        series = self._telemetry.histograms(replace(question, span=span, step_s=WINDOW_S))
        lowest, end = _buckets(series)
        shape = (len(series), last - first + 1)
        counts = np.zeros((*shape, end - lowest), np.int32)
        zeros, totals, error = np.zeros(shape, np.int64), np.zeros(shape), RELATIVE_ERROR
        for row, one in enumerate(series):
            for time, sketch in one.steps:
                at = round(time.timestamp() / WINDOW_S) - first + 1
                counts[row, at] = sketch.counts[lowest:end]
                zeros[row, at], totals[row, at] = sketch.zero_count, sketch.total
                error = max(error, sketch.relative_error)
        for table in (counts, zeros, totals):
            np.cumsum(table, axis=1, out=table)
        return Ahead(first, last, [one.labels for one in series], lowest, counts, zeros, totals, error)


def _buckets(series: Sequence[SketchSeries]) -> tuple[int, int]:
    """Positions on the axis from the first to after the last bucket that has anything."""
    seen = np.zeros(AXIS_LENGTH, bool)
    for one in series:
        for _, sketch in one.steps:
            seen |= sketch.counts > 0
    found = np.flatnonzero(seen)
    return (int(found[0]), int(found[-1]) + 1) if found.size else (0, 0)
