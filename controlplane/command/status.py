"""`tailwright status`: the fleet, its latency and what is under way, on one screen."""

from rich.console import Console
from rich.table import Column, Table

from controlplane.client import Client
from controlplane.client.clocks import node_clocks
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.bodies.change import class_of
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.histogram import error_text
from controlplane.contract.knobs import KNOBS, ChangeClass
from controlplane.contract.reports.node_clock import NodeClock
from controlplane.terminal.service_connection import FAILURES, SERVER, Server, Token, TokenFile, connect, explain, fail
from controlplane.terminal.subcommand import subcommand

app = subcommand()


@app.command()
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
    clocks = node_clocks(client)
    for node in client.nodes():
        state = "healthy" if node.connected and node.healthy else ("unhealthy" if node.connected else "offline")
        if node.connected and node.health_detail:
            state += f" ({'degraded: ' if node.healthy else ''}{node.health_detail})"
        table.add_row(
            f"{node.node}\n{node.backend}",
            node.pool,
            state + (", differs" if node.drift else ""),
            str(node.effective.revision) if node.effective else "-",
            runs_text(node, clocks.get(node.node)),
        )
    return table


def runs_text(node: NodeView, clock: NodeClock | None = None) -> str:
    """The knobs in force, those whose change is not live marked, what changes have cost so far, and the clock."""
    return "\n".join(filter(None, (_knobs_text(node), _clock_text(clock))))


def _clock_text(clock: NodeClock | None) -> str:
    if clock is None:
        return ""
    return f"clock: {clock.words}" + (f" ({clock.hint})" if clock.hint else "")


def _knobs_text(node: NodeView) -> str:
    if node.effective is None:
        return "-"
    parts = []
    for name in KNOBS:
        if name in node.effective.knobs:
            needed = class_of(name, node.backend, node.effective)
            mark = "" if needed is ChangeClass.LIVE else f" ({needed.value})"
            parts.append(f"{name}={node.effective.knobs[name]}{mark}")
    lines = [" ".join(parts) or "-"]
    if node.effective.formats:
        lines.append(f"formats: {', '.join(node.effective.formats)}")
    for kind, cost in node.effective.costs.items():
        waited = f", requests waited {cost.unavailable_s:.1f} s" if cost.unavailable_s else ""
        lines.append(f"a {kind.value} change: {cost.mean_s:.2g} s on average, {cost.last_s:.2g} s last{waited}")
    return "\n".join(lines)


def latency_table(client: Client) -> Table:
    table = Table("pool", "metric", "p50", "p95", "p99", "values", title="Last minute", title_justify="left")
    for pool in sorted({node.pool for node in client.nodes() if node.role == "serving"}):
        for metric in ("ttft", "itl", "e2e"):
            for series in client.quantiles(metric, window="1m", pool=pool).series:
                shown = (f"{1e3 * series.quantiles[q]:.1f} ms" for q in ("0.5", "0.95", "0.99"))
                error = error_text(series.relative_error)
                table.add_row(pool, metric, *shown, str(series.count) + (f" ({error})" if error else ""))
    return table


def alert_text(alert: Alert) -> str:
    """An open alert, and what is being done about it."""
    steps = "; ".join(step.title for step in alert.remedies)
    return f"alert {alert.id} {alert.state}: {alert.summary}" + (f" [{steps}]" if steps else "")


def under_way(client: Client) -> list[str]:
    alerts = [alert_text(alert) for alert in client.alerts() if alert.state != "resolved"]
    studies = [f"study {s.id} {s.state}: {s.progress}" for s in client.studies() if s.finished_at is None]
    rollouts = [f"rollout {r.id} {r.phase}: {r.message}" for r in client.rollouts() if r.ended_at is None]
    return alerts + studies + rollouts or ["Nothing is under way; no alert is open."]
