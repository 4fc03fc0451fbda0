"""`tailwright ledger`: look the ledger's chain through, and tell its head for keeping elsewhere."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.app.settings import StoreSettings
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import TailwrightError
from controlplane.terminal import extras
from controlplane.terminal.output.printing import Json, print_json
from controlplane.terminal.service_connection import fail
from controlplane.terminal.settings_options import with_settings
from controlplane.terminal.subcommand import subcommand

if TYPE_CHECKING:
    from controlplane.contract.bodies.ledger import LedgerHead
    from controlplane.db.database import Database

app = subcommand(
    help="Check that the ledger is as it was written, tell its head, and archive its oldest entries.",
    no_args_is_help=True,
)


@app.command("verify")
@with_settings("TAILWRIGHT_")
def verify(
    settings: StoreSettings,
    head: Annotated[
        str | None,
        typer.Option(
            help="A head that was told earlier: a file of `tailwright ledger head` or of --ledger-head-file, of which "
            "each line is looked at, a webhook's, or ID:HASH."
        ),
    ] = None,
    archive: Annotated[
        list[Path] | None,
        typer.Option(help="A file of `tailwright ledger archive`, to be looked through too; all of them.", exists=True),
    ] = None,
    as_json: Json = False,
) -> None:
    """Name the first entry that was changed, removed or inserted, also while the service runs; status 1 then."""
    extras.need("ledger", "server")
    from controlplane.ledger import chain, inspection, signing

    told = [] if head is None else _told(head, settings.data_dir)
    database = _database(settings)
    try:
        archived = inspection.archived(database)
        newest = max((one.id for one in told), default=archived.id)
        if newest < archived.id and not archive:
            fail(f"head: entry {newest} is archived: give the files of `tailwright ledger archive` with --archive")
        known = [chain.Head(one.id, one.hash) for one in told]
        key = signing.key_of(settings.data_dir) if archived.id else None
        found, wrong = inspection.verify(database, known, archive or [], key)
    except TailwrightError as error:
        fail(error.message, 1)
    finally:
        database.close()
    if as_json:
        print_json({"fine": wrong is None, "wrong": wrong, "entries": found.id, "hash": found.hash})
        raise typer.Exit(0 if wrong is None else 1)
    if wrong is not None:
        typer.echo(f"BAD  {wrong}")
        raise typer.Exit(1)
    typer.echo(f"ok   {found.id} ledger entries, head {found.id}:{found.hash}")
    if archived.id and not archive:
        typer.echo(f"     entries 1 to {archived.id} are archived: look them through with --archive FILE")


@app.command("archive")
@with_settings("TAILWRIGHT_")
def archive(
    settings: StoreSettings,
    before: Annotated[datetime, typer.Option(help="Entries from before this day (UTC); at least 30 days ago.")],
    to: Annotated[Path, typer.Option(help="The file to write; it must not be there yet.", dir_okay=False)],
    as_json: Json = False,
) -> None:
    """Move the oldest entries to a file, also while the service runs. Keep it: the ledger's proof wants it."""
    extras.need("ledger", "server")
    from controlplane.ledger import archiving, signing

    database = _database(settings)
    try:
        key = signing.key_of(settings.data_dir)
        done = archiving.archive(database, before.replace(tzinfo=UTC), to, key, utc_now())
    except (TailwrightError, OSError) as error:
        fail(str(error), 1)
    finally:
        database.close()
    if as_json:
        last = None if done is None else {"id": done.last.id, "hash": done.last.hash}
        print_json({"file": str(to), "first": None if done is None else done.first, "last": last})
        return
    if done is None:
        typer.echo(f"no entry is from before {before:%Y-%m-%d}: nothing is moved")
        return
    typer.echo(f"entries {done.first} to {done.last.id} are in {to}; make a copy, and keep it with the others")
    typer.echo(f"head {done.last.id}:{done.last.hash}")


@app.command("head")
@with_settings("TAILWRIGHT_")
def head(settings: StoreSettings, as_json: Json = False) -> None:
    """Print the newest entry's number and hash, signed with the data directory's key, as JSON."""
    extras.need("ledger", "server")
    from controlplane.ledger import inspection, signing

    database = _database(settings)
    try:
        found = inspection.newest(database)
    finally:
        database.close()
    print_json(signing.signed(found, signing.key_of(settings.data_dir)), in_one_line=not as_json)


def _database(settings: StoreSettings) -> "Database":
    from controlplane.db.database import Database

    if settings.database_url is None and not settings.database_file.is_file():
        fail(f"{settings.database_file}: there is no database; say where it is with --data-dir or --database-url")
    return Database(settings.url)


def _told(text: str, data_dir: Path) -> "list[LedgerHead]":
    """The head that is given as ID:HASH; or, their signatures looked at, as ID:HASH:SIGNATURE, or those in a file.

    A line that a crash has cut off is passed over, and told.
    """
    from pydantic import ValidationError

    from controlplane.contract.bodies.ledger import LedgerHead
    from controlplane.ledger import signing
    from controlplane.ledger.head_file import heads_in

    number, colon, rest = text.partition(":")
    sha, signed, signature = rest.partition(":")
    try:
        if colon and number.isdecimal() and not signed:
            return [LedgerHead(id=int(number), hash=sha)]
        if colon and number.isdecimal():
            told, wrong = [LedgerHead(id=int(number), hash=sha, signature=signature)], 0
        else:
            told, wrong = heads_in(Path(text))
    except (OSError, ValidationError):
        told, wrong = [], 0
    if not told:
        fail(f"{text}: neither ID:HASH, nor a webhook's Tailwright-Ledger-Head, nor a file of `tailwright ledger head`")
    if wrong:
        typer.echo(f"{text}: {wrong} lines are no heads, and are passed over", err=True)
    key = signing.key_of(data_dir)
    if not all(signing.is_signed(one, key) for one in told):
        fail(f"{text}: its signature is not by {data_dir / signing.FILENAME}", 1)
    return told
