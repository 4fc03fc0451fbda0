"""`tailwright rollout-hooks`: whom rollouts of a pool ask before they go on, and whom they tell."""

from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.changes.hooks import Hook
from controlplane.terminal.document_file import DocumentFile, read_document
from controlplane.terminal.output.printing import Columns, Json, moment_text, print_json, show_done, show_list
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Hooks of pools: whom rollouts ask before they go on, and whom they tell.", no_args_is_help=True)

COLUMNS: Columns[Hook] = {
    "id": lambda hook: str(hook.id),
    "pool": lambda hook: hook.pool,
    "name": lambda hook: hook.name,
    "kind": lambda hook: hook.kind.value,
    "at": lambda hook: hook.url,
    "signed": lambda hook: "yes" if hook.signed else "no",
    "silent": lambda hook: hook.on_silence.value if hook.kind.asks else "-",
    "from": lambda hook: hook.origin or "-",
    "since": lambda hook: moment_text(hook.updated_at),
    "by": lambda hook: hook.updated_by,
}


@app.command("list")
@calls_service()
def listing(client: Client, as_json: Json = False) -> None:
    """Every pool's hooks, newest first, without their secrets."""
    show_list(client.rollout_hooks(), COLUMNS, as_json=as_json, what="hook")


@app.command("set")
@calls_service()
def set_(client: Client, file: DocumentFile, as_json: Json = False) -> None:
    """Make a file a hook of the pool that it names, in place of the one of its name; needs scope admin."""
    made = client.set_rollout_hook(read_document(file))
    if as_json:
        print_json(made)
    else:
        typer.echo(f"hook {made.id}, {made.name!r} of pool {made.pool}, is called at {made.kind}")


@app.command("remove")
@calls_service()
def remove(
    client: Client, number: Annotated[int, typer.Argument(help="Its id, as the list shows it.")], as_json: Json = False
) -> None:
    """Remove a hook: a rollout that waits for it goes on; needs scope admin."""
    client.remove_rollout_hook(number)
    show_done(f"hook {number} is removed", as_json=as_json)
