"""Brings a database to the present schema. The steps are in `migrations/versions`.

Guarantee: an upgrade is one transaction; several replicas that start at once do it one after another. A database that
a newer version has brought further is refused, and left as it is: there is no way down but a backup.
"""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, text

from controlplane.contract.errors import Conflict
from controlplane.db.database import Database

MIGRATIONS = Path(__file__).with_name("migrations")

_LOCK_KEY = 0x7461696C77726967  # "tailwrig": any constant, the same in every replica.


def config(**attributes: Any) -> Config:
    """Alembic's configuration; `connection` and `metadata` are handed to env.py as attributes."""
    made = Config()
    made.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    made.attributes.update(attributes)
    return made


def upgrade(database: Database) -> None:
    """Apply every step that is missing. Raises `Conflict` where a newer version has applied one unknown here."""
    with database.engine.begin() as connection:
        _wait_for_other_replicas(database, connection)
        _refuse_newer(connection)
        command.upgrade(config(connection=connection), "head")


def write_step(database: Database, metadata: MetaData, message: str, number: str) -> None:
    """Write a new step from the difference between an upgraded database and `metadata`, to be checked by hand."""
    with database.engine.begin() as connection:
        command.revision(config(connection=connection, metadata=metadata), message, autogenerate=True, rev_id=number)


def _refuse_newer(connection: Connection) -> None:
    has = MigrationContext.configure(connection).get_current_revision()
    if has is not None and has not in {step.revision for step in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}:
        raise Conflict(
            f"database: a newer version has brought it to step {has}, which this one does not know: start that version "
            "again, or restore a backup from before its first start",
            field="database_url",
        )


def _wait_for_other_replicas(database: Database, connection: Connection) -> None:
    # SQLite needs nothing: its transactions here begin with the write lock.
    if not database.is_sqlite:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
