"""`tailwright ledger`: look the ledger's chain through, and tell its head for keeping elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.app.settings import StoreSettings
from controlplane.terminal import extras
from controlplane.terminal.service_connection import fail
from controlplane.terminal.settings_options import with_settings
from controlplane.terminal.subcommand import subcommand

if TYPE_CHECKING:
    from controlplane.contract.bodies.ledger import LedgerHead
    from controlplane.db.database import Database

app = subcommand(help="Check that the ledger is as it was written, and tell its head.", no_args_is_help=True)


@app.command("verify")
@with_settings("TAILWRIGHT_")
def verify(
    settings: StoreSettings,
    head: Annotated[
        str | None,
        typer.Option(help="A head that was told earlier: a file of `tailwright ledger head`, or ID:HASH."),
    ] = None,
) -> None:
    """Name the first entry that was changed, removed or inserted, also while the service runs; status 1 then."""
    extras.need("ledger", "server")
    from controlplane.ledger import chain, inspection

    told = None if head is None else _told(head, settings.data_dir)
    database = _database(settings)
    try:
        found, wrong = inspection.verify(database, None if told is None else chain.Head(told.id, told.hash))
    finally:
        database.close()
    if wrong is not None:
        typer.echo(f"BAD  {wrong}")
        raise typer.Exit(1)
    typer.echo(f"ok   {found.id} ledger entries, head {found.id}:{found.hash}")


@app.command("head")
@with_settings("TAILWRIGHT_")
def head(settings: StoreSettings) -> None:
    """Print the newest entry's number and hash as JSON, signed with the data directory's key."""
    extras.need("ledger", "server")
    from controlplane.ledger import inspection, signing

    database = _database(settings)
    try:
        found = inspection.newest(database)
    finally:
        database.close()
    typer.echo(signing.signed(found, signing.key_of(settings.data_dir)).model_dump_json())


def _database(settings: StoreSettings) -> "Database":
    from controlplane.db.database import Database

    if settings.database_url is None and not settings.database_file.is_file():
        fail(f"{settings.database_file}: there is no database; say where it is with --data-dir or --database-url")
    return Database(settings.url)


def _told(text: str, data_dir: Path) -> "LedgerHead":
    """The head that is given as ID:HASH, or in a file, whose signature is looked at."""
    from pydantic import ValidationError

    from controlplane.contract.bodies.ledger import LedgerHead
    from controlplane.ledger import signing

    number, colon, sha = text.partition(":")
    try:
        if colon and number.isdecimal():
            return LedgerHead(id=int(number), hash=sha)
        told = LedgerHead.model_validate_json(Path(text).read_bytes())
    except (OSError, ValidationError):
        fail(f"{text}: neither ID:HASH nor a file that `tailwright ledger head` has written")
    if not signing.is_signed(told, signing.key_of(data_dir)):
        fail(f"{text}: its signature is not by {data_dir / signing.FILENAME}", 1)
    return told
