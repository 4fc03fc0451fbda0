"""Tables that tests make by a copy or by noted statements are those of the real thing."""

import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from controlplane.db.database import Database
from controlplane.db.migrate import upgrade
from tests.made_tables import copy, migrate, repeat


def repeated(database: Database) -> None:
    repeat(database, "an upgrade on SQLite", lambda: upgrade(database))


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("again", [migrate, repeated])
def test_what_is_made_again_is_what_an_upgrade_makes(
    tmp_path: Path, again: Callable[[Database], None], times: int
) -> None:
    found = []
    for name, make in (("real", upgrade), *((f"again{number}", again) for number in range(times))):
        made = Database(f"sqlite:///{tmp_path / name}.db")
        make(made)
        with made.engine.connect() as connection:
            step = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
            rows = connection.execute(text("SELECT type, name, sql FROM sqlite_master ORDER BY type, name")).all()
            found.append((step, [tuple(row) for row in rows]))
        made.close()
    assert len(found[0][1]) > 50 and all(one == found[0] for one in found)


COLUMNS = """SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
    WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position"""
INDEXES = """SELECT tablename, replace(indexdef, schemaname, '') FROM pg_indexes
    WHERE schemaname = current_schema() ORDER BY 1, 2"""
CONSTRAINTS = """SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = current_schema()::regnamespace ORDER BY 1, 2"""


def test_what_is_said_again_to_postgresql_makes_the_same(postgres_url: str) -> None:
    server, found = create_engine(postgres_url), []
    for again in (False, True, True):
        schema = f"made_{secrets.token_hex(6)}"
        with server.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA {schema}"))
        made = Database(f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-csearch_path%3D{schema}")
        if again:
            repeat(made, "an upgrade on PostgreSQL", partial(upgrade, made))
        else:
            upgrade(made)
        with made.engine.connect() as connection:
            found.append([connection.execute(text(query)).all() for query in (COLUMNS, INDEXES, CONSTRAINTS)])
        made.close()
        with server.begin() as connection:
            connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    server.dispose()
    assert min(map(len, found[0])) > 50 and found[1] == found[0] and found[2] == found[0]


def test_a_copy_holds_nothing_that_was_written_since(tmp_path: Path) -> None:
    for name in ("first", "second"):
        made = Database(f"sqlite:///{tmp_path / name}.db")
        copy(made, "a table", partial(_create, made))
        with made.engine.begin() as connection:
            assert connection.execute(text("SELECT COUNT(*) FROM thing")).scalar_one() == 0
            connection.execute(text("INSERT INTO thing VALUES (1)"))
            assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
        made.close()


def _create(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE thing (number INTEGER)"))
