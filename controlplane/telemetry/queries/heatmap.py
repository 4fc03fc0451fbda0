"""A histogram metric over time: steps across, rows of the fixed axis upwards (pure).

Guarantee: rows are whole buckets of the axis, merged at powers of two, so every count is exact, and two heat maps of
one resolution have the same edges. A step without data has no column.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.bodies.telemetry import HeatmapAnswer, HeatmapColumn, HeatmapSeries
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import AXIS_LENGTH, RELATIVE_ERROR, SCALE, upper_edge
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.queries.budget import kept, left_out
from controlplane.telemetry.question import Question
from controlplane.telemetry.reader import SketchSeries, TelemetryReader
from controlplane.telemetry.values.catalogue import MetricRef

FEWEST_ROWS = 32
"""The whole axis at one row per doubling, and the row of what is too small for it."""
MOST_ROWS = AXIS_LENGTH + 1
MAX_CELLS = 200_000


@dataclass(frozen=True)
class _Rows:
    """Rows `first` to `last` of the axis in `merged` buckets each; `zero`: a row below them for what is too small."""

    merged: int
    first: int
    last: int
    zero: bool

    @property
    def count(self) -> int:
        return self.last - self.first + 1 + self.zero

    def edges(self) -> list[float]:
        found = [upper_edge(row * self.merged - 1) for row in range(self.first, self.last + 2)]
        return [0.0, *found] if self.zero else found

    def counts(self, sketch: Sketch) -> list[int]:
        rows: NDArray[np.int64] = sketch.counts.reshape(-1, self.merged).sum(axis=1)[self.first : self.last + 1]
        return [sketch.zero_count, *rows.tolist()] if self.zero else rows.tolist()


def heatmap(reader: TelemetryReader, metric: MetricRef, asked: Question, most_rows: int) -> HeatmapAnswer:
    """The finest rows of which the data takes at most `most_rows`. Raises `BadRequest` without a step."""
    if asked.step_s is None:
        raise BadRequest("step: is missing; say how wide a column is, e.g. 30s", field="step")
    span = asked.span
    every = reader.histograms(asked)
    found = [every[place] for place in kept([one.total.count for one in every], asked.most)]
    rows = _rows(found, most_rows)
    columns = sum(len(one.steps) for one in found)
    if columns * rows.count > MAX_CELLS:
        raise BadRequest(
            f"step: {columns} columns of {rows.count} rows are over {MAX_CELLS} cells; take a longer step, fewer rows, "
            "or fewer labels in by",
            field="step",
        )
    return HeatmapAnswer(
        metric=metric.short,
        unit=metric.unit,
        start=span.start,
        end=span.end,
        step_s=asked.step_s,
        rows_per_doubling=2**SCALE // rows.merged,
        relative_error=max((one.total.relative_error for one in found), default=RELATIVE_ERROR),
        edges=rows.edges() if found else [],
        series=[
            HeatmapSeries(
                labels=one.labels,
                count=one.total.count,
                relative_error=one.total.relative_error,
                columns=[
                    HeatmapColumn(time=time, count=sketch.count, counts=rows.counts(sketch))
                    for time, sketch in one.steps
                ],
            )
            for one in found
        ],
        left_out=left_out(len(every), len(found)),
    )


def _rows(found: list[SketchSeries], most_rows: int) -> _Rows:
    occupied = np.zeros(AXIS_LENGTH, bool)
    for one in found:
        occupied |= one.total.counts > 0
    zero = any(one.total.zero_count for one in found)
    places = np.flatnonzero(occupied)
    low, high = (int(places[0]), int(places[-1])) if len(places) else (0, 0)
    for merged in (2**exponent for exponent in range(SCALE + 1)):
        rows = _Rows(merged, low // merged, high // merged, zero)
        if rows.count <= most_rows:
            break
    return rows
