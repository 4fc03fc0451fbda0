"""`tailwright ledger` from a shell: what it prints, and its exit status."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from controlplane import ledger
from controlplane.app.settings import ServiceSettings
from controlplane.command.main import app
from controlplane.db.database import Database
from tests.made_tables import migrate

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(ServiceSettings(data_dir=tmp_path).url)
    migrate(made)
    for number in range(3):
        append(made, f"entry {number + 1}")
    yield made
    made.close()


def append(database: Database, message: str) -> None:
    with database.session() as session:
        ledger.append(session, NOW, "me", "a.b", "a/1", message)


def run(command: str, folder: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["ledger", command, "--data-dir", str(folder), *arguments])
    return done.exit_code, done.output


def test_a_sound_ledger_and_a_head_that_was_told(database: Database, tmp_path: Path) -> None:
    status, said = run("verify", tmp_path)
    document = json.loads(run("verify", tmp_path, "--json")[1])
    assert document["fine"] and f"{document['entries']}:{document['hash']}" in said
    assert status == 0 and said.startswith("ok   3 ledger entries, head 3:")
    kept = tmp_path / "head.json"
    kept.write_text(run("head", tmp_path)[1])
    append(database, "entry 4")
    told = json.loads(kept.read_text())
    for head in (str(kept), f"3:{told['hash']}"):
        assert run("verify", tmp_path, "--head", head)[0] == 0
    status, said = run("verify", tmp_path, "--head", f"3:{'0' * 64}")
    assert status == 1 and "BAD  ledger entry 3 or one before it was changed since its hash was told" in said
    status, said = run("verify", tmp_path, "--head", f"5:{told['hash']}")
    assert status == 1 and "ledger entry 5 is missing" in said


def test_a_head_that_somebody_else_made_is_not_taken(database: Database, tmp_path: Path) -> None:
    kept = tmp_path / "head.json"
    told = json.loads(run("head", tmp_path)[1])
    kept.write_text(json.dumps({**told, "hash": "a" * 64}))
    status, said = run("verify", tmp_path, "--head", str(kept))
    assert status == 1 and "its signature is not by" in said
    for wrong in ("nothing", "3:short", str(tmp_path)):
        assert run("verify", tmp_path, "--head", wrong)[0] == 2


def test_a_wrong_row_is_told_by_both_commands(database: Database, tmp_path: Path) -> None:
    with database.session() as session:
        session.execute(text("DROP TRIGGER ledger_no_update"))
        session.execute(text("UPDATE ledger SET actor = 'nobody' WHERE id = 2"))
    status, said = run("verify", tmp_path)
    assert (status, said) == (1, "BAD  ledger entry 2 was changed\n")
    done = CliRunner().invoke(app, ["store", "verify", "--data-dir", str(tmp_path)])
    assert done.exit_code == 1 and "BAD  ledger entry 2 was changed" in done.output


def test_where_there_is_no_database(tmp_path: Path) -> None:
    assert run("verify", tmp_path)[0] == run("head", tmp_path)[0] == 2


def test_the_oldest_entries_are_archived(database: Database, tmp_path: Path) -> None:
    told, file = run("head", tmp_path)[1], tmp_path / "2026.jsonl"
    (tmp_path / "head.json").write_text(told)
    append(database, "entry 4")
    status, said = run("archive", tmp_path, "--before", "2025-12-31", "--to", str(file))
    assert (status, said) == (0, "no entry is from before 2025-12-31: nothing is moved\n")
    status, said = run("archive", tmp_path, "--before", "2026-01-02", "--to", str(file))
    assert status == 0 and said.startswith(f"entries 1 to 4 are in {file}; make a copy"), said
    status, said = run("verify", tmp_path)
    assert status == 0 and "entries 1 to 4 are archived: look them through with --archive FILE" in said
    status, said = run("verify", tmp_path, "--head", str(tmp_path / "head.json"))
    assert status == 2 and "entry 3 is archived: give the files" in said
    assert run("verify", tmp_path, "--head", str(tmp_path / "head.json"), "--archive", str(file))[0] == 0
    file.write_text(file.read_text().replace("entry 2", "entry 7"))
    status, said = run("verify", tmp_path, "--archive", str(file))
    assert status == 1 and "BAD  ledger entry 2 was changed" in said
    (tmp_path / "ledger-key").write_text("00" * 32)
    status, said = run("verify", tmp_path)
    assert status == 1 and "by another key than this service's" in said
    assert run("archive", tmp_path, "--before", "2026-01-02", "--to", str(file))[0] == 1
