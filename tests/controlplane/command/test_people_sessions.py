"""`tailwright people`: open sessions are listed with whose they are, and one is ended."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controlplane.command.main import app
from tests.peers import service

runner = CliRunner()


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
