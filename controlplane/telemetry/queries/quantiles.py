"""Quantiles of a histogram metric, each with its error bound and the number of values behind it (pure).

The answer is made of plain dictionaries and goes out as it is: a model for each of hundreds of points would cost more
than the quantiles. `contract.telemetry.QuantilesAnswer` is what it must be.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.telemetry.queries.budget import kept, left_out
from controlplane.telemetry.question import Question
from controlplane.telemetry.reader import SketchGroups, TelemetryReader
from controlplane.telemetry.values.catalogue import MetricRef
from controlplane.telemetry.values.sketch_table import SketchTable


def quantiles(reader: TelemetryReader, metric: MetricRef, asked: Question, wanted: Mapping[str, float]) -> bytes:
    """The answer as JSON. `wanted`: its keys, as asked, and their values. No data: an empty list of series."""
    span = asked.span
    (found,) = reader.sketches([asked])
    series = _series(found, wanted, stepped=asked.step_s is not None)
    stay = [series[place] for place in kept([one["count"] for one in series], asked.most)]
    answer = {
        "metric": metric.short,
        "unit": metric.unit,
        "start": span.start,
        "end": span.end,
        "relative_error": max(found.totals.error.tolist(), default=RELATIVE_ERROR),
        "series": stay,
        "left_out": None if (others := left_out(len(series), len(stay))) is None else others.model_dump(),
    }
    return orjson.dumps(answer, option=orjson.OPT_UTC_Z)


def _series(found: SketchGroups, wanted: Mapping[str, float], *, stepped: bool) -> list[dict[str, Any]]:
    totals = found.totals
    counts = totals.count().tolist()
    rows = zip(
        found.labels, counts, totals.total.tolist(), totals.error.tolist(), _quantiles(totals, wanted), strict=True
    )
    series: list[dict[str, Any]] = [
        {
            "labels": labels,
            "count": count,
            "mean": total / count,
            "relative_error": error,
            "quantiles": values,
            "points": None,
        }
        for labels, count, total, error, values in rows
    ]
    if stepped:
        steps = zip(found.times, found.by_step.count().tolist(), _quantiles(found.by_step, wanted), strict=True)
        points = [{"time": time, "count": count, "quantiles": values} for time, count, values in steps]
        for one, start, end in zip(series, found.starts, found.starts[1:], strict=False):
            one["points"] = points[start:end]
    return series


def _quantiles(table: SketchTable, wanted: Mapping[str, float]) -> list[dict[str, float]]:
    return [dict(zip(wanted, values, strict=True)) for values in table.quantiles(list(wanted.values()))]
