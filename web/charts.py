"""Time series for the charts, as JSON that the page's script hands to Plotly."""

from typing import Any

from controlplane.client import Client
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import error_text
from controlplane.contract.metrics import BY_SHORT, MetricKind
from web.fragments import Params
from web.spans import STEP_OF, span_of

QUANTILES = (0.5, 0.95, 0.99)
MARKS = ("rollout", "alert.fired", "alert.resolved")


def latency(client: Client, params: Params) -> dict[str, Any]:
    """{"metric", "help", "unit", "series": [{"name", "x": [RFC3339], "y": [seconds]}], "count": n, "accuracy": text}.

    One line per quantile, or with ?by=node one line per node at p99. Steps without data are left out of the line,
    which then has a gap: absent is not zero.
    """
    metric, span = params.get("metric", ""), span_of(params)
    if metric not in BY_SHORT or BY_SHORT[metric].kind is not MetricKind.HISTOGRAM:
        raise BadRequest(f"metric: {metric!r} is not a latency metric", field="metric")
    by = [params["by"]] if params.get("by") else []
    answer = client.quantiles(
        metric, QUANTILES, window=span, step=STEP_OF[span], by=by, pool=params.get("pool") or None
    )
    lines = []
    for series in answer.series:
        points = series.points or []
        for q in ("0.99",) if by else ("0.5", "0.95", "0.99"):
            name = f"p{float(q) * 100:g}" + (" " + " ".join(series.labels.values()) if by else "")
            lines.append(
                {
                    "name": name,
                    "x": [point.time.isoformat() for point in points if q in point.quantiles],
                    "y": [point.quantiles[q] for point in points if q in point.quantiles],
                }
            )
    return {
        "metric": metric,
        "help": BY_SHORT[metric].help,
        "unit": "s",
        "start": answer.start.isoformat(),
        "end": answer.end.isoformat(),
        "count": sum(series.count for series in answer.series),
        "accuracy": error_text(answer.relative_error),
        "series": lines,
    }


def marks(client: Client, params: Params) -> list[dict[str, str]]:
    """Moments to draw as vertical lines: rollouts and alerts, from the ledger."""
    return [
        {"time": entry.time.isoformat(), "kind": entry.kind, "message": entry.message}
        for entry in client.ledger(limit=100)
        if entry.kind.startswith(MARKS)
    ]
