"""Windows of a recorder as an OTLP metrics request in JSON: delta exponential histograms and sums.

JSON, so that a program that measures needs no protobuf. Each report has a number of its own within its stream (the
life of one recorder), which it is sent with, and which shifts its points' start times by nanoseconds within their
window: a receiver tells a report that comes twice from another one either way.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.agent.reports.latency_series import Distribution
from agents.client_measure.record_tally import Window
from controlplane.contract import metrics
from controlplane.contract.histogram import SCALE, ZERO_THRESHOLD_S
from controlplane.contract.metrics import Attribute, Metric, MetricKind

SCOPE = "tailwright.client"
_DELTA = 1


@dataclass(frozen=True)
class Sender:
    """Whose reports they are."""

    client: str
    pool: str = ""
    region: str = ""


def encode(windows: Mapping[int, Window], sender: Sender, shift_ns: int, dropped: int = 0) -> bytes:
    """The request. shift_ns: differs from report to report. dropped: reports dropped since the one before."""
    found: dict[Metric, list[dict[str, Any]]] = {}
    for number, window in sorted(windows.items()):
        end = (number + 1) * metrics.WINDOW_NS
        times = {
            "startTimeUnixNano": str(end - metrics.WINDOW_NS + shift_ns % metrics.WINDOW_NS),
            "timeUnixNano": str(end),
        }
        for model, series in window.series.items():
            attributes = _attributes({metrics.MODEL: model, metrics.REGION: sender.region})
            for metric, distribution in series.items():
                found.setdefault(metric, []).append({"attributes": attributes, **times, **_histogram(distribution)})
        for (model, reason), count in window.ended.items():
            attributes = _attributes(
                {metrics.MODEL: model, metrics.REGION: sender.region, metrics.FINISH_REASON: reason}
            )
            point = {"attributes": attributes, **times, "asInt": str(count)}
            found.setdefault(metrics.CLIENT_REQUESTS, []).append(point)
        if dropped:
            found.setdefault(metrics.CLIENT_DROPPED, []).append({**times, "asInt": str(dropped)})
            dropped = 0
    resource = {metrics.NODE: sender.client, metrics.POOL: sender.pool}
    told = [_metric(metric, points) for metric, points in found.items()]
    scope = {"scope": {"name": SCOPE}, "metrics": told}
    request = {"resourceMetrics": [{"resource": {"attributes": _attributes(resource)}, "scopeMetrics": [scope]}]}
    return json.dumps(request, separators=(",", ":")).encode()


def _metric(metric: Metric, points: list[dict[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {"aggregationTemporality": _DELTA, "dataPoints": points}
    if metric.kind is MetricKind.SUM:
        data["isMonotonic"] = True
    kind = "sum" if metric.kind is MetricKind.SUM else "exponentialHistogram"
    return {"name": metric.name, "unit": metric.unit, kind: data}


def _histogram(distribution: Distribution) -> dict[str, Any]:
    offset, counts = distribution.dense()
    return {
        "count": str(distribution.count),
        "sum": distribution.total,
        "min": distribution.minimum,
        "max": distribution.maximum,
        "scale": SCALE,
        "zeroCount": str(distribution.zero_count),
        "zeroThreshold": ZERO_THRESHOLD_S,
        "positive": {"offset": offset, "bucketCounts": list(map(str, counts))},
    }


def _attributes(values: Mapping[Attribute, str]) -> list[dict[str, Any]]:
    return [{"key": key.name, "value": {"stringValue": value}} for key, value in values.items() if value]
