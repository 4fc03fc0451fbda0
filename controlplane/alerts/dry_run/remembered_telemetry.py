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

AHEAD_S = 3600.0
LONGEST_S = 7200.0
MOST_KEPT = 8


@dataclass(frozen=True)
class Ahead:
    """Of one question: cumulative figures by step from `first` on, a row of float64[groups, steps + 1] each."""

    first: int
    last: int
    labels: Sequence[dict[str, str]]
    counts: NDArray[np.int32]  # [groups, steps + 1, axis]
    zeros: NDArray[np.int64]
    totals: NDArray[np.float64]
    error: float

    def between(self, first: int, last: int) -> list[SketchSeries]:
        found = []
        for row, labels in enumerate(self.labels):
            start, end = first - self.first, last - self.first
            counts = (self.counts[row, end] - self.counts[row, start]).astype(np.int64)
            zero = int(self.zeros[row, end] - self.zeros[row, start])
            if zero or counts.any():
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
            known = self._ahead[key] = self._read(question, first, max(last, first + round(AHEAD_S / WINDOW_S)))
        self._ahead.move_to_end(key)
        while len(self._ahead) > MOST_KEPT:
            self._ahead.popitem(last=False)
        return known

    def _read(self, question: Question, first: int, last: int) -> Ahead:
        span = Span(instant(first * WINDOW_S), instant(last * WINDOW_S))
        series = self._telemetry.histograms(replace(question, span=span, step_s=WINDOW_S))
        shape = (len(series), last - first + 1)
        counts = np.zeros((*shape, AXIS_LENGTH), np.int32)
        zeros, totals, error = np.zeros(shape, np.int64), np.zeros(shape), RELATIVE_ERROR
        for row, one in enumerate(series):
            for time, sketch in one.steps:
                at = round(time.timestamp() / WINDOW_S) - first + 1
                counts[row, at], zeros[row, at], totals[row, at] = sketch.counts, sketch.zero_count, sketch.total
                error = max(error, sketch.relative_error)
        for table in (counts, zeros, totals):
            np.cumsum(table, axis=1, out=table)
        return Ahead(first, last, [one.labels for one in series], counts, zeros, totals, error)
