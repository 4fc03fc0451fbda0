"""What is exported into files: typed columns, and rows that come a few thousand at a time.

Guarantee: bounded memory: a span is read piece by piece, in the order of time, and a piece that a reader finds too
large is cut again. Figures are those of the query API for the same metric, labels and step.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np

from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import AXIS_MIN, SCALE, ZERO_THRESHOLD_S
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.question import Question
from controlplane.telemetry.reader import SketchSeries, TelemetryReader, ValueSeries
from controlplane.telemetry.values.timespan import EPOCH, Span

FIRST_STEPS = 4
CELLS_AT_ONCE = 2000
"""Groups times steps that are asked for at once: a histogram of 8 kB each."""
ROWS_AT_ONCE = 2000
CUT = 4
Cell = datetime | str | int | float | None
Row = tuple[Cell, ...]
S = TypeVar("S", SketchSeries, ValueSeries)


class Kind(StrEnum):
    TIME = "time"  # An instant in UTC, to the microsecond.
    TEXT = "text"
    WHOLE = "whole"  # 64 bits.
    REAL = "real"


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind


@dataclass(frozen=True)
class Table:
    """`parts` can be walked once. `about`: what the figures are (metric, unit), for formats that can say so."""

    columns: tuple[Column, ...]
    parts: Iterator[list[Row]]
    about: Mapping[str, str]


def of_quantiles(reader: TelemetryReader, asked: Question, unit: str, quantiles: Mapping[str, float]) -> Table:
    """Count, sum, extremes, error bound and quantiles of each group and step."""
    reals = ["sum", "min", "max", "relative_error", *(f"q{name}" for name in quantiles)]
    columns = [Column("count", Kind.WHOLE), *(Column(name, Kind.REAL) for name in reals)]

    def rows(labels: Row, time: datetime, sketch: Sketch) -> Iterator[Row]:
        extremes = [value if math.isfinite(value) else None for value in (sketch.minimum, sketch.maximum)]
        figures = (sketch.count, sketch.total, *extremes, sketch.relative_error)
        yield (time, *labels, *figures, *(sketch.quantile(q) for q in quantiles.values()))

    return Table(_columns(asked, columns), _of_histograms(reader, asked, rows), _about(asked, unit))


def of_buckets(reader: TelemetryReader, asked: Question, unit: str) -> Table:
    """The occupied buckets of each group and step: index on the axis (none: the zero bucket), edges, count."""
    columns = [Column("bucket", Kind.WHOLE), Column("lower", Kind.REAL), Column("upper", Kind.REAL)]
    columns.append(Column("count", Kind.WHOLE))

    def rows(labels: Row, time: datetime, sketch: Sketch) -> Iterator[Row]:
        if sketch.zero_count:
            yield (time, *labels, None, 0.0, ZERO_THRESHOLD_S, sketch.zero_count)
        for position in np.flatnonzero(sketch.counts).tolist():
            index = position + AXIS_MIN
            edges = (math.exp2(index / 2**SCALE), math.exp2((index + 1) / 2**SCALE))
            yield (time, *labels, index, *edges, int(sketch.counts[position]))

    return Table(_columns(asked, columns), _of_histograms(reader, asked, rows), _about(asked, unit))


def of_values(reader: TelemetryReader, asked: Question, unit: str) -> Table:
    """A gauge's or a sum's value of each group and step."""

    def parts() -> Iterator[list[Row]]:
        for found in _pieces(reader.scalars, asked):
            cells = [
                (time, _labels(one.labels, asked), value)
                for one in found
                for time, value in ([(asked.span.start, one.value)] if asked.step_s is None else one.steps)
            ]
            yield [(time, *labels, value) for time, labels, value in sorted(cells, key=_place)]

    return Table(_columns(asked, [Column("value", Kind.REAL)]), parts(), _about(asked, unit))


def _of_histograms(
    reader: TelemetryReader, asked: Question, rows_of: Callable[[Row, datetime, Sketch], Iterator[Row]]
) -> Iterator[list[Row]]:
    for found in _pieces(reader.histograms, asked):
        cells = [
            (time, _labels(one.labels, asked), sketch)
            for one in found
            for time, sketch in ([(asked.span.start, one.total)] if asked.step_s is None else one.steps)
            if sketch.count
        ]
        rows: list[Row] = []
        for time, labels, sketch in sorted(cells, key=_place):
            rows += rows_of(labels, time, sketch)
            if len(rows) >= ROWS_AT_ONCE:
                yield rows
                rows = []
        yield rows


def _pieces(read: Callable[[Question], list[S]], asked: Question) -> Iterator[list[S]]:
    """What a reader has, some steps at a time, cut where steps are cut."""
    if asked.step_s is None:
        yield read(asked)
        return
    step = timedelta(seconds=asked.step_s)
    at, end, steps = asked.span.start, asked.span.end, FIRST_STEPS
    while at < end:
        until = min(at - (at - EPOCH) % step + steps * step, end)
        try:
            found = read(replace(asked, span=Span(at, until)))
        except BadRequest:
            if steps == 1:
                raise
            steps = max(1, steps // CUT)  # A reader refuses answers of too many groups times steps.
            continue
        yield found
        at = until
        most = max(len(found), 1)
        steps = min(CUT * steps, max(1, CELLS_AT_ONCE // most))


def _about(asked: Question, unit: str) -> dict[str, str]:
    return {"metric": asked.metric, "unit": unit}


def _columns(asked: Question, figures: Sequence[Column]) -> tuple[Column, ...]:
    return (Column("time", Kind.TIME), *(Column(label, Kind.TEXT) for label in asked.by), *figures)


def _labels(labels: Mapping[str, str], asked: Question) -> Row:
    return tuple(labels.get(label, "") for label in asked.by)


def _place(cell: tuple[datetime, Row, Any]) -> tuple[Any, ...]:
    """By time, then labels."""
    return (cell[0], cell[1])
