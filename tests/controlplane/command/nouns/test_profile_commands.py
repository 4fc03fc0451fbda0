"""`tailwright profiles`: a service is kept under a name, used, named for one command, forgotten."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controlplane.command.main import app
from controlplane.terminal.profiles import profiles_file
from tests.controlplane.command.nouns.plane import Plane

runner = CliRunner()


@pytest.fixture
def token_file(plane: Plane, tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(plane.token + "\n")
    return path


def run(*arguments: object, status: int = 0) -> str:
    result = runner.invoke(app, [str(one) for one in arguments])
    assert result.exit_code == status, result.output
    return result.output


def test_the_first_profile_is_used_and_another_can_be_named(plane: Plane, token_file: Path) -> None:
    assert "used from now on" in run("profiles", "add", "here", "--server", plane.url, "--token-file", token_file)
    run("profiles", "add", "away", "--server", "http://127.0.0.1:9", "--token-file", token_file)
    assert "gpu-1" in run("nodes", "list")
    assert "http://127.0.0.1:9 does not answer" in run("nodes", "list", "--profile", "away", status=1)
    assert "http://127.0.0.1:9 does not answer" in run("status", "--profile", "away", status=1)
    run("profiles", "use", "away")
    assert "http://127.0.0.1:9 does not answer" in run("nodes", "list", status=1)
    assert "gpu-1" in runner.invoke(app, ["nodes", "list"], env={"TAILWRIGHT_PROFILE": "here"}).output
    listed = json.loads(run("profiles", "list", "--json"))
    assert [(one["name"], one["is_default"]) for one in listed["items"]] == [("away", True), ("here", False)]
    assert [line.split()[0] for line in run("profiles", "list").splitlines()] == ["name", "*", "here"]
    assert "none is used now" in run("profiles", "remove", "away")
    assert "a token for http://127.0.0.1:7300 is needed" in run("nodes", "list", status=2)


def test_a_profiles_token_is_not_sent_to_another_server(plane: Plane, token_file: Path) -> None:
    run("profiles", "add", "here", "--server", plane.url, "--token-file", token_file)
    assert "a token for http://127.0.0.1:9 is needed" in run(
        "nodes", "list", "--server", "http://127.0.0.1:9", status=2
    )


def test_wrong_profiles_are_refused(plane: Plane, token_file: Path) -> None:
    assert "is not a file" in run("profiles", "add", "x", "--server", plane.url, "--token-file", "/none", status=2)
    assert "--server: wants" in run("profiles", "add", "x", "--server", "nonsense", status=2)
    assert "name: wants" in run("profiles", "add", "a b", "--server", plane.url, status=2)
    assert "client_key" in run("profiles", "add", "x", "--server", plane.url, "--client-cert", token_file, status=2)
    assert "no profile 'x'" in run("profiles", "use", "x", status=2)
    assert "no profile 'x'" in run("profiles", "remove", "x", status=2)
    assert "no profile 'x'" in run("nodes", "list", "--profile", "x", status=2)
    assert "no profile in" in run("profiles", "list")


def test_a_broken_file_is_named_and_hinders_nobody_who_names_the_server(plane: Plane, token_file: Path) -> None:
    run("profiles", "add", "here", "--server", plane.url)
    profiles_file().write_text("nonsense")
    assert f"{profiles_file()} cannot be read" in run("nodes", "list", status=2)
    assert "gpu-1" in run("nodes", "list", "--server", plane.url, "--token-file", token_file)
    env = {"TAILWRIGHT_SERVER_URL": plane.url, "TAILWRIGHT_TOKEN": plane.token}
    assert runner.invoke(app, ["nodes", "list"], env=env).exit_code == 0


def test_the_shell_completes_names_of_profiles(plane: Plane) -> None:
    run("profiles", "add", "production", "--server", plane.url)
    env = {"_TAILWRIGHT_COMPLETE": "complete_bash", "COMP_CWORD": "4"}
    for words in ("tailwright nodes list --profile pro", "tailwright profiles use pro"):
        env |= {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        assert runner.invoke(app, [], env=env, prog_name="tailwright").output.split() == ["production"]
