"""All of the contract's series of an interval, in portions that fit in memory.

Guarantee: every value that the reader has in the interval is in exactly one portion; labels that a series lacks are
left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import LABELS, METRICS, NODE, Metric, MetricKind
from controlplane.telemetry.question import Question
from controlplane.telemetry.reader import SketchSeries, TelemetryReader, ValueSeries
from controlplane.telemetry.values.timespan import Span

NODES_AT_ONCE = 100
"""A reader bounds the groups of one answer: so many nodes have a few thousand."""
OTHERS = tuple(label for label in LABELS if label != NODE.label)


@dataclass
class Portion:
    """Series by metric; a metric without data is not there."""

    histograms: dict[Metric, list[SketchSeries]] = field(default_factory=dict)
    values: dict[Metric, list[ValueSeries]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.histograms or self.values)


def of_fleet(reader: TelemetryReader, interval: Span) -> Iterator[Portion]:
    """Summed over nodes (gauges: the mean of them), by every other label."""
    portion = _read(reader, interval, METRICS, OTHERS, {})
    if portion:
        yield portion


def of_nodes(reader: TelemetryReader, interval: Span) -> Iterator[Portion]:
    """Each node's series by every label, some nodes at a time."""
    present = _read(reader, interval, METRICS, (NODE.label,), {})
    found = [one.labels for histograms in present.histograms.values() for one in histograms]
    found += [one.labels for values in present.values.values() for one in values]
    nodes = sorted({labels.get(NODE.label, "") for labels in found})
    metrics = [*present.histograms, *present.values]
    at, at_once = 0, NODES_AT_ONCE
    while at < len(nodes):
        chosen = nodes[at : at + at_once]
        try:
            portion = _read(reader, interval, metrics, LABELS, {NODE.label: chosen})
        except BadRequest:
            if len(chosen) == 1:
                raise
            at_once = max(1, len(chosen) // 2)  # They have more series than a reader gives in one answer.
            continue
        at += len(chosen)
        if portion:
            yield portion


def _read(
    reader: TelemetryReader,
    interval: Span,
    metrics: Sequence[Metric],
    by: Sequence[str],
    where: Mapping[str, Sequence[str]],
) -> Portion:
    portion = Portion()
    for metric in metrics:
        question = Question(metric.short, interval, by, where)
        if metric.kind is MetricKind.HISTOGRAM:
            histograms = reader.histograms(question)
            if histograms:
                portion.histograms[metric] = histograms
        else:
            values = reader.scalars(question)
            if values:
                portion.values[metric] = values
    return portion
