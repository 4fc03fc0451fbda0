"""`tailwright store` from a shell: what it prints, and its exit status."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import update
from typer.testing import CliRunner

from controlplane.app.settings import ServiceSettings
from controlplane.command.main import app
from controlplane.contract import metrics
from controlplane.db.database import Database
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.tables import FrameRow
from tests.controlplane.telemetry.conftest import Report
from tests.controlplane.telemetry.ingesting import ingest_metrics
from tests.made_tables import migrate

NOW = datetime(2026, 3, 1, 12, 10, tzinfo=UTC)
POSTGRESQL = "postgresql+psycopg://me:secret@localhost/tailwright"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory with a database that the service has worked in."""
    found = tmp_path / "data"
    found.mkdir()
    database = Database(ServiceSettings(data_dir=found).url)
    migrate(database)
    store = TelemetryStore(database, lambda: NOW)
    store.start()
    report = Report()
    report.histogram([0.1, 0.2])
    report.number(metrics.OUTPUT_TOKENS.name, 2)
    ingest_metrics(store, report.request)
    store.tick(NOW)
    store.close()
    database.close()
    return found


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["store", *map(str, arguments)])
    return done.exit_code, done.output


def test_a_sound_database(folder: Path) -> None:
    status, said = run("verify", "--data-dir", folder)
    assert status == 0 and said.startswith("ok") and "0 pending rows" in said
    status, said = run("verify", "--data-dir", folder, "--json")
    assert status == 0 and json.loads(said)["fine"] and json.loads(said)["findings"] == []


def test_a_damaged_one_is_told_by_the_exit_status(folder: Path) -> None:
    database = Database(ServiceSettings(data_dir=folder).url)
    with database.session() as session:
        session.connection().execute(update(FrameRow).values(frame=b"nothing"))
    database.close()
    status, said = run("verify", "--data-dir", folder)
    assert status == 1 and "BAD  frame of metric 1, 5 s at 2026-03-01T12:00:00Z" in said
    status, told = run("verify", "--data-dir", folder, "--json")
    assert status == 1 and not json.loads(told)["fine"] and f"BAD  {json.loads(told)['findings'][0]}\n" in said
    status, said = run("backup", folder / "copy.db", "--data-dir", folder)
    assert status == 1 and "is not sound" in said and not (folder / "copy.db").exists()


def test_there_and_back(folder: Path) -> None:
    status, said = run("backup", folder / "copy.db", "--data-dir", folder)
    assert status == 0 and "backed up to" in said
    status, said = run("restore", folder / "copy.db", "--data-dir", folder)
    assert status == 0 and "what was there before is" in said
    assert run("verify", "--data-dir", folder)[0] == 0


def test_programs_are_told_of_a_backup_and_its_way_back(folder: Path) -> None:
    copy = folder / "copy.db"
    status, said = run("backup", copy, "--data-dir", folder, "--json")
    told = json.loads(said)
    assert status == 0 and told["fine"] and told["file"] == str(copy) and told["frames"] > 0
    assert told["key_file"] == str(folder / "secrets.key")
    status, said = run("restore", copy, "--data-dir", folder, "--json")
    back = json.loads(said)
    assert status == 0 and back["fine"] and back["frames"] == told["frames"]
    assert Path(back["aside"]).is_file() and back["revoked_again"] == [] and back["unreadable_secrets"] == {}
    copy.write_bytes(b"nothing")
    done = CliRunner().invoke(app, ["store", "restore", str(copy), "--data-dir", str(folder), "--json"])
    assert (done.exit_code, done.stdout) == (1, "") and "is no database" in done.stderr


def test_programs_are_told_what_is_wrong_with_a_copy(folder: Path) -> None:
    database = Database(ServiceSettings(data_dir=folder).url)
    with database.session() as session:
        session.connection().execute(update(FrameRow).values(frame=b"nothing"))
    database.close()
    done = CliRunner().invoke(app, ["store", "backup", str(folder / "copy.db"), "--data-dir", str(folder), "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == 1 and not told["fine"] and told["findings"] and "is not sound" in done.stderr


def test_what_is_not_there(tmp_path: Path) -> None:
    assert run("verify", "--data-dir", tmp_path)[0] == 2
    assert run("backup", tmp_path / "copy.db", "--data-dir", tmp_path)[0] == 1
    assert run("restore", tmp_path / "copy.db", "--data-dir", tmp_path)[0] == 1


@pytest.mark.parametrize(("command", "tool"), [("backup", "pg_dump"), ("restore", "pg_restore")])
def test_postgresql_is_told_its_own_command(tmp_path: Path, command: str, tool: str) -> None:
    status, said = run(command, tmp_path / "copy.dump", "--data-dir", tmp_path, "--database-url", POSTGRESQL)
    assert status == 2 and tool in said and "secret" not in said
