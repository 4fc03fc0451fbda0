"""`tailwright destinations`: where alerts are told, how that goes, and what was given up."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from controlplane.client import Client
from controlplane.command.nouns.matched_labels import matched_text, silenced
from controlplane.contract.channels.destination_kinds import DESTINATION_KINDS, DestinationKind
from controlplane.contract.channels.destinations import (
    Delivery,
    DeliveryState,
    Destination,
    DestinationCreate,
    DestinationPreview,
    DestinationReplace,
)
from controlplane.contract.errors import NotFound
from controlplane.terminal.output.printing import (
    Columns,
    Json,
    moment_text,
    print_items,
    print_json,
    show_done,
    show_list,
    show_record,
)
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import explain_values, fail
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Where alerts are told: webhooks, chat, pagers, e-mail.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(help="Its id, as the list shows it.")]
Url = Annotated[str | None, typer.Option("--url", help="Where it is; others on this machine may see it.")]
UrlFile = Annotated[Path | None, typer.Option("--url-file", help="Instead: a file that holds the URL.", exists=True)]
SecretFile = Annotated[
    Path | None,
    typer.Option("--secret-file", help="A file of what signs or lets in: secret, token, key, password.", exists=True),
]
CallbackSecretFile = Annotated[
    Path | None,
    typer.Option(
        "--callback-secret-file", help="A file of what acknowledgements from there are signed with.", exists=True
    ),
]
To = Annotated[list[str] | None, typer.Option("--to", help="The channel, or an address; may be repeated.")]
Sender = Annotated[str | None, typer.Option("--sender", help="The address that e-mail comes from.")]
Login = Annotated[str | None, typer.Option("--login", help="Whose password the secret is.")]
PerMinute = Annotated[
    int | None, typer.Option("--per-minute", help="Messages a minute at most; unset: as the kind bears.")
]
TitleFile = Annotated[Path | None, typer.Option("--title-file", help="A file with its title's template.", exists=True)]
TextFile = Annotated[Path | None, typer.Option("--text-file", help="A file with its text's template.", exists=True)]
Match = Annotated[
    list[str] | None,
    typer.Option("--match", help="Only alerts with this label, as severity=page; may be repeated."),
]
MatchRe = Annotated[
    list[str] | None,
    typer.Option("--match-re", help="Only alerts whose label matches, as pool=chat-.*; may be repeated."),
]

COLUMNS: Columns[Destination] = {
    "id": lambda one: str(one.id),
    "name": lambda one: one.name,
    "kind": lambda one: one.kind.value,
    "url": lambda one: one.url,
    "secret": lambda one: "yes" if one.signed else "no",
    "only": lambda one: "-" if one.only is None else matched_text(one.only),
    "enabled": lambda one: "yes" if one.enabled else "no",
    "last taken": lambda one: moment_text(one.health.last_success_at),
    "failures": lambda one: str(one.health.failures_in_row),
    "waiting": lambda one: str(one.health.waiting),
    "dead": lambda one: str(one.health.dead),
    "file": lambda one: one.origin or "-",
}
DELIVERIES: Columns[Delivery] = {
    "id": lambda one: str(one.id),
    "alert": lambda one: str(one.alert_id),
    "tells": lambda one: one.status,
    "state": lambda one: one.state.value,
    "attempts": lambda one: str(one.attempts),
    "delivered": lambda one: moment_text(one.delivered_at),
    "last error": lambda one: one.last_error or "-",
}
ONE_PLACE = "say where, once: --url URL, or --url-file FILE"
SHOWN = 10
"""Deliveries, the newest."""


@app.command("list")
@calls_service()
def listing(client: Client, as_json: Json = False) -> None:
    """Every destination, newest first. What is secret in a URL is shown to nobody."""
    show_list(client.destinations(), COLUMNS, as_json=as_json, what="destination")


@app.command("show")
@calls_service()
def show(client: Client, number: Number, as_json: Json = False) -> None:
    """One destination, and what was sent there lately."""
    found = _there(client, number)
    show_record(found, as_json=as_json)
    sent = [] if as_json else client.deliveries(destination_id=number)[:SHOWN]
    if sent:
        typer.echo("")
        print_items(sent, DELIVERIES)


@app.command("create")
@calls_service()
def create(
    client: Client,
    name: Annotated[str, typer.Argument(help="What people call it.")],
    kind: Annotated[DestinationKind, typer.Option(help="What is there.")] = DestinationKind.WEBHOOK,
    url: Url = None,
    url_file: UrlFile = None,
    secret_file: SecretFile = None,
    to: To = None,
    sender: Sender = None,
    login: Login = None,
    callback_secret_file: CallbackSecretFile = None,
    per_minute: PerMinute = None,
    title_file: TitleFile = None,
    text_file: TextFile = None,
    match: Match = None,
    match_re: MatchRe = None,
    enabled: Annotated[bool, typer.Option(help="Whether anything is sent there.")] = True,
    as_json: Json = False,
) -> None:
    """Make a destination; needs an admin's token. `test` says whether it is reached."""
    said: dict[str, object] = {"name": name, "kind": kind, "enabled": enabled}
    said |= _plain(to, sender, login, per_minute, title_file, text_file, match, match_re)
    said |= _secrets(url, url_file, secret_file, callback_secret_file)
    if DESTINATION_KINDS[kind].usual_url is None and url is None and url_file is None:
        fail(ONE_PLACE)
    try:
        wanted = DestinationCreate.model_validate(said)
    except ValidationError as error:
        fail(explain_values(error))
    made = client.create_destination(wanted)
    if as_json:
        print_json(made)
    else:
        typer.echo(f"destination {made.id} {made.name!r}: {made.url}")


@app.command("change")
@calls_service()
def change(
    client: Client,
    number: Number,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    url: Url = None,
    url_file: UrlFile = None,
    secret_file: SecretFile = None,
    to: To = None,
    sender: Sender = None,
    login: Login = None,
    callback_secret_file: CallbackSecretFile = None,
    per_minute: PerMinute = None,
    title_file: TitleFile = None,
    text_file: TextFile = None,
    match: Match = None,
    match_re: MatchRe = None,
    every_alert: Annotated[bool, typer.Option("--every-alert", help="Every alert again.")] = False,
    enabled: Annotated[bool | None, typer.Option(help="Whether anything is sent there.")] = None,
    as_json: Json = False,
) -> None:
    """Change what is said of a destination; what is not said stays, secrets too. Needs an admin's token."""
    if every_alert and (match or match_re):
        fail("--every-alert: leave it out, or give no --match and no --match-re")
    given = _plain(to, sender, login, per_minute, title_file, text_file, match, match_re)
    given |= {field: value for field, value in (("name", name), ("enabled", enabled)) if value is not None}
    if every_alert:
        given["only"] = None
    for field, text in _secrets(url, url_file, secret_file, callback_secret_file).items():
        given |= {field: text, f"{field}_kept": False}
    if not given:
        fail("nothing to change; say what, as in --match severity=page")
    there = _there(client, number).unchanged()
    try:
        wanted = DestinationReplace.model_validate({**dict(there), **given})
    except ValidationError as error:
        fail(explain_values(error))
    changed = client.replace_destination(number, wanted)
    if as_json:
        print_json(changed)
    else:
        typer.echo(f"destination {number} {changed.name!r} is changed: {changed.url}")


def _plain(
    to: list[str] | None,
    sender: str | None,
    login: str | None,
    per_minute: int | None,
    title_file: Path | None,
    text_file: Path | None,
    match: list[str] | None,
    match_re: list[str] | None,
) -> dict[str, object]:
    """What the options say, by field; what is not said is left out."""
    said: dict[str, object] = {"recipients": to, "sender": sender, "login": login, "per_minute": per_minute}
    said |= {"title_template": _text_of(title_file), "text_template": _text_of(text_file)}
    if match or match_re:
        said["only"] = silenced("--match", match or [], "--match-re", match_re or [])
    return {field: value for field, value in said.items() if value is not None}


def _secrets(
    url: str | None, url_file: Path | None, secret_file: Path | None, callback_secret_file: Path | None
) -> dict[str, str]:
    """The same of what is secret. Ends where two places are said."""
    if url is not None and url_file is not None:
        fail(ONE_PLACE)
    texts = {"url": url or _text_of(url_file), "secret": _text_of(secret_file)}
    texts["callback_secret"] = _text_of(callback_secret_file)
    return {field: text for field, text in texts.items() if text is not None}


def _there(client: Client, number: int) -> Destination:
    found = next((one for one in client.destinations() if one.id == number), None)
    if found is None:
        raise NotFound(f"no destination {number}")
    return found


def _text_of(file: Path | None) -> str | None:
    return None if file is None else file.read_text().strip()


@app.command("preview")
@calls_service()
def preview(
    client: Client,
    kind: Annotated[DestinationKind, typer.Option(help="What is there.")] = DestinationKind.WEBHOOK,
    title_file: TitleFile = None,
    text_file: TextFile = None,
    alert: Annotated[int | None, typer.Option(help="The alert it is tried on; unset: a made-up one.")] = None,
    as_json: Json = False,
) -> None:
    """What a destination would be told with these templates; nothing is sent."""
    said = {"kind": kind, "title_template": _text_of(title_file), "text_template": _text_of(text_file)}
    try:
        wanted = DestinationPreview.model_validate({**said, "alert_id": alert})
    except ValidationError as error:
        fail(explain_values(error))
    found = client.preview_destination(wanted)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{found.title}\n\n{found.text}")


@app.command("dead")
@calls_service()
def dead(client: Client, number: Number, as_json: Json = False) -> None:
    """What was given up of what was meant for it, newest first."""
    found = client.deliveries(destination_id=number, state=DeliveryState.GIVEN_UP.value)
    show_list(found, DELIVERIES, as_json=as_json, what="dead letter")


@app.command("replay")
@calls_service()
def replay(
    client: Client,
    number: Number,
    letter: Annotated[list[int] | None, typer.Option(help="Only this delivery; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Send its dead letters once more; those that something newer of their alert has overtaken stay as they are."""
    done = client.replay_dead_letters(number, letter)
    if as_json:
        print_json(done)
    else:
        typer.echo(f"{done.replayed} sent once more, {done.passed_over} passed over")


@app.command("test")
@calls_service()
def test(client: Client, number: Number, as_json: Json = False) -> None:
    """Send a test alert there now, once; status 1 when it did not arrive."""
    came = client.test_destination(number)
    arrived = came.state is DeliveryState.DELIVERED
    if as_json:
        print_json(came)
    else:
        typer.echo(f"destination {number}: " + ("the test arrived" if arrived else f"no: {came.last_error}"))
    raise typer.Exit(0 if arrived else 1)


@app.command("delete")
@calls_service()
def delete(client: Client, number: Number, as_json: Json = False) -> None:
    """Delete a destination; what still waits for it is given up."""
    client.delete_destination(number)
    show_done(f"destination {number} is deleted", as_json=as_json)
