"""Who can write to the database cannot change what the ledger says unseen; who was refused is heard of (SEC M6, M7)."""

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from controlplane import ledger
from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.db.database import Database
from controlplane.ledger import signing
from controlplane.ledger.chain import Wrong
from controlplane.ledger.head_file import HeadFile, heads_in
from controlplane.ledger.inspection import verify
from tests.made_tables import migrate
from tests.processes import answers, free_ports, wait_for

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[2]

CHANGES = (
    "UPDATE ledger SET actor = 'nobody' WHERE id = 2",
    "UPDATE ledger SET evidence = '{}'",
    "DELETE FROM ledger WHERE id = 2",
    "DELETE FROM ledger",
)
COPY = "(id, time, actor, kind, subject, message, evidence, hash)"
INSERTED = (
    "INSERT INTO ledger " + COPY + " SELECT {id}, time, 'nobody', kind, subject, message, evidence, hash FROM ledger"
)
OPENED = {
    "sqlite": ["DROP TRIGGER ledger_no_update", "DROP TRIGGER ledger_no_delete", "DROP TRIGGER ledger_no_replace"],
    "postgresql": ["ALTER TABLE ledger DISABLE TRIGGER ALL"],
}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    sqlite = request.param == "sqlite"
    made = Database(f"sqlite:///{tmp_path / 'l.db'}" if sqlite else request.getfixturevalue("postgres_schema_url"))
    migrate(made)
    with made.session() as session:
        for number in range(1, 5):
            ledger.append(session, NOW, "me", "a.b", "a/1", f"entry {number}", number=number)
    assert verify(made)[1] is None
    yield made
    made.close()


def execute(database: Database, *statements: str) -> None:
    with database.session() as session:
        for statement in statements:
            session.execute(text(statement))


def opened(database: Database) -> None:
    """An attacker who owns the tables takes the triggers away."""
    execute(database, *OPENED[database.engine.dialect.name])


def test_the_database_refuses_to_change_the_ledger(database: Database) -> None:
    own = ["INSERT OR REPLACE INTO ledger SELECT * FROM ledger WHERE id = 2"] if database.is_sqlite else []
    for statement in (*CHANGES, *own, *([] if database.is_sqlite else ["TRUNCATE ledger"])):
        with pytest.raises(DBAPIError, match="the ledger is append-only"):
            execute(database, statement)
    assert verify(database)[1] is None


@pytest.mark.parametrize(
    ("attack", "wrong"),
    [
        ("UPDATE ledger SET actor = 'nobody' WHERE id = 2", Wrong(2, "was changed")),
        ("UPDATE ledger SET evidence = '{\"number\": 9}' WHERE id = 3", Wrong(3, "was changed")),
        ("UPDATE ledger SET hash = '' WHERE id = 4", Wrong(4, "was changed")),
        ("DELETE FROM ledger WHERE id = 1", Wrong(1, "is missing")),
        ("DELETE FROM ledger WHERE id = 4", Wrong(4, "is missing")),
        ("DELETE FROM ledger", Wrong(1, "is missing")),
        (INSERTED.format(id=5) + " WHERE id = 4", Wrong(5, "was inserted")),
        (INSERTED.format(id=0) + " WHERE id = 4", Wrong(0, "was inserted")),
        ("UPDATE ledger_head SET entry = 3", Wrong(4, "was inserted")),
        ("UPDATE ledger_head SET hash = ''", Wrong(4, "is not the one that the head names")),
    ],
)
def test_who_takes_the_triggers_away_is_found(database: Database, attack: str, wrong: Wrong) -> None:
    opened(database)
    execute(database, attack)
    assert verify(database)[1] == wrong


def test_who_writes_a_whole_new_chain_is_found_by_a_head_kept_elsewhere(database: Database) -> None:
    told = verify(database)[0]
    opened(database)
    execute(database, "DELETE FROM ledger", "UPDATE ledger_head SET entry = 0, hash = '" + "0" * 64 + "'")
    with database.session() as session:
        for number in range(1, 6):
            ledger.append(session, NOW, "nobody", "a.b", "a/1", f"entry {number}", number=number)
    assert verify(database)[1] is None
    found = verify(database, [told])[1]
    assert found is not None and found.id == 4


@pytest.mark.slow
def test_who_writes_a_whole_new_chain_is_found_by_the_file_of_heads_that_goes_on(
    tmp_path: Path, database: Database
) -> None:
    """The service adds the heads of the new chain, too, and signs them: the older lines contradict it."""
    key, path = signing.key_of(tmp_path), tmp_path / "heads.jsonl"
    file = HeadFile(database, path, key)
    file.keep(NOW)
    opened(database)
    execute(database, "DELETE FROM ledger", "UPDATE ledger_head SET entry = 0, hash = '" + "0" * 64 + "'")
    with database.session() as session:
        for number in range(1, 8):
            ledger.append(session, NOW, "nobody", "a.b", "a/1", f"entry {number}", number=number)
    file.keep(NOW)
    assert [head.id for head in heads_in(path)[0]] == [4, 7]
    url = database.engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", "controlplane.command.main", "ledger", "verify", "--head", str(path)]
    said = subprocess.run(
        [*command, "--data-dir", str(tmp_path), "--database-url", url], cwd=ROOT, capture_output=True, text=True
    )
    assert (said.returncode, said.stdout.strip()) == (
        1,
        "BAD  ledger entry 4 or one before it was changed since its hash was told",
    )
    path.write_text(path.read_text().splitlines()[1])
    again = subprocess.run(
        [*command, "--data-dir", str(tmp_path), "--database-url", url], cwd=ROOT, capture_output=True, text=True
    )
    assert again.returncode == 0, "the new chain's own head says nothing against it"


def test_the_service_keeps_its_heads_and_says_when_it_cannot(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "heads.jsonl"
    settings = ServiceSettings(data_dir=tmp_path / "data", log_level="error", ledger_head_file=path)
    with TestClient(create_app(settings)) as client:
        wait_for("the failure is told", lambda: "background_task_failing" in client.get("/readyz").json()["degraded"])
        told = client.get("/readyz").json()["background"]["ledger_head"]
        assert told["last_error"] == "FileNotFoundError"
    path.parent.mkdir()
    with TestClient(create_app(settings)) as client:
        wait_for("the head is in the file", lambda: path.exists() and heads_in(path)[0])
        assert heads_in(path)[0][-1].id == client.get("/readyz").json()["ledger"]["id"]


@pytest.fixture
def http(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(ServiceSettings(data_dir=tmp_path, log_level="error"))) as client:
        client.headers["Authorization"] = f"Bearer {(tmp_path / 'admin-token').read_text().strip()}"
        yield client


def test_nobody_acts_in_another_s_name(http: TestClient) -> None:
    for name in ("tailwright", " Tailwright ", "agent gpu-1", "AGENT  gpu-1", "agent"):
        refused = http.post("/api/v1/tokens", json={"name": name, "scope": "read"})
        assert refused.status_code == 400 and refused.json()["error"]["detail"]["field"] == "name", name
    made = [http.post("/api/v1/tokens", json={"name": "twin", "scope": "operate"}).json() for _ in range(2)]
    for token in made:
        said = {"Authorization": f"Bearer {token['token']}"}
        assert http.post("/api/v1/configs", json={"knobs": {"max_num_seqs": token["id"]}}, headers=said).is_success
    entries = http.get("/api/v1/ledger", params={"kind": "revision.created"}).json()["items"]
    assert [(entry["actor"], entry["evidence"]["token_id"]) for entry in entries[:2]] == [
        ("twin", made[1]["id"]),
        ("twin", made[0]["id"]),
    ]


def test_the_head_is_told_and_grows(http: TestClient) -> None:
    before = http.get("/api/v1/ledger/head").json()
    assert http.get("/readyz").json()["ledger"].keys() == before.keys() == {"id", "hash", "signature"}
    assert re.fullmatch(r"sha256\.[0-9a-f]{64}", before["signature"])
    http.post("/api/v1/tokens", json={"name": "new", "scope": "read"})
    after = http.get("/api/v1/ledger/head").json()
    assert after["id"] == before["id"] + 1 and after["hash"] != before["hash"]


def test_who_is_refused_is_counted(http: TestClient) -> None:
    weak = http.post("/api/v1/tokens", json={"name": "weak", "scope": "read"}).json()["token"]
    for path in ("/api/v1/nodes", "/api/v1/ledger"):
        assert http.get(path, headers={"Authorization": ""}).status_code == 401
        assert http.get(path, headers={"Authorization": "Bearer guess"}).status_code == 401
    assert http.get("/api/v1/tokens", headers={"Authorization": f"Bearer {weak}"}).status_code == 403
    assert http.post("/v1/metrics", headers={"Authorization": "Bearer guess"}).status_code == 401
    metrics = http.get("/metrics").text
    for reason, count in (("no_token", 2), ("unknown_token", 3), ("forbidden", 1)):
        assert f'tailwright_auth_refused_total{{reason="{reason}"}} {count}.0' in metrics


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_revoked_token_s_stream_ends_and_a_restore_does_not_bring_it_back(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy.db"
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"

    def command(*arguments: Any) -> list[str]:
        return [sys.executable, "-m", "controlplane.command.main", *map(str, arguments), "--data-dir", str(data)]

    def started() -> subprocess.Popen[bytes]:
        found = subprocess.Popen(command("up", "--port", port, "--no-tuner", "--no-dashboard"), cwd=ROOT)
        wait_for("the service serves", lambda: answers(f"{url}/readyz"))
        return found

    service = started()
    try:
        admin = {"Authorization": f"Bearer {(data / 'admin-token').read_text().strip()}"}
        made = httpx.post(f"{url}/api/v1/tokens", json={"name": "eve", "scope": "read"}, headers=admin).json()
        eve = {"Authorization": f"Bearer {made['token']}"}
        subprocess.run(command("store", "backup", copy), check=True, cwd=ROOT)
        with httpx.stream("GET", f"{url}/api/v1/stream", headers=eve, timeout=40) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: quantiles"
            assert httpx.delete(f"{url}/api/v1/tokens/{made['id']}", headers=admin).is_success
            rest = list(lines)
            assert rest.count("event: quantiles") == 0 and rest.count("event: error") == 1, rest
    finally:
        service.terminate()
        service.wait()
    said = subprocess.run(
        command("store", "restore", copy), check=True, cwd=ROOT, capture_output=True, text=True
    ).stdout
    assert "the token 'eve' was revoked after the backup, and stays so" in said
    service = started()
    try:
        assert httpx.get(f"{url}/api/v1/nodes", headers=eve).status_code == 401
        assert httpx.get(f"{url}/api/v1/nodes", headers=admin).status_code == 200
        (entry,) = httpx.get(f"{url}/api/v1/ledger", params={"kind": "token.revoked"}, headers=admin).json()["items"]
        assert (entry["actor"], entry["subject"]) == ("tailwright", f"token/{made['id']}")
    finally:
        service.terminate()
        service.wait()
    assert subprocess.run(command("ledger", "verify"), check=False, cwd=ROOT).returncode == 0
