"""`tailwright plan`: what files that declare alerting and pools would change; nothing is changed."""

from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.command.alerting.reconciling import (
    Again,
    Commit,
    Files,
    MoreFiles,
    Prune,
    Wanted,
    reconciled,
    show,
    wrong_is_one,
)
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
    again: Again = False,
    commit: Commit = "",
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Status 2 where something would be changed, 0 where nothing.")
    ] = False,
    as_json: Json = False,
) -> bool:
    """Show what `tailwright apply` would create, change field by field, and remove; nothing is changed."""
    found = reconciled(client, Wanted(files, file, prune, again, commit), dry_run=True)
    show(found, as_json=as_json)
    return detailed_exitcode and found.anything
