"""`tailwright status`: the fleet, its latency and what is under way, on one screen, once or as it changes."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import httpx
import typer
from pydantic import BaseModel

from controlplane.client import Client
from controlplane.client.clocks import node_clocks
from controlplane.command.node_text import knobs_text, state_text
from controlplane.command.nouns.alert_commands import open_alerts
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.bodies.rollouts import ENDED, Rollout
from controlplane.contract.bodies.studies import Study
from controlplane.contract.bodies.telemetry import QuantilesAnswer
from controlplane.contract.clock import utc_now
from controlplane.contract.duration_text import duration_text
from controlplane.contract.errors import Unavailable
from controlplane.contract.histogram import error_text
from controlplane.contract.metrics import E2E, ITL, POOL, TTFT
from controlplane.contract.reports.node_clock import NodeClock
from controlplane.terminal.output.printing import Json, moment_text, print_json, terminal_width
from controlplane.terminal.output.table_lines import table_lines
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import explain
from controlplane.terminal.subcommand import subcommand

app = subcommand()

WINDOW = "1m"
CLEAR = "\x1b[H\x1b[2J"
"""Cursor home, screen cleared: what ANSI terminals know."""


@dataclass(frozen=True)
class Seen:
    """What is told, as the API's bodies. `latency`: by pool and metric; `clocks` by node."""

    nodes: Sequence[NodeView]
    latency: Mapping[str, Sequence[QuantilesAnswer]]
    alerts: Sequence[Alert]
    studies: Sequence[Study]
    rollouts: Sequence[Rollout]
    clocks: Mapping[str, NodeClock]


@app.command()
@calls_service()
def status(
    client: Client,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it anew, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between two looks of --watch.", min=0.5)] = 5.0,
    as_json: Json = False,
) -> None:
    """Show nodes with their effective configuration, the last minute's latency, open alerts, studies and rollouts."""
    if not watch:
        _tell(look(client), as_json)
        return
    try:
        while True:
            _watch(client, as_json)
            time.sleep(interval)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def look(client: Client) -> Seen:
    nodes = sorted(client.nodes(), key=lambda node: node.node)
    metrics = (TTFT.short, ITL.short, E2E.short)
    heard = {pool for metric in (TTFT.short, E2E.short) for pool in _heard(client, metric)}
    pools = sorted({node.pool for node in nodes if node.role is NodeRole.SERVING} | heard)
    return Seen(
        nodes=nodes,
        latency={
            pool: [client.quantiles(metric, window=WINDOW, pool=pool, role="serving") for metric in metrics]
            for pool in pools
        },
        alerts=open_alerts(client),
        studies=[study for study in client.studies() if study.finished_at is None],
        rollouts=[rollout for rollout in client.rollouts() if rollout.phase not in ENDED],
        clocks=node_clocks(client),
    )


def _heard(client: Client, metric: str) -> set[str]:
    """Pools that requests were measured in, be it by senders of which no node is known."""
    answer = client.quantiles(metric, window=WINDOW, by=[POOL.label], role="serving")
    return {series.labels[POOL.label] for series in answer.series if series.labels.get(POOL.label)}


def body_of(seen: Seen) -> dict[str, Any]:
    """Lists of the API's bodies, complete; `latency` by pool, an answer of `quantiles` for each metric."""

    def bodies(items: Sequence[BaseModel]) -> list[Any]:
        return [item.model_dump(mode="json") for item in items]

    return {
        "nodes": bodies(seen.nodes),
        "latency": {pool: bodies(answers) for pool, answers in seen.latency.items()},
        "alerts": bodies(seen.alerts),
        "studies": bodies(seen.studies),
        "rollouts": bodies(seen.rollouts),
    }


def lines_of(seen: Seen, width: int | None) -> list[str]:
    """A line a node, a line for each pool's metric, and what is under way, the alerts first."""
    nodes = [_node_row(node, seen.clocks.get(node.node)) for node in seen.nodes]
    lines = table_lines(("node", "pool", "state", "revision", "runs"), nodes, width) if nodes else ["No node yet."]
    latency = [row for pool, answers in seen.latency.items() for row in _latency_rows(pool, answers)]
    if latency:
        lines += ["", *table_lines(("last minute", "metric", "p50", "p95", "p99", "values", ""), latency, width)]
    return [*lines, "", *under_way(seen)]


def under_way(seen: Seen) -> list[str]:
    studies = [f"study {study.id} {study.state}: {study.progress}" for study in seen.studies]
    rollouts = [f"rollout {rollout.id} {rollout.phase}: {rollout.message}" for rollout in seen.rollouts]
    found = [*map(alert_text, seen.alerts), *studies, *rollouts]
    return found or ["Nothing is under way; no alert is open."]


def alert_text(alert: Alert) -> str:
    """An open alert, and what is being done about it."""
    steps = "; ".join(step.title for step in alert.remedies)
    return f"alert {alert.id} {alert.state}: {alert.summary}" + (f" [{steps}]" if steps else "")


def _node_row(node: NodeView, clock: NodeClock | None) -> tuple[str, ...]:
    revision = "-" if node.effective is None else str(node.effective.revision)
    state = state_text(node) + (f", clock {clock.words}" if clock is not None and clock.hint else "")
    return node.node, node.pool, state, revision, knobs_text(node)


def _latency_rows(pool: str, answers: Sequence[QuantilesAnswer]) -> list[tuple[str, ...]]:
    rows = []
    for answer in answers:
        for series in answer.series:
            shown = (duration_text(series.quantiles[q]) for q in ("0.5", "0.95", "0.99"))
            rows.append((pool, answer.metric, *shown, str(series.count), error_text(series.relative_error)))
    return rows


def _tell(seen: Seen, as_json: bool) -> None:
    if as_json:
        print_json(body_of(seen))
        return
    for line in lines_of(seen, terminal_width()):
        typer.echo(line)


def _watch(client: Client, as_json: bool) -> None:
    """One look of several. A service that is away, or busy, is said to be, and looked for again."""
    try:
        seen = look(client)
    except (httpx.TransportError, Unavailable) as error:
        typer.echo(f"{moment_text(utc_now())}  {explain(error, client.base_url)}", err=True)
        return
    if as_json:
        print_json(body_of(seen), in_one_line=True)
        return
    if sys.stdout.isatty():
        typer.echo(CLEAR, nl=False)
    typer.echo(f"as of {moment_text(utc_now())}")
    _tell(seen, as_json)
