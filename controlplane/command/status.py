"""`trimtab status`: the fleet, its latency and what is under way, on one screen."""

from rich.console import Console
from rich.table import Column, Table

from controlplane.client import Client
from controlplane.command.connection import FAILURES, SERVER, Server, Token, TokenFile, connect, explain, fail
from controlplane.contract.knobs import KNOBS


def status(server: Server = SERVER, token: Token = None, token_file: TokenFile = None) -> None:
    """Show nodes with their effective configuration, the last minute's latency, open alerts, studies and rollouts."""
    console = Console()
    try:
        with connect(server, token, token_file) as client:
            console.print(nodes_table(client))
            console.print(latency_table(client))
            for line in under_way(client):
                console.print(line)
    except FAILURES as error:
        fail(explain(error), 1)


def nodes_table(client: Client) -> Table:
    runs = Column("runs", overflow="fold")
    table = Table("node", "pool", "state", "revision", runs, title="Fleet", title_justify="left")
    for node in client.nodes():
        state = "healthy" if node.connected and node.healthy else ("unhealthy" if node.connected else "offline")
        knobs = node.effective.knobs if node.effective else {}
        table.add_row(
            node.node,
            node.pool,
            state + (", differs" if node.drift else ""),
            str(node.effective.revision) if node.effective else "-",
            " ".join(f"{name}={knobs[name]}" for name in KNOBS if name in knobs) or "-",
        )
    return table


def latency_table(client: Client) -> Table:
    table = Table("pool", "metric", "p50", "p95", "p99", "values", title="Last minute", title_justify="left")
    for pool in sorted({node.pool for node in client.nodes() if node.role == "serving"}):
        for metric in ("ttft", "itl", "e2e"):
            for series in client.quantiles(metric, window="1m", pool=pool).series:
                shown = (f"{1e3 * series.quantiles[q]:.1f} ms" for q in ("0.5", "0.95", "0.99"))
                table.add_row(pool, metric, *shown, str(series.count))
    return table


def under_way(client: Client) -> list[str]:
    alerts = [f"alert {a.id} {a.state}: {a.summary}" for a in client.alerts() if a.state != "resolved"]
    studies = [f"study {s.id} {s.state}: {s.progress}" for s in client.studies() if s.finished_at is None]
    rollouts = [f"rollout {r.id} {r.phase}: {r.message}" for r in client.rollouts() if r.ended_at is None]
    return alerts + studies + rollouts or ["Nothing is under way; no alert is open."]
