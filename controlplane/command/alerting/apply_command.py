"""`tailwright apply`: alerting and pools made as files declare them."""

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
)
from controlplane.terminal.output.printing import Json
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand

app = subcommand()


@app.command()
@calls_service()
def apply(
    client: Client,
    files: Files = None,
    file: MoreFiles = None,
    prune: Prune = False,
    again: Again = False,
    commit: Commit = "",
    as_json: Json = False,
) -> None:
    """Make alerting and pools as files declare them (docs/alerting-as-code.md, docs/pools-as-code.md): nothing where
    anything is wrong. A pool's configuration goes out by a rollout: canary, verdict, promotion."""
    show(reconciled(client, Wanted(files, file, prune, again, commit), dry_run=False), as_json=as_json)
