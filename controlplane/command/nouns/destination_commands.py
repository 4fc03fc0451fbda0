"""`tailwright destinations`: webhooks that alerts are told to."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from controlplane.client import Client
from controlplane.contract.bodies.alerts import Delivery, DeliveryState, Destination, DestinationCreate
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

app = subcommand(help="Webhooks that alerts are told to.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(help="Its id, as the list shows it.")]

COLUMNS: Columns[Destination] = {
    "id": lambda one: str(one.id),
    "name": lambda one: one.name,
    "url": lambda one: one.url,
    "signed": lambda one: "yes" if one.signed else "no",
    "enabled": lambda one: "yes" if one.enabled else "no",
    "made": lambda one: moment_text(one.created_at),
}
DELIVERIES: Columns[Delivery] = {
    "alert": lambda one: str(one.alert_id),
    "tells": lambda one: one.status,
    "state": lambda one: one.state.value,
    "attempts": lambda one: str(one.attempts),
    "delivered": lambda one: moment_text(one.delivered_at),
    "last error": lambda one: one.last_error or "-",
}
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
    found = next((one for one in client.destinations() if one.id == number), None)
    if found is None:
        raise NotFound(f"no destination {number}")
    show_record(found, as_json=as_json)
    sent = [] if as_json else [one for one in client.deliveries() if one.destination_id == number][:SHOWN]
    if sent:
        typer.echo("")
        print_items(sent, DELIVERIES)


@app.command("create")
@calls_service()
def create(
    client: Client,
    name: Annotated[str, typer.Argument(help="What people call it.")],
    url: Annotated[str | None, typer.Option(help="Where alerts are posted; others on this machine may see it.")] = None,
    url_file: Annotated[Path | None, typer.Option(help="Instead: a file that holds the URL.", exists=True)] = None,
    secret_file: Annotated[
        Path | None, typer.Option(help="A file of what deliveries are signed with.", exists=True)
    ] = None,
    enabled: Annotated[bool, typer.Option(help="Whether anything is sent there.")] = True,
    as_json: Json = False,
) -> None:
    """Make a webhook; needs an admin's token. `test` says whether it is reached."""
    if (url is None) == (url_file is None):
        fail("say where: --url URL, or --url-file FILE")
    where = url_file.read_text().strip() if url_file is not None else url
    secret = None if secret_file is None else secret_file.read_text().strip()
    try:
        wanted = DestinationCreate(name=name, url=str(where), secret=secret, enabled=enabled)
    except ValidationError as error:
        fail(explain_values(error))
    made = client.create_destination(wanted)
    if as_json:
        print_json(made)
    else:
        typer.echo(f"destination {made.id} {made.name!r}: {made.url}")


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
