"""`tailwright silences`: what nobody needs to be told of for a while."""

from datetime import timedelta
from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.command.nouns.matched_labels import matched_text, silenced
from controlplane.contract.bodies.alerts import Alert, Silence, SilenceCreate, Silenced
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import NotFound
from controlplane.terminal.output.printing import (
    Columns,
    Json,
    labels_text,
    moment_text,
    print_json,
    show_done,
    show_list,
    show_record,
)
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand
from controlplane.terminal.time_options import length_s, moment

app = subcommand(help="Silences: what is not told for a while.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(help="Its id, as the list shows it.")]

Match = Annotated[
    list[str], typer.Option(help="label=value that an alert must have, also rule and severity; repeat it for more.")
]
MatchRe = Annotated[
    list[str], typer.Option(help="label=pattern that an alert's whole value must match, as pool=chat-.*; repeat it.")
]

COLUMNS: Columns[Silence] = {
    "id": lambda silence: str(silence.id),
    "matches": lambda silence: matched_text(silence),
    "since": lambda silence: moment_text(silence.starts_at),
    "until": lambda silence: moment_text(silence.ended_early_at or silence.ends_at),
    "by": lambda silence: silence.created_by,
    "comment": lambda silence: silence.comment or "-",
    "file": lambda silence: silence.origin or "-",
}

HELD: Columns[Alert] = {
    "id": lambda alert: str(alert.id),
    "state": lambda alert: alert.state.value,
    "rule": lambda alert: alert.rule,
    "labels": lambda alert: labels_text(alert.labels),
}


@app.command("list")
@calls_service()
def listing(
    client: Client,
    ended: Annotated[bool, typer.Option("--ended", help="Show those that are over, too.")] = False,
    as_json: Json = False,
) -> None:
    """Silences that hold, newest first."""
    now = utc_now()
    found = [one for one in client.silences() if ended or (one.ended_early_at is None and one.ends_at > now)]
    show_list(found, COLUMNS, as_json=as_json, what="silence")


@app.command("show")
@calls_service()
def show(client: Client, number: Number, as_json: Json = False) -> None:
    """One silence."""
    found = next((silence for silence in client.silences() if silence.id == number), None)
    if found is None:
        raise NotFound(f"no silence {number}")
    show_record(found, as_json=as_json)


@app.command("create")
@calls_service()
def create(
    client: Client,
    match: Match = [],  # noqa: B006 - typer needs a list default
    match_re: MatchRe = [],  # noqa: B006
    alert: Annotated[int | None, typer.Option(help="Instead: all labels of this alert.")] = None,
    for_: Annotated[str | None, typer.Option("--for", help="How long, e.g. 2h.")] = None,
    until: Annotated[str | None, typer.Option(help="Instead: a moment, RFC 3339.")] = None,
    comment: Annotated[str, typer.Option(help="Why, for people; it has to be said.")] = "",
    as_json: Json = False,
) -> None:
    """Hold alerts back whose labels all match: tailwright silences create --match pool=chat --for 2h."""
    if bool(match or match_re) == (alert is not None):
        fail("say what is silenced: --match label=value, --match-re label=pattern, or --alert ID")
    if (for_ is None) == (until is None):
        fail("say how long: --for 2h, or --until TIME")
    if not comment.strip():
        fail("say why: --comment TEXT")
    ends = utc_now() + timedelta(seconds=length_s("--for", for_)) if for_ is not None else moment("--until", until)
    assert ends is not None
    what = (
        silenced("--match", match, "--match-re", match_re)
        if alert is None
        else Silenced(matchers=client.alert(alert).labels)
    )
    made = client.create_silence(SilenceCreate(**what.model_dump(), ends_at=ends, comment=comment))
    if as_json:
        print_json(made)
    else:
        typer.echo(f"silence {made.id}: {matched_text(made)} until {moment_text(made.ends_at)}")


@app.command("preview")
@calls_service()
def preview(
    client: Client,
    match: Match = [],  # noqa: B006
    match_re: MatchRe = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """The open alerts that a silence would hold back: tailwright silences preview --match-re "pool=chat-.*"."""
    if not match and not match_re:
        fail("say what is silenced: --match label=value, or --match-re label=pattern")
    show_list(
        client.silence_preview(silenced("--match", match, "--match-re", match_re)),
        HELD,
        as_json=as_json,
        what="open alert that matches",
    )


@app.command("expire")
@calls_service()
def expire(client: Client, number: Number, as_json: Json = False) -> None:
    """End a silence now; what it held back and still fires is told then."""
    client.end_silence(number)
    show_done(f"silence {number} is over", as_json=as_json)
