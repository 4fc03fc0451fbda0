"""What each part of a request usually takes: medians of its pool and prompt bucket, around its time."""

from datetime import datetime, timedelta

from controlplane.contract.bodies.request_log import Typical, TypicalPart
from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.contract.metrics import POOL, PROMPT_BUCKET
from controlplane.telemetry.question import Cost, Question
from controlplane.telemetry.reader import TelemetryReader
from controlplane.telemetry.request_log.request_filter import TIMED
from controlplane.telemetry.values.timespan import Span

AROUND = timedelta(minutes=30)


def typical_parts(reader: TelemetryReader, pool: str, prompt_bucket: str, arrival: datetime, cost: Cost) -> Typical:
    """From the histograms, which count every request and reach further back than the log."""
    span = Span(arrival - AROUND, arrival + AROUND)
    where = {POOL.label: pool, PROMPT_BUCKET.label: prompt_bucket}
    answers = reader.sketches([Question(metric, span, where=where, cost=cost) for metric in TIMED])
    parts, error = {}, RELATIVE_ERROR
    for metric, groups in zip(TIMED, answers, strict=True):
        for sketch in groups.totals.sketches():
            parts[metric] = TypicalPart(median_s=sketch.quantile(0.5), requests=sketch.count)
            error = max(error, sketch.relative_error)
    return Typical(
        start=span.start, end=span.end, pool=pool, prompt_bucket=prompt_bucket, relative_error=error, parts=parts
    )
