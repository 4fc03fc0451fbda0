"""`tailwright secrets`: the keys that secrets in the database are encrypted with."""

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
    from controlplane.db.database import Database

app = subcommand(help="Check and change the keys that encrypt secrets in the database.", no_args_is_help=True)


@app.command("check")
@with_settings("TAILWRIGHT_")
def check(settings: StoreSettings, as_json: Json = False) -> None:
    """Read every secret, also while the service runs, and count them by key; status 1 when one cannot be read."""
    database = _database(settings)
    from controlplane.app.tables import all_tables
    from controlplane.keys import Undecryptable, reencryption

    keyring, unreadable = settings.keyring, []
    try:
        with database.snapshot() as connection:
            for one in reencryption.stored(connection, all_tables()):
                try:
                    keyring.decrypt(one.place, one.text)
                except Undecryptable as error:
                    unreadable.append({"place": str(one.place), "why": error.message})
            counts = reencryption.counts(connection, all_tables())
        keys = [
            {"key": key_id, "secrets": count, "known": keyring.find(key_id) is not None}
            for key_id, count in counts.items()
        ]
    except TailwrightError as error:
        fail(error.message, 1)
    finally:
        database.close()
    if as_json:
        print_json({"fine": not unreadable, "unreadable": unreadable, "keys": keys})
        raise typer.Exit(1 if unreadable else 0)
    for found in unreadable:
        typer.echo(f"BAD  {found['place']}: {found['why']}")
    for key in keys:
        typer.echo(f"{'ok  ' if key['known'] else 'BAD '} {key['secrets']} secrets with the key {key['key']}")
    raise typer.Exit(1 if unreadable else 0)


@app.command("new-key")
@with_settings("TAILWRIGHT_")
def new_key(settings: StoreSettings, as_json: Json = False) -> None:
    """Add a key to the file without using it: copy the file to every other replica, then rotate."""
    database = _database(settings)
    from controlplane.keys import reencryption

    keyring = settings.keyring
    try:
        keyring.open(database)
        key_id = reencryption.add_key(database, keyring)
    except TailwrightError as error:
        fail(error.message, 1)
    finally:
        database.close()
    if as_json:
        print_json({"file": str(keyring.file), "key": key_id})
        return
    typer.echo(f"{keyring.file} has the key {key_id} too; `tailwright secrets rotate` takes it into use")


@app.command("rotate")
@with_settings("TAILWRIGHT_")
def rotate(settings: StoreSettings, as_json: Json = False) -> None:
    """Encrypt every secret with another key, in one transaction, also while the service runs; the old key is dropped.

    Backups that were made before want the old file: keep a copy of it as long as you keep them.
    """
    database = _database(settings)
    from controlplane.app.tables import all_tables
    from controlplane.keys import reencryption

    keyring = settings.keyring
    try:
        keyring.open(database)
        key_id, count = reencryption.rotate(database, keyring, all_tables(), utc_now())
        if not as_json:
            typer.echo(f"{count} secrets encrypted with the new key {key_id}")
        alone = reencryption.drop_others(database, keyring, all_tables(), key_id)
    except TailwrightError as error:
        fail(error.message, 1)
    finally:
        database.close()
    if as_json:
        print_json({"file": str(keyring.file), "key": key_id, "secrets": count, "alone": alone})
    elif alone:
        typer.echo(f"{keyring.file} holds it alone. Keep a copy of the file apart from backups of the database.")
    else:
        typer.echo("Somebody has rotated again since: that other key is the one in use.")


@app.command("forget")
@with_settings("TAILWRIGHT_")
def forget(
    settings: StoreSettings,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it they are only named.")] = False,
    as_json: Json = False,
) -> None:
    """Remove secrets whose key is lost: destinations and hooks (make them anew), and the key that hashes prompts."""
    database = _database(settings)
    from controlplane.app import lost_secrets

    try:
        lost = lost_secrets.forget(database, settings.keyring, utc_now(), only_name=not yes)
    except TailwrightError as error:
        fail(error.message, 1)
    finally:
        database.close()
    if as_json:
        print_json({"lost": lost, "removed": yes})
        return
    for words in lost:
        typer.echo(f"{'removed' if yes else 'would remove'}: {words}")
    if not lost:
        typer.echo("every secret can be read: nothing is removed")


def _database(settings: StoreSettings) -> "Database":
    extras.need("secrets", "server")
    from controlplane.db.database import Database

    if settings.database_url is None and not settings.database_file.is_file():
        fail(f"{settings.database_file}: there is no database; say where it is with --data-dir or --database-url")
    return Database(settings.url)
