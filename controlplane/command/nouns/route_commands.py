"""`tailwright routes`: who looks after what."""

from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.command.nouns.matched_labels import once
from controlplane.contract.on_call.incidents import Route, RouteCreate
from controlplane.terminal.output.printing import Columns, Json, labels_text, print_json, show_done, show_list
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Routes: who looks after what.", no_args_is_help=True)

COLUMNS: Columns[Route] = {
    "id": lambda route: str(route.id),
    "position": lambda route: str(route.position),
    "name": lambda route: route.name,
    "matches": lambda route: labels_text(route.matchers) or "every alert",
    "owner": lambda route: route.owner,
    "one incident by": lambda route: ", ".join(route.group_by) or "-",
    "file": lambda route: route.origin or "-",
}


@app.command("list")
@calls_service()
def listing(client: Client, as_json: Json = False) -> None:
    """Every route in the order in which they are asked; the first that matches an alert counts."""
    found = sorted(client.routes(), key=lambda route: (route.position, route.id))
    show_list(found, COLUMNS, as_json=as_json, what="route")


@app.command("create")
@calls_service()
def create(
    client: Client,
    name: Annotated[str, typer.Argument(help="What people call it.")],
    owner: Annotated[str, typer.Option(help="The team or person who looks after it.")],
    match: Annotated[
        list[str], typer.Option(help="label=value that an alert must have, also rule and severity; none: every alert.")
    ] = [],  # noqa: B006 - typer needs a list default
    group_by: Annotated[
        list[str], typer.Option(help="A label in which all alerts of one incident agree; may be repeated.")
    ] = ["pool"],  # noqa: B006
    any_pool: Annotated[
        bool, typer.Option("--any-pool", help="No such label: alerts of different pools may be one incident.")
    ] = False,
    position: Annotated[int, typer.Option(help="The lower goes first; of equal ones the older.", min=0)] = 100,
    as_json: Json = False,
) -> None:
    """Say who looks after alerts: tailwright routes create chat --owner team-chat --match pool=chat."""
    labels = [] if any_pool else group_by
    wanted = RouteCreate(name=name, owner=owner, matchers=once("--match", match), group_by=labels, position=position)
    made = client.create_route(wanted)
    if as_json:
        print_json(made)
    else:
        typer.echo(f"route {made.id} {made.name!r}: {labels_text(made.matchers) or 'every alert'} to {made.owner}")


@app.command("delete")
@calls_service()
def delete(
    client: Client, number: Annotated[int, typer.Argument(help="Its id, as the list shows it.")], as_json: Json = False
) -> None:
    """Delete a route; incidents that are open keep their owner."""
    client.delete_route(number)
    show_done(f"route {number} is deleted", as_json=as_json)
