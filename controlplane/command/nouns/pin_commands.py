"""`tailwright pins`: nodes and pools that keep the revision they have."""

from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.on_call.rollout_policies import Pin, PinCreate
from controlplane.terminal.output.printing import Columns, Json, moment_text, print_json, show_done, show_list
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Pins: nodes and pools that keep the revision they have.", no_args_is_help=True)

COLUMNS: Columns[Pin] = {
    "id": lambda pin: str(pin.id),
    "pool": lambda pin: pin.pool,
    "node": lambda pin: pin.node or "all",
    "revision": lambda pin: str(pin.revision),
    "reason": lambda pin: pin.reason,
    "since": lambda pin: moment_text(pin.created_at),
    "by": lambda pin: pin.created_by,
}


@app.command("list")
@calls_service()
def listing(client: Client, as_json: Json = False) -> None:
    """Every pin, newest first."""
    show_list(client.pins(), COLUMNS, as_json=as_json, what="pin")


@app.command("create")
@calls_service()
def create(
    client: Client,
    pool: Annotated[str, typer.Argument(help="The pool.")],
    reason: Annotated[str, typer.Option(help="Why; it is shown to whoever is refused.")],
    node: Annotated[str | None, typer.Option(help="Only this serving node of it.")] = None,
    as_json: Json = False,
) -> None:
    """Keep a pool, or one node, at the revision that it should run now: nobody tells it another."""
    made = client.create_pin(PinCreate(pool=pool, node=node, reason=reason))
    if as_json:
        print_json(made)
    else:
        typer.echo(f"pin {made.id}: {made.node or f'pool {made.pool}'} keeps revision {made.revision}")


@app.command("remove")
@calls_service()
def remove(
    client: Client, number: Annotated[int, typer.Argument(help="Its id, as the list shows it.")], as_json: Json = False
) -> None:
    """Let it follow rollouts again; a node takes its pool's revision."""
    client.remove_pin(number)
    show_done(f"pin {number} is removed", as_json=as_json)
