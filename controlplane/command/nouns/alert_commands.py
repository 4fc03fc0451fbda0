"""`tailwright alerts`: what is open, why, what is being done about it, and whom it was told."""

from collections.abc import Iterator
from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.bodies.alerts import Alert, AlertState, StageShift
from controlplane.contract.channels.destinations import Delivery
from controlplane.contract.duration_text import duration_text
from controlplane.contract.share_text import share_text
from controlplane.terminal.output.moved_lines import print_moved
from controlplane.terminal.output.printing import (
    Columns,
    Json,
    moment_text,
    print_items,
    print_json,
    show_list,
    show_record,
)
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Alerts: what is open, and why.", no_args_is_help=True)

COLUMNS: Columns[Alert] = {
    "id": lambda alert: str(alert.id),
    "state": lambda alert: alert.state.value + (" (silenced)" if alert.silenced else ""),
    "severity": lambda alert: alert.severity.value,
    "rule": lambda alert: alert.rule,
    "since": lambda alert: moment_text(alert.started_at),
    "summary": lambda alert: alert.summary,
}
STAGES: Columns[StageShift] = {
    "part": lambda shift: shift.stage,
    "p99 before": lambda shift: _figure(shift.before_p99_s),
    "p99 during": lambda shift: _figure(shift.during_p99_s),
    "share": lambda shift: share_text(shift.share_of_increase),
}
DELIVERIES: Columns[Delivery] = {
    "tells": lambda delivery: delivery.status,
    "state": lambda delivery: delivery.state.value,
    "attempts": lambda delivery: str(delivery.attempts),
    "delivered": lambda delivery: moment_text(delivery.delivered_at),
    "last error": lambda delivery: delivery.last_error or "-",
}
TOLD_APART = ("summary", "diagnosis", "evidence", "updates", "remedies", "value", "threshold")


@app.command("list")
@calls_service()
def listing(
    client: Client,
    ended: Annotated[bool, typer.Option("--ended", help="Show those that are resolved, too.")] = False,
    as_json: Json = False,
) -> None:
    """Open alerts, newest first."""
    found = client.alerts() if ended else open_alerts(client)
    show_list(found, COLUMNS, as_json=as_json, what="alert" if ended else "open alert")


@app.command("show")
@calls_service()
def show(
    client: Client,
    number: Annotated[int, typer.Argument(help="Its id, as the list shows it.")],
    as_json: Json = False,
) -> None:
    """One alert: the diagnosis, what is being done, and whom it was told. The evidence stands in --json."""
    alert = client.alert(number)
    if as_json:
        print_json(alert)
        return
    typer.echo(f"{alert.summary}\n")
    show_record(alert, as_json=False, leave_out=TOLD_APART)
    for line in _figures(alert):
        typer.echo(line)
    for incident in client.incidents(alert_id=number):
        owner = f", owner {incident.owner}" if incident.owner else ""
        typer.echo(f"incident {incident.id} {incident.state.value}{owner}")
    if alert.diagnosis is not None:
        typer.echo("" if alert.diagnosis.summary == alert.summary else f"\n{alert.diagnosis.summary}")
        for cause in alert.diagnosis.causes:
            typer.echo(f"- {cause.get('message', cause.get('cause'))}")
        if alert.diagnosis.stages:
            typer.echo("")
            print_items(alert.diagnosis.stages, STAGES)
        if alert.diagnosis.attribution is not None:
            print_moved(alert.diagnosis.attribution)
    for step in alert.remedies:
        typer.echo(f"\n{step.title}: {step.why}")
    deliveries = client.deliveries(number)
    if deliveries:
        typer.echo("")
        names = {one.id: one.name for one in client.destinations()}
        named: Columns[Delivery] = {"destination": lambda one: names.get(one.destination_id, str(one.destination_id))}
        print_items(deliveries, {**named, **DELIVERIES})


def open_alerts(client: Client) -> list[Alert]:
    """Newest first; what is resolved, which may be years of it, is not asked for."""
    found = [*client.alerts(AlertState.FIRING), *client.alerts(AlertState.PENDING)]
    return sorted(found, key=lambda alert: alert.id, reverse=True)


def _figures(alert: Alert) -> Iterator[str]:
    """What was observed, what it is held against, and how sure that is."""
    if alert.value is not None:
        yield f"observed {duration_text(alert.value)}"
    if alert.threshold is not None:
        yield f"limit or baseline {duration_text(alert.threshold)}"
    if sure := alert.evidence.get("error_rate", {}).get("statement"):
        yield f"how sure: {sure}"


def _figure(seconds: float | None) -> str:
    return "-" if seconds is None else duration_text(seconds)
