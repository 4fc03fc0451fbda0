"""`tailwright store`: look the database through, back it up while the service runs, and restore it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from controlplane.app.settings import StoreSettings, clear_store
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import TailwrightError
from controlplane.terminal import extras
from controlplane.terminal.output.printing import Json, print_json
from controlplane.terminal.service_connection import fail
from controlplane.terminal.settings_options import with_settings
from controlplane.terminal.subcommand import subcommand

if TYPE_CHECKING:
    from controlplane.telemetry.folding.backup import Restored, Unsound
    from controlplane.telemetry.folding.verify import Report

app = subcommand(help="Check, back up and restore what the service keeps.", no_args_is_help=True)


@app.command("verify")
@with_settings("TAILWRIGHT_")
def verify_store(settings: StoreSettings, as_json: Json = False) -> None:
    """Look everything through, also while the service runs; status 1 when something is not as it must be."""
    extras.need("store", "server")
    from controlplane.app.frames import frames_of
    from controlplane.db.database import Database
    from controlplane.ledger import inspection, signing
    from controlplane.telemetry.folding import verify

    if settings.database_url is None and not settings.database_file.is_file():
        fail(f"{settings.database_file}: there is no database; say where it is with --data-dir or --database-url")
    database = Database(settings.url)
    try:
        report = verify.verify(database, frames_of(settings, database))
        key = signing.key_of(settings.data_dir) if inspection.archived(database).id else None
        head, wrong = inspection.verify(database, key=key)
    finally:
        database.close()
    fine = report.sound and wrong is None
    if as_json:
        print_json({**_document(report), "fine": fine, "ledger": {"entries": head.id, "wrong": wrong}})
        raise typer.Exit(0 if fine else 1)
    _tell(report)
    typer.echo(f"ok   {head.id} ledger entries" if wrong is None else f"BAD  {wrong}")
    raise typer.Exit(0 if fine else 1)


@app.command("backup")
@with_settings("TAILWRIGHT_")
def back_up(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not be there yet.", dir_okay=False)],
    settings: StoreSettings,
    as_json: Json = False,
) -> None:
    """Copy the whole database to FILE while the service runs, and look the copy through."""
    extras.need("store", "server")
    from controlplane.telemetry.folding import backup

    if not settings.url.startswith("sqlite"):
        fail(backup.advice(settings.url, file, restoring=False))
    try:
        report = backup.backup(_file_of(settings), file)
    except backup.Unsound as unsound:
        _unsound(unsound, as_json)
    except (TailwrightError, OSError) as error:
        fail(str(error), 1)
    if as_json:
        print_json({**_document(report), "file": str(file), "key_file": str(settings.keyring.file)})
        return
    _tell(report)
    typer.echo(f"backed up to {file}. The token files in {settings.data_dir} are not part of it.")
    key_file = settings.keyring.file
    typer.echo(f"Its secrets are encrypted: keep a copy of {key_file}, which is not part of it either, apart from it.")


@app.command("restore")
@with_settings("TAILWRIGHT_")
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `tailwright store backup` has written.", dir_okay=False)],
    settings: StoreSettings,
    as_json: Json = False,
) -> None:
    """Put FILE in the place of the database; the service must not be running. The old database is set aside."""
    extras.need("store", "server")
    from controlplane.telemetry.folding import backup

    if not settings.url.startswith("sqlite"):
        fail(backup.advice(settings.url, file, restoring=True))
    try:
        done = backup.restore(file, _file_of(settings), utc_now())
    except backup.Unsound as unsound:
        _unsound(unsound, as_json)
    except (TailwrightError, OSError) as error:
        fail(str(error), 1)
    if not as_json:
        _tell_restored(file, done)
    lacking = _keys_lacking(settings)
    if as_json:
        aside = None if done.aside is None else str(done.aside)
        told = {"file": str(file), "aside": aside, "revoked_again": done.revoked, "unreadable_secrets": lacking}
        print_json({**_document(done.report), "fine": not lacking, **told})
    for key_id, count in lacking.items():
        typer.echo(f"BAD  {count} of its secrets cannot be read. {settings.keyring.lacks(key_id)}", err=True)
    raise typer.Exit(1 if lacking else 0)


@app.command("keep-revocations")
@with_settings("TAILWRIGHT_")
def keep_revocations(
    old: Annotated[
        str,
        typer.Argument(
            envvar="TAILWRIGHT_OLD_DATABASE_URL",
            help="SQLAlchemy URL of the database from before the restore; its password better by the variable.",
        ),
    ],
    settings: StoreSettings,
    as_json: Json = False,
) -> None:
    """End in a restored database (--database-url) the tokens that OLD has revoked, and everybody's sessions.

    For PostgreSQL, before a service is started with it; `restore` does this by itself on SQLite.
    """
    extras.need("store", "server")
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    from controlplane.db.database import Database
    from controlplane.db.migrate import upgrade
    from controlplane.telemetry.folding import backup

    problem = None if settings.insecure_stores else clear_store(old, None)
    if problem is not None:
        fail(problem.replace("database_url", "old", 1))
    try:
        before, after = Database(old), Database(settings.url)
    except ArgumentError:
        fail("old: wants a SQLAlchemy URL, such as postgresql+psycopg://tailwright@db.example/tailwright")
    try:
        upgrade(after)  # As the first start with it would.
        names = backup.carry_revocations(before, after, utc_now())
    except (TailwrightError, SQLAlchemyError) as error:
        fail(error.message if isinstance(error, TailwrightError) else f"database_url: {type(error).__name__}", 1)
    finally:
        before.close()
        after.close()
    if names is None:
        fail("old: cannot be read: which tokens it had revoked is not known; look at those that live now", 1)
    if as_json:
        print_json({"revoked_again": names})
        return
    _tell_revoked(names)
    typer.echo(f"{len(names)} tokens stay revoked; everybody signs in anew")


def _tell_revoked(names: list[str]) -> None:
    for name in names:
        typer.echo(f"the token {name!r} was revoked after the backup, and stays so")


def _tell_restored(file: Path, done: "Restored") -> None:
    _tell(done.report)
    typer.echo(f"restored from {file}" + (f"; what was there before is {done.aside}" if done.aside else ""))
    _tell_revoked(done.revoked or [])
    if done.revoked is None:
        typer.echo(f"BAD  {done.aside} does not say which tokens it had revoked: look at those that live now", err=True)


def _keys_lacking(settings: StoreSettings) -> dict[str, int]:
    """The keys that the restored secrets want and the file lacks, and how many secrets each."""
    from controlplane.app.tables import all_tables
    from controlplane.db.database import Database
    from controlplane.keys import reencryption

    keyring, database = settings.keyring, Database(settings.url)
    try:
        with database.snapshot() as connection:
            counts = reencryption.counts(connection, all_tables())
        return {key_id: count for key_id, count in counts.items() if keyring.find(key_id) is None}
    except TailwrightError as error:
        fail(error.message, 1)
    finally:
        database.close()


def _file_of(settings: StoreSettings) -> Path:
    """The SQLite file behind the settings."""
    from sqlalchemy import make_url

    return Path(make_url(settings.url).database or "")


def _unsound(unsound: "Unsound", as_json: bool) -> NoReturn:
    """What is wrong with the copy; leaves with status 1."""
    if as_json:
        print_json(_document(unsound.report))
    else:
        _tell(unsound.report)
    fail(unsound.message, 1)


def _document(report: "Report") -> dict[str, Any]:
    """What was looked at, and what is not as it must be."""
    found = {"findings": [str(one) for one in report.findings.all], "more_findings": report.findings.more}
    looked_at = {"frames": report.frames, "pending": report.pending, "repeats": report.repeats}
    return {"fine": report.sound, **found, **looked_at}


def _tell(report: "Report") -> None:
    for finding in report.findings.all:
        typer.echo(f"BAD  {finding}")
    if report.findings.more:
        typer.echo(f"BAD  and {report.findings.more} more")
    looked_at = f"{report.frames} frames, {report.pending} pending rows, {report.repeats} rows that recognise repeats"
    typer.echo(f"{'ok  ' if report.sound else '    '} {looked_at}")
