"""`tailwright apply`: alerting made as files declare it."""

from controlplane.client import Client
from controlplane.command.alerting.reconciling import Files, MoreFiles, Prune, reconciled, show
from controlplane.terminal.output.printing import Json
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand

app = subcommand()


@app.command()
@calls_service()
def apply(
    client: Client, files: Files = None, file: MoreFiles = None, prune: Prune = False, as_json: Json = False
) -> None:
    """Make alerting as files declare it (docs/alerting-as-code.md): all of it, or nothing where anything is wrong."""
    show(reconciled(client, files, file, prune=prune, dry_run=False), as_json=as_json)
