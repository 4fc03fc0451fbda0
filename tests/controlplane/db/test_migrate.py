"""After an upgrade the database and the tables agree, on SQLite and on PostgreSQL."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from controlplane.app.tables import all_tables
from controlplane.contract.errors import Conflict
from controlplane.db.database import Database
from controlplane.db.migrate import MIGRATIONS, upgrade
from controlplane.db.partitions import is_table


def differences(database: Database) -> list[Any]:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "include_name": is_table})
        return list(compare_metadata(context, all_tables()))


def revision_of(database: Database) -> str | None:
    """The newest step that it has; None before the first."""
    with database.engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest() -> str:
    return max(path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


@pytest.mark.slow
def test_sqlite_agrees_and_a_second_upgrade_changes_nothing(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'schema.db'}")
    assert revision_of(database) is None
    for _ in range(2):
        upgrade(database)
        assert revision_of(database) == newest()
        assert differences(database) == []
    database.close()


def test_replicas_that_start_at_once_leave_one_schema_on_postgresql(postgres_schema_url: str) -> None:
    def start(_: int) -> list[Any]:
        database = Database(postgres_schema_url)
        upgrade(database)
        assert revision_of(database) == newest()
        found = differences(database)
        database.close()
        return found

    with ThreadPoolExecutor(3) as replicas:
        assert list(replicas.map(start, range(3))) == [[], [], []]


def test_a_step_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(f"sqlite:///{tmp_path / 'schema.db'}")
    real = command.upgrade

    def fails(*given: Any) -> None:
        real(*given)
        raise RuntimeError("killed")

    monkeypatch.setattr(command, "upgrade", fails)
    with pytest.raises(RuntimeError):
        upgrade(database)
    assert revision_of(database) is None
    monkeypatch.undo()
    upgrade(database)
    assert differences(database) == []
    database.close()


def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'schema.db'}")
    upgrade(database)
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Conflict, match="newer version has brought it to step 9999"):
        upgrade(database)
    assert revision_of(database) == "9999" and differences(database) == []
    database.close()


@pytest.mark.slow
def test_the_metadata_alone_knows_every_table(tmp_path: Path) -> None:
    """In a process that has imported nothing else: what a developer's next step is made from."""
    database = Database(f"sqlite:///{tmp_path / 'schema.db'}")
    upgrade(database)
    made = set(inspect(database.engine).get_table_names()) - {"alembic_version", "sqlite_sequence"}
    database.close()
    code = "from controlplane.app.tables import all_tables; print(*all_tables().tables)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == made
