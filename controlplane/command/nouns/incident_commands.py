"""`tailwright incidents`: what is wrong, who looks at it, what has happened, and the post-mortem."""

from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.bodies.alerts import OURS
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.duration_text import duration_text
from controlplane.contract.on_call.incidents import Incident, IncidentAlert, IncidentSplit, TimelineEntry
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

app = subcommand(help="Incidents: the alerts of one cause.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(help="Its id, as the list shows it.")]

COLUMNS: Columns[Incident] = {
    "id": lambda one: str(one.id),
    "state": lambda one: one.state.value + (" (silenced)" if one.silenced else ""),
    "severity": lambda one: one.severity.value,
    "pool": lambda one: one.pool or "-",
    "owner": lambda one: one.owner or "-",
    "onset": lambda one: moment_text(one.onset_at),
    "alerts": lambda one: f"{one.firing} of {one.alerts} fire",
    "by": lambda one: one.acknowledged_by or "-",
    "title": lambda one: one.title,
}
MEMBERS: Columns[IncidentAlert] = {
    "alert": lambda one: str(one.alert.id),
    "state": lambda one: one.alert.state.value,
    "rule": lambda one: one.alert.rule if one.alert.source == OURS else f"{one.alert.rule} ({one.alert.source})",
    "since": lambda one: moment_text(one.alert.started_at),
    "why here": lambda one: one.why,
}
TIMELINE: Columns[TimelineEntry] = {
    "time": lambda entry: moment_text(entry.time),
    "what": lambda entry: entry.kind.value.replace("_", " "),
    "who": lambda entry: entry.actor,
    "words": lambda entry: entry.text,
}
TOLD_APART = ("title", "causes", "confirmed_cause", "attribution", "members", "notes", "timeline")


@app.command("list")
@calls_service()
def listing(
    client: Client,
    ended: Annotated[bool, typer.Option("--ended", help="Show those that are over, too.")] = False,
    pool: Annotated[str | None, typer.Option(help="Only of this pool.")] = None,
    as_json: Json = False,
) -> None:
    """Open incidents, newest first."""
    found = client.incidents(pool=pool) if ended else client.incidents(pool=pool, open=True)
    show_list(found, COLUMNS, as_json=as_json, what="incident" if ended else "open incident")


@app.command("show")
@calls_service()
def show(client: Client, number: Number, as_json: Json = False) -> None:
    """One incident: its causes, its alerts, and everything that happened. More stands in --json."""
    found = client.incident(number)
    if as_json:
        print_json(found)
        return
    typer.echo(f"{found.title}\n")
    show_record(found, as_json=False, leave_out=TOLD_APART)
    for named in found.causes:
        typer.echo(f"- {named.get('message', named.get('cause'))}")
    if found.confirmed_cause is not None:
        typer.echo(f"Confirmed by {found.confirmed_cause.by}: {found.confirmed_cause.cause.value}")
    if found.attribution is not None:
        print_moved(found.attribution)
    typer.echo("")
    print_items(found.members, MEMBERS)
    typer.echo("")
    print_items(found.timeline, TIMELINE)


@app.command("ack")
@calls_service()
def ack(
    client: Client,
    number: Number,
    comment: Annotated[str, typer.Option(help="What you are about to do; kept as a note.")] = "",
    as_json: Json = False,
) -> None:
    """Say that you look at it."""
    found = client.acknowledge_incident(number, comment)
    _tell(found, f"is acknowledged by {found.acknowledged_by}", as_json)


@app.command("note")
@calls_service()
def note(
    client: Client, number: Number, text: Annotated[str, typer.Argument(help="The note.")], as_json: Json = False
) -> None:
    """Write something down: tailwright incidents note 3 "revision 2 was taken back"."""
    made = client.add_incident_note(number, text)
    if as_json:
        print_json(made)
    else:
        typer.echo(f"note {made.id} on incident {number}")


@app.command("merge")
@calls_service()
def merge(
    client: Client,
    number: Number,
    other: Annotated[int, typer.Argument(help="The incident that is taken in.")],
    as_json: Json = False,
) -> None:
    """Have an incident take in another one of the same cause: its alerts and its notes."""
    found = client.merge_incidents(number, other)
    _tell(found, f"has taken in incident {other}: {found.alerts} alerts", as_json)


@app.command("split")
@calls_service()
def split(
    client: Client,
    number: Number,
    alerts: Annotated[list[int], typer.Argument(help="Its alerts that are of another cause.")],
    reason: Annotated[str, typer.Option(help="Why they are.")] = "",
    as_json: Json = False,
) -> None:
    """Make another incident of some alerts."""
    made = client.split_incident(number, IncidentSplit(alert_ids=alerts, reason=reason))
    _tell(made, f"has {made.alerts} alerts of incident {number}", as_json)


@app.command("cause")
@calls_service()
def cause(
    client: Client,
    number: Number,
    kind: Annotated[CauseKind, typer.Argument(help="What the cause was; unknown: none of those that were named.")],
    comment: Annotated[str, typer.Option(help="What there is to say of it.")] = "",
    as_json: Json = False,
) -> None:
    """Say what the cause was. The order in which causes are named learns from it."""
    found = client.confirm_cause(number, kind.value, comment)
    _tell(found, f"was of the cause {kind.value}", as_json)


@app.command("resolve")
@calls_service()
def resolve(
    client: Client,
    number: Number,
    reason: Annotated[str, typer.Option(help="Why, although its alerts may fire.")],
    as_json: Json = False,
) -> None:
    """Close it. By itself it is resolved when none of its alerts has fired for five minutes."""
    found = client.resolve_incident(number, reason)
    lasted_s = 0.0 if found.resolved_at is None else (found.resolved_at - found.onset_at).total_seconds()
    _tell(found, f"is resolved after {duration_text(lasted_s)}", as_json)


@app.command("post-mortem")
@calls_service()
def post_mortem(client: Client, number: Number, as_json: Json = False) -> None:
    """Print all that is known as Markdown, with headings for what only people know; --json prints the incident."""
    if as_json:
        print_json(client.incident(number))
    else:
        typer.echo(client.post_mortem(number), nl=False)


def _tell(incident: Incident, done: str, as_json: bool) -> None:
    if as_json:
        print_json(incident)
    else:
        typer.echo(f"incident {incident.id} {done}")
