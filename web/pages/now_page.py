"""Now: what on-call sees first."""

from controlplane.client import Client
from controlplane.contract.bodies.nodes import NodeView
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection
from web.pages.chart_parts import quantile_chart
from web.pages.fleet_page import FLEET

HEADLINE = ("ttft", "itl", "e2e")
TITLES = {"ttft": "Time to first token", "itl": "Time between tokens", "e2e": "End to end"}


def serving_pools(nodes: list[NodeView]) -> list[str]:
    """Pools with serving nodes, by name."""
    return sorted({node.pool for node in nodes if node.role == "serving"})


def headline(client: Client, selection: Selection) -> Context:
    """p50, p95 and p99 of the three headline metrics over the last minute, by pool."""
    serving = serving_pools(client.nodes())
    rows = []
    for pool in serving:
        for metric in HEADLINE:
            answer = client.quantiles(metric, window="1m", pool=pool)
            series = answer.series[0] if answer.series else None
            rows.append({"pool": pool, "metric": metric, "series": series})
    return {"rows": rows, "serving": serving}


def open_alerts(client: Client, selection: Selection) -> Context:
    return {"alerts": [alert for alert in client.alerts() if alert.state != "resolved"]}


def activity(client: Client, selection: Selection) -> Context:
    """Studies and rollouts that have not ended."""
    return {
        "studies": [study for study in client.studies() if study.finished_at is None],
        "rollouts": [rollout for rollout in client.rollouts() if rollout.ended_at is None],
    }


def recent(client: Client, selection: Selection) -> Context:
    return {"entries": client.ledger(limit=8)}


CHARTS = tuple(quantile_chart(metric, title) for metric, title in TITLES.items())
PAGE = Page(
    "now",
    "/",
    "Now",
    (
        Part("open_alerts", open_alerts),
        Part("headline", headline),
        *CHARTS,
        Part("activity", activity),
        FLEET,
        Part("recent", recent),
    ),
    key="n",
    one_pool=True,
    scripts=("charts.js",),
    whole=lambda client, selection: {"charts": CHARTS},
)
