"""Reads from telemetry what the agents measured of their hosts, node by node, before and during. Reads only."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from controlplane.alerts.diagnosis.host_cause import Reading, Readings
from controlplane.alerts.windows.history import Where
from controlplane.contract import metrics
from controlplane.contract.metrics import HOST_METRICS, NODE, WINDOW_S, Metric, MetricKind
from controlplane.telemetry import Question, Span, TelemetryReader

EARLIER_S = 60.0
"""Trouble may have begun so long before the slowdown was seen."""
LEAVES_OUT_S = WINDOW_S
"""The window before the onset belongs to neither: a trouble that began in it was only partly there."""

Steps = list[tuple[datetime, float]]


def host_readings(telemetry: TelemetryReader, where: Where, before: Span, during: Span) -> dict[str, Readings]:
    """By node, then by the metric's short name; what was not measured is absent."""
    found: dict[str, dict[str, Reading]] = {}
    for metric in HOST_METRICS:
        question = Question(metric.short, Span(before.start, during.end), (NODE.label,), where, WINDOW_S)
        for series in telemetry.scalars(question):
            node = series.labels.get(NODE.label, "")
            if node and series.steps:
                found.setdefault(node, {})[metric.short] = reading(metric, sorted(series.steps), before, during)
    return dict(found)


def reading(metric: Metric, steps: Steps, before: Span, during: Span) -> Reading:
    """From the windows of one node, ascending."""
    earlier = [value for at, value in steps if at < before.end - timedelta(seconds=LEAVES_OUT_S)]
    later = [value for at, value in steps if during.start <= at < during.end]
    then, now = _level(metric, earlier), _level(metric, later)
    return Reading(then, now, _since(metric, steps, then, now, during.start))


def _level(metric: Metric, values: Sequence[float]) -> float | None:
    if not values:
        return None
    if metric is metrics.GPU_THROTTLE_REASON:  # Bits: every reason that there was.
        bits = 0
        for value in values:
            bits |= int(value)
        return float(bits)
    if metric is metrics.GPU_XID:
        return next((value for value in reversed(values) if value), 0.0)
    mean = sum(values) / len(values)
    return mean / WINDOW_S if metric.kind is MetricKind.SUM else mean


def _since(metric: Metric, steps: Steps, then: float | None, now: float | None, onset: datetime) -> datetime | None:
    if then is None or now is None or then == now:
        return None
    scale = WINDOW_S if metric.kind is MetricKind.SUM else 1.0
    middle = scale * (then + now) / 2.0
    for at, value in steps:
        if at >= onset - timedelta(seconds=EARLIER_S) and (value > middle) == (now > then):
            return at
    return None
