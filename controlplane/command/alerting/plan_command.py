"""`tailwright plan`: what files that declare alerting would change; nothing is changed."""

from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.command.alerting.reconciling import Files, MoreFiles, Prune, reconciled, show, wrong_is_one
from controlplane.terminal.output.printing import Json
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand

app = subcommand()


@app.command()
@wrong_is_one
@calls_service()
def plan(
    client: Client,
    files: Files = None,
    file: MoreFiles = None,
    prune: Prune = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Status 2 where something would be changed, 0 where nothing.")
    ] = False,
    as_json: Json = False,
) -> bool:
    """Show what `tailwright apply` would create, change field by field, and remove; nothing is changed."""
    found = reconciled(client, files, file, prune=prune, dry_run=True)
    show(found, as_json=as_json)
    return detailed_exitcode and found.changed
