"""`tailwright people`: open sessions are listed and ended, what is kept of a person is given out and removed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controlplane.app.settings import ServiceSettings
from controlplane.auth import known_people
from controlplane.auth.known_people import Somebody
from controlplane.command.main import app
from controlplane.contract.bodies.people import Role
from controlplane.contract.clock import utc_now
from controlplane.db.database import Database
from tests.peers import service

runner = CliRunner()


@pytest.mark.slow
def test_sessions_are_listed_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with service(tmp_path / "data") as running:
        to = ["--server", running.url, "--token", running.token]
        code = running.http.post("/api/v1/sign-in-codes").json()["code"]
        secret = running.http.post("/api/v1/sessions", json={"code": code}).json()["secret"]
        held = {"Authorization": f"Bearer {secret}"}
        number = running.http.get("/api/v1/sessions/self", headers=held).json()["id"]
        listed = runner.invoke(app, ["people", "sessions", *to])
        assert listed.exit_code == 0 and "admin (token 1)" in listed.output and "127.0.0.1" in listed.output
        told = json.loads(runner.invoke(app, ["people", "sessions", "--json", *to]).stdout)
        assert told == running.http.get("/api/v1/sessions").json()
        assert runner.invoke(app, ["people", "list", *to]).output == "no person\n"
        ended = runner.invoke(app, ["people", "end-session", str(number), *to])
        assert ended.exit_code == 0
        assert running.http.get("/api/v1/nodes", headers=held).status_code == 401
        again = runner.invoke(app, ["people", "end-session", str(number), *to])
        assert again.exit_code == 1 and f"no open session {number}" in again.output


@pytest.mark.slow
def test_a_person_is_exported_and_forgotten(tmp_path: Path) -> None:
    with service(tmp_path / "data") as running:
        to = ["--server", running.url, "--token", running.token]
        settings = ServiceSettings(data_dir=tmp_path / "data")
        database, keyring = Database(settings.url), settings.keyring
        with database.session() as session:
            who = Somebody("https://issuer.example", "u1", "ada@example.com")
            for _ in range(150):  # More than a page of the ledger.
                known_people.signed_in(session, keyring, who, Role.VIEWER, utc_now())
        database.close()
        exported = runner.invoke(app, ["people", "export", "1", *to])
        assert exported.exit_code == 0, exported.output
        told = json.loads(exported.stdout)
        assert told["person"]["name"] == "ada@example.com" and told["sessions"] == []
        numbers = [entry["id"] for entry in told["entries"]]
        assert len(set(numbers)) == 150 and numbers == sorted(numbers, reverse=True)
        assert runner.invoke(app, ["people", "forget", "1", *to]).output == "person 1 is forgotten\n"
        for command in ("export", "forget"):
            gone = runner.invoke(app, ["people", command, "1", *to])
            assert gone.exit_code == 1 and "no person 1" in gone.output
