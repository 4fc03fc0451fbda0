"""Backups of a store that is at work answer as it did; a restore never writes over anything."""

import secrets
import shlex
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text, update
from sqlmodel import select

from controlplane.auth import browser_sessions
from controlplane.auth import store as tokens
from controlplane.auth.tables import BrowserSessionRow
from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import BadRequest, Conflict, NotFound, Unauthenticated
from controlplane.db.database import Database
from controlplane.db.migrate import upgrade
from controlplane.telemetry import Question, Span
from controlplane.telemetry.folding import backup
from controlplane.telemetry.folding.verify import verify
from controlplane.telemetry.frames.sql_frames import SqlFrames
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.tables import PendingRow
from tests.controlplane.telemetry.ingesting import ingest_metrics

NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)


@pytest.fixture
def file(database: Database) -> Path:
    """The file of the database."""
    return Path(database.engine.url.database or "")


def answers(database: Database, clock: Any, start: datetime) -> Any:
    store = TelemetryStore(database, clock)
    found = store.histograms(Question("ttft", Span(start, start + timedelta(hours=1)), by=["node"], step_s=10))
    return [(one.labels, one.total.counts.tolist(), [time for time, _ in one.steps]) for one in found]


@pytest.fixture
def at_work(store: TelemetryStore, make_report: Any, clock: Any, start: datetime) -> Iterator[threading.Event]:
    """Reports come in, and are folded, while the test runs; set once there are some of both."""
    some, stop = threading.Event(), threading.Event()

    def work() -> None:
        number = 0
        while not stop.is_set():
            report = make_report(node=f"n{number % 3}", start=start + timedelta(seconds=5 * (number // 3)))
            report.histogram([0.1, 0.5])
            ingest_metrics(store, report.request)
            number += 1
            if number % 20 == 0:
                store.tick(clock() + timedelta(minutes=1))
                some.set()

    thread = threading.Thread(target=work)
    thread.start()
    yield some
    stop.set()
    thread.join()


def test_a_backup_of_a_store_at_work_is_sound_and_one_moment(
    at_work: threading.Event, file: Path, tmp_path: Path, clock: Any, start: datetime
) -> None:
    assert at_work.wait(30)
    target = tmp_path / "backup.db"
    report = backup.backup(file, target)
    assert report.sound and report.frames > 0
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.glob("backup.db*")] == ["backup.db"]
    counts = [sum(one[1]) for one in answers(Database(f"sqlite:///{target}"), clock, start)]
    # One sender, a node after the other: no moment has seen one node report twice more than another.
    assert len(counts) == 3 and max(counts) - min(counts) <= 2 and sum(counts) >= 40


def test_what_is_restored_answers_as_before(
    store: TelemetryStore, database: Database, file: Path, tmp_path: Path, make_report: Any, clock: Any, start: datetime
) -> None:
    def send(seconds: int) -> None:
        report = make_report(start=start + timedelta(seconds=seconds))
        report.histogram([0.1, 0.5, 2.0])
        ingest_metrics(store, report.request)

    for seconds in range(0, 60, 5):
        send(seconds)
    store.tick(clock())
    send(600)
    before = answers(database, clock, start)
    target = tmp_path / "copies" / "backup.db"
    target.parent.mkdir()
    backup.backup(file, target)
    send(700)
    assert answers(database, clock, start) != before
    store.close()
    database.close()
    restored = backup.restore(target, file, NOW)
    report, aside = restored.report, restored.aside
    assert report.sound and aside == file.with_name("tailwright.db.before-20260302T093000Z") and aside.is_file()
    assert answers(Database(f"sqlite:///{file}"), clock, start) == before
    assert target.is_file()


def test_a_restore_makes_a_database_where_none_was(file: Path, store: TelemetryStore, tmp_path: Path) -> None:
    backup.backup(file, tmp_path / "backup.db")
    new = tmp_path / "elsewhere" / "tailwright.db"
    assert backup.restore(tmp_path / "backup.db", new, NOW).aside is None
    assert new.stat().st_mode & 0o777 == 0o600


def test_a_damaged_database_gets_no_backup_of_that_name(
    store: TelemetryStore, database: Database, file: Path, tmp_path: Path, make_report: Any
) -> None:
    report = make_report()
    report.histogram([0.1])
    ingest_metrics(store, report.request)
    with database.session() as session:
        session.connection().execute(update(PendingRow).values(points=b"nothing of the kind"))
    with pytest.raises(backup.Unsound, match="pending row 1") as caught:
        backup.backup(file, tmp_path / "backup.db")
    assert len(caught.value.report.findings.all) == 1
    assert not (tmp_path / "backup.db").exists() and (tmp_path / "backup.db.partial").exists()


def test_a_damaged_backup_replaces_nothing(
    file: Path, store: TelemetryStore, database: Database, tmp_path: Path
) -> None:
    backup.backup(file, tmp_path / "backup.db")
    with sqlite3.connect(tmp_path / "backup.db") as connection:
        connection.execute("INSERT INTO telemetry_pending VALUES (7, 1, 1, '2026-03-01', x'00')")
    store.close()
    database.close()
    before = file.read_bytes()
    with pytest.raises(backup.Unsound):
        backup.restore(tmp_path / "backup.db", file, NOW)
    (tmp_path / "text").write_text("not a database " * 100)
    with pytest.raises(BadRequest):
        backup.restore(tmp_path / "text", file, NOW)
    assert file.read_bytes() == before


@pytest.mark.slow
def test_a_restore_is_refused_while_the_service_runs(file: Path, store: TelemetryStore, tmp_path: Path) -> None:
    backup.backup(file, tmp_path / "backup.db")
    program = "import sys; from controlplane.telemetry.folding import backup as b; from datetime import datetime, UTC; "
    program += "from pathlib import Path; b.restore(Path(sys.argv[1]), Path(sys.argv[2]), datetime.now(UTC))"
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "backup.db", file], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0 and "is in use" in done.stderr


def test_nothing_is_written_over(file: Path, store: TelemetryStore, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    target.write_text("precious")
    with pytest.raises(Conflict, match="is there already"):
        backup.backup(file, target)
    assert target.read_text() == "precious"
    with pytest.raises(NotFound):
        backup.backup(tmp_path / "nowhere.db", tmp_path / "other.db")
    with pytest.raises(NotFound):
        backup.restore(tmp_path / "nowhere.db", file, NOW)


def test_postgresql_has_its_own_tools() -> None:
    url = "postgresql+psycopg://me:secret@there:5433/tailwright"
    said = backup.advice(url, Path("b.dump"), restoring=False)
    assert "pg_dump --format=custom --file b.dump" in said and "there:5433/tailwright" in said and "secret" not in said
    said = backup.advice(url, Path("b.dump"), restoring=True).replace("'", "")
    assert "createdb --maintenance-db" in said and "there:5433/tailwright tailwright_restored" in said
    assert "pg_restore --single-transaction" in said and "there:5433/tailwright_restored b.dump" in said
    assert "tailwright store keep-revocations postgresql+psycopg://me:***@there:5433/tailwright --database-url" in said
    assert "--clean" not in said and "secret" not in said


def test_an_old_database_that_cannot_be_read_is_told_and_ends_the_sessions_all_the_same(
    database: Database, tmp_path: Path
) -> None:
    with database.session() as session:
        view = tokens.issue(session, name="t", scope=Scope.READ, now=NOW)[0]
        browser_sessions.begin(session, NOW, token_id=view.id)
    nothing = Database(f"sqlite:///{tmp_path / 'nothing.db'}")
    assert backup.carry_revocations(nothing, database, NOW) is None
    nothing.close()
    with database.session() as session:
        assert not session.exec(select(BrowserSessionRow)).all()


def test_the_commands_for_postgresql_bring_everything_into_a_database_beside(
    postgres_url: str, tmp_path: Path, make_report: Any, clock: Any, start: datetime
) -> None:
    server = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    made = [f"drill_{secrets.token_hex(4)}"]
    made.append(f"{made[0]}_restored")
    urls = [make_url(postgres_url).set(database=name).render_as_string(hide_password=False) for name in made]
    if shutil.which("pg_restore") is None:
        pytest.fail("no pg_restore here: deploy/test_packages.sh installs PostgreSQL's programs")
    try:
        with server.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {made[0]}"))
        database = Database(urls[0])
        upgrade(database)
        store = TelemetryStore(database, clock)
        store.start()
        for seconds in range(0, 60, 5):
            report = make_report(start=start + timedelta(seconds=seconds))
            report.histogram([0.1, 0.5, 2.0])
            ingest_metrics(store, report.request)
        store.tick(clock())
        store.close()
        before = answers(database, clock, start)
        with database.session() as session:
            stays, ends = (tokens.issue(session, name=name, scope=Scope.READ, now=NOW)[0].id for name in ("s", "e"))
            browser_sessions.begin(session, NOW, token_id=stays)
        for restoring in (False, True):
            said = backup.advice(urls[0], tmp_path / "b.dump", restoring=restoring)
            for line in said.splitlines():
                if line.startswith("  "):
                    words = shlex.split(line)
                    if words[0] == "tailwright":
                        words[:1] = [sys.executable, "-m", "controlplane.command.main"]
                    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
                    assert done.returncode == 0, f"{line}: {done.stderr}"
            if not restoring:
                with database.session() as session:
                    tokens.revoke(session, ends, actor="me", now=NOW)
        restored = Database(urls[1])
        try:
            assert before and answers(restored, clock, start) == before
            assert verify(restored, SqlFrames(restored)).sound
            assert "the token 'e' was revoked after the backup, and stays so" in done.stdout
            with restored.session() as session:
                lives = {
                    view.name: view.revoked_at is None for view in tokens.listing(session, before_id=None, limit=9)
                }
                assert lives == {"s": True, "e": False}
                assert not session.exec(select(BrowserSessionRow)).all(), "everybody signs in anew"
        finally:
            restored.close()
            database.close()
    finally:
        with server.connect() as connection:
            for name in made:
                connection.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        server.dispose()


def test_a_restore_signs_nobody_in_who_has_signed_out_since(database: Database, file: Path, tmp_path: Path) -> None:
    with database.session() as session:
        view = tokens.issue(session, name="t", scope=Scope.READ, now=NOW)[0]
        secret = browser_sessions.begin(session, NOW, token_id=view.id).secret
        code = browser_sessions.make_code(session, view.id, NOW).code
    backup.backup(file, tmp_path / "backup.db")
    new = tmp_path / "new.db"
    backup.restore(tmp_path / "backup.db", new, NOW)
    restored = Database(f"sqlite:///{new}")
    try:
        with pytest.raises(Unauthenticated):
            browser_sessions.authenticate_session(restored, secret, NOW)
        with restored.session() as session:
            assert browser_sessions.start(session, code, NOW) is None
            assert tokens.get(session, view.id) is not None
    finally:
        restored.close()
