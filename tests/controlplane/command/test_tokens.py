"""`tailwright tokens`: made for 90 days, listed with its end, revoked; the secret alone on standard output."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controlplane.command.main import app
from controlplane.contract.bodies.access import TOKEN_PATTERN
from tests.peers import service

runner = CliRunner()


def test_a_token_is_made_listed_and_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with service(tmp_path / "data") as running:
        to = ["--server", running.url, "--token", running.token]
        made = runner.invoke(app, ["tokens", "create", "ci", "--scope", "operate", "--owner", "team-search", *to])
        assert made.exit_code == 0, made.output
        assert re.fullmatch(TOKEN_PATTERN + "\n", made.stdout)
        one = running.http.get("/api/v1/tokens").json()["items"][0]
        assert f"ends: {one['expires_at'][:10]}" in made.stderr
        lasting = runner.invoke(app, ["tokens", "create", "board", "--scope", "read", "--expires", "never", *to])
        assert lasting.exit_code == 0 and "ends: never" in lasting.stderr
        listed = runner.invoke(app, ["tokens", "list", *to]).output
        assert "team-search" in listed and one["expires_at"][:10] in listed and "the service" in listed
        ended = runner.invoke(app, ["tokens", "revoke", str(one["id"]), *to])
        assert ended.exit_code == 0
        assert "team-search" not in runner.invoke(app, ["tokens", "list", *to]).output
        assert "revoked" in runner.invoke(app, ["tokens", "list", "--ended", *to]).output
        unknown = runner.invoke(app, ["tokens", "revoke", "4711", *to])
        assert unknown.exit_code == 1 and "no token 4711" in unknown.output


def test_a_token_of_enrolment_is_made_with_its_rules(tmp_path: Path) -> None:
    with service(tmp_path / "data") as running:
        to = ["--server", running.url, "--token", running.token]
        rules = ["--uses", "16", "--pool", "chat", "--pool", "batch", "--role", "serving", "--nodes", "rack7-*"]
        made = runner.invoke(app, ["tokens", "create", "rack 7", "--scope", "enrol", *rules, *to])
        assert made.exit_code == 0, made.output
        one = running.http.get("/api/v1/tokens").json()["items"][0]
        expected = {"uses": 16, "pools": ["chat", "batch"], "roles": ["serving"], "nodes": "rack7-*"}
        assert one["enrolment"] == expected
        reader = runner.invoke(app, ["tokens", "create", "x", "--scope", "read", *rules, *to])
        assert reader.exit_code == 1 and "enrolment: is for tokens of scope enrol" in reader.output
        wrong = runner.invoke(app, ["tokens", "create", "x", "--scope", "enrol", "--uses", "0", *to])
        assert wrong.exit_code == 2 and "uses" in wrong.output


@pytest.mark.parametrize(("expires", "told"), [("soon", "wants a number of days"), ("9" * 12, "for ever")])
def test_an_end_that_is_none_is_refused(expires: str, told: str) -> None:
    answer = runner.invoke(app, ["tokens", "create", "ci", "--scope", "read", "--expires", expires, "--token", "x"])
    assert answer.exit_code == 2 and told in answer.output
