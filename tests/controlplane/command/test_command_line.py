"""The command line as a user meets it: help, missing parts, wrong input."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controlplane.command import checkout, extras
from controlplane.command.main import app

COMMANDS = ("up", "demo", "agent", "engine", "tune", "replay", "rollout", "status", "doctor", "bench")
runner = CliRunner()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    answer = runner.invoke(app, [command, "--help"])
    assert answer.exit_code == 0
    assert "usage" in answer.output.lower()


def test_a_missing_extra_names_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.PROBES, "engine", ("no_such_module_anywhere",))
    answer = runner.invoke(app, ["engine"])
    assert answer.exit_code == 2
    assert "no_such_module_anywhere" in answer.output
    assert "-e '.[engine]'" in answer.output


def test_a_package_from_elsewhere_is_refused(tmp_path: Path) -> None:
    wrong = checkout.foreign_packages(tmp_path)
    assert len(wrong) == len(checkout.PACKAGES)
    assert "pip install -e ." in checkout.refusal(wrong)


def test_unknown_table_in_the_config_file_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "trimtab.toml"
    config.write_text("[upp]\nport = 1\n")
    answer = runner.invoke(app, ["--config", str(config), "doctor"])
    assert answer.exit_code == 2
    assert "[upp] is no command" in answer.output


def test_settings_come_from_file_and_environment(tmp_path: Path) -> None:
    config = tmp_path / "trimtab.toml"
    config.write_text('[doctor]\nport = 1\nhost = "127.0.0.1"\n')
    from_file = runner.invoke(app, ["--config", str(config), "doctor"])
    assert "127.0.0.1:1" in from_file.output
    from_environment = runner.invoke(app, ["doctor"], env={"TRIMTAB_DOCTOR_PORT": "65000"})
    assert "127.0.0.1:65000" in from_environment.output


def test_status_without_a_token_says_how_to_give_one() -> None:
    answer = runner.invoke(app, ["status"])
    assert answer.exit_code == 2
    assert "--token-file" in answer.output


def test_an_unreachable_service_is_one_line(tmp_path: Path) -> None:
    answer = runner.invoke(app, ["status", "--server", "http://127.0.0.1:9", "--token", "x"])
    assert answer.exit_code == 1
    assert "does not answer" in answer.output


def test_the_console_script_is_installed() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("trimtab"), "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "control plane" in done.stdout
