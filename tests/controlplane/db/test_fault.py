"""What a database refuses with, as real databases say it."""

from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from controlplane.db.database import Database
from controlplane.db.fault import DISK_FULL, READ_ONLY, named


def refusal(database: Database, *statements: str) -> DBAPIError:
    with pytest.raises(DBAPIError) as error, database.session() as session:
        for statement in statements:
            session.execute(text(statement))
    return error.value


def test_a_full_sqlite_file(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    error = refusal(
        database, "PRAGMA max_page_count = 10", "CREATE TABLE a (b)", "INSERT INTO a VALUES (zeroblob(1000000))"
    )
    assert named(error) == DISK_FULL
    database.close()


def test_a_read_only_transaction(tmp_path: Path, postgres_schema_url: str) -> None:
    postgres, sqlite = Database(postgres_schema_url), Database(f"sqlite:///{tmp_path / 'a.db'}")
    assert named(refusal(postgres, "SET TRANSACTION READ ONLY", "CREATE TABLE a (b int)")) == READ_ONLY
    assert named(refusal(sqlite, "PRAGMA query_only = 1", "CREATE TABLE a (b)")) == READ_ONLY
    postgres.close()
    sqlite.close()


def test_a_full_disk_of_postgresql(postgres_schema_url: str) -> None:
    database = Database(postgres_schema_url)
    error = refusal(database, "DO $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$")
    assert named(error) == DISK_FULL
    database.close()


def test_what_has_no_name_is_told_by_its_kind() -> None:
    assert named(ValueError("a secret")) == "ValueError"
