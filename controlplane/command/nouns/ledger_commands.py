"""`tailwright ledger`: who or what did what, read from the service; and its chain, checked beside it."""

from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.command.ledger_chain import app
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.terminal.output.printing import Columns, Json, moment_text, show_list, show_record
from controlplane.terminal.service_command import calls_service

__all__ = ["app"]

COLUMNS: Columns[LedgerEntry] = {
    "id": lambda entry: str(entry.id),
    "time": lambda entry: moment_text(entry.time),
    "actor": lambda entry: entry.actor,
    "kind": lambda entry: entry.kind,
    "subject": lambda entry: entry.subject,
    "message": lambda entry: entry.message,
}


@app.command("list")
@calls_service()
def listing(
    client: Client,
    kind: Annotated[str | None, typer.Option(help="Only of this kind, e.g. rollout.promoted.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only of this thing, e.g. rollout/3 or node/gpu-1.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=1000)] = 50,
    cursor: Annotated[int | None, typer.Option(help="Go on where a list has ended: its `next`.")] = None,
    as_json: Json = False,
) -> None:
    """The newest entries."""
    page = client.ledger_page(kind=kind, subject=subject, limit=limit, cursor=cursor)
    show_list(page.items, COLUMNS, as_json=as_json, following=page.next, what="entry")


@app.command("show")
@calls_service()
def show(
    client: Client,
    number: Annotated[int, typer.Argument(help="The entry's number.")],
    as_json: Json = False,
) -> None:
    """One entry with its evidence."""
    show_record(client.ledger_entry(number), as_json=as_json)
