"""The demo's figures, each read from the control plane's API: latency of a span of time, and the final table."""

from dataclasses import dataclass
from datetime import datetime

from rich.table import Table

from agents.demo.plan import POOL
from controlplane.client import Client
from controlplane.contract.duration_text import duration_text

METRICS = ("ttft", "itl", "e2e", "queue", "prefill", "decode")


@dataclass(frozen=True)
class Span:
    """Quantiles of the pool in [start, end): metric to {"0.5": seconds, ...}, and requests finished."""

    name: str
    start: datetime
    end: datetime
    requests: int
    quantiles: dict[str, dict[str, float]]

    def p50(self, metric: str) -> float:
        return self.quantiles.get(metric, {}).get("0.5", float("nan"))

    def p99(self, metric: str) -> float:
        return self.quantiles.get(metric, {}).get("0.99", float("nan"))


def read_span(client: Client, name: str, start: datetime, end: datetime) -> Span:
    quantiles: dict[str, dict[str, float]] = {}
    requests = 0
    for metric in METRICS:
        for series in client.quantiles(metric, start=start, end=end, pool=POOL, role="serving").series:
            quantiles[metric] = series.quantiles
            if metric == "e2e":
                requests = series.count
    return Span(name, start, end, requests, quantiles)


def table(spans: list[Span], knobs: dict[str, str]) -> Table:
    """One column a span; `knobs` names the configuration of each span."""
    shown = Table("", *(span.name for span in spans), title="Before, during, after (from the control plane's API)")
    shown.add_row("configuration", *(knobs.get(span.name, "") for span in spans))
    shown.add_row("requests", *(str(span.requests) for span in spans))
    for metric in METRICS:
        for q in ("0.5", "0.95", "0.99") if metric in {"ttft", "itl", "e2e"} else ("0.99",):
            cells = (span.quantiles.get(metric, {}).get(q) for span in spans)
            label = f"{metric} p{float(q) * 100:g}"
            shown.add_row(label, *("-" if cell is None else duration_text(cell) for cell in cells))
    return shown
