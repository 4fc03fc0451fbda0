"""The command line as a user meets it: help, missing parts, wrong input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controlplane.command.main import app
from controlplane.terminal import checkout, extras

COMMANDS = (
    "up",
    "demo",
    "agent",
    "engine",
    "tune",
    "replay",
    "traffic",
    "rollout",
    "status",
    "open",
    "load",
    "export",
    "store",
    "tokens",
    "nodes",
    "profiles",
    "ledger",
    "people",
    "doctor",
    "bench",
)
runner = CliRunner()


@pytest.fixture(autouse=True)
def no_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have profiles of their own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


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
    config = tmp_path / "tailwright.toml"
    config.write_text("[upp]\nport = 1\n")
    answer = runner.invoke(app, ["--config", str(config), "doctor"])
    assert answer.exit_code == 2
    assert "[upp] is no command" in answer.output


def test_settings_come_from_file_and_environment(tmp_path: Path) -> None:
    config = tmp_path / "tailwright.toml"
    config.write_text('[doctor]\nport = 1\nhost = "127.0.0.1"\n')
    from_file = runner.invoke(app, ["--config", str(config), "doctor"])
    assert "127.0.0.1:1" in from_file.output
    from_environment = runner.invoke(app, ["doctor"], env={"TAILWRIGHT_DOCTOR_PORT": "65000"})
    assert "127.0.0.1:65000" in from_environment.output


def test_unknown_keys_of_the_config_file_are_refused_with_the_nearest(tmp_path: Path) -> None:
    config = tmp_path / "tailwright.toml"
    for content, told in (
        ("[up]\nprot = 1\n", "[up] prot: no such option, did you mean 'port'?"),
        ("[rollout.strat]\npool = 'p'\n", "[rollout.strat] is no command"),
    ):
        config.write_text(content)
        answer = runner.invoke(app, ["--config", str(config), "doctor"])
        assert answer.exit_code == 2 and told in answer.output


def test_lists_and_subcommands_come_from_the_file(tmp_path: Path) -> None:
    config = tmp_path / "tailwright.toml"
    config.write_text("[engine]\nset = ['max_num_seq=8']\n[rollout.list]\nserver = 'http://127.0.0.1:9'\ntoken = 'x'\n")
    assert "did you mean 'max_num_seqs'?" in runner.invoke(app, ["--config", str(config), "engine"]).output
    assert "does not answer" in runner.invoke(app, ["--config", str(config), "rollout", "list"]).output
    from_environment = runner.invoke(app, ["engine"], env={"TAILWRIGHT_ENGINE_SET": "max_num_seqs=8 quantisation=int8"})
    assert "did you mean 'quantization'?" in from_environment.output


@pytest.mark.parametrize("command", [*COMMANDS, "rollout start", "rollout list", "rollout cancel"])
def test_help_says_everything_in_a_narrow_terminal_too(command: str) -> None:
    answer = runner.invoke(app, [*command.split(), "--help"], env={"COLUMNS": "60"})
    assert answer.exit_code == 0
    assert "\N{HORIZONTAL ELLIPSIS}" not in answer.output, "a cut name of a variable helps nobody"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["tune", "--pool", "p", "--objective", "e2e:x"], "--objective: wants METRIC:QUANTILE"),
        (["tune", "--pool", "p", "--objective", "e2e:2"], "--objective: "),
        (["tune", "--pool", "p", "--trials", "5000"], "--trials: "),
        (["tune", "--pool", "p", "--constraint", "itl:2<=1"], "--constraint: 'itl:2<=1': q: "),
        (["rollout", "start", "--pool", "p"], "either --set knob=value or --revision"),
        (["rollout", "start", "--revision", "1"], "--pool"),
        (["rollout", "start", "7", "--pool", "p", "--takes-back", "2"], "leave out --pool, --takes-back"),
        (["rollout", "start", "--pool", "p", "--revision", "1", "--set", "a=1"], "either --set"),
        (["rollout", "start", "--pool", "p", "--revision", "1", "--reason", "r" * 501], "reason: "),
    ],
)
def test_wrong_values_are_one_line(arguments: list[str], told: str) -> None:
    answer = runner.invoke(app, arguments, env={"TAILWRIGHT_TOKEN": "x", "TAILWRIGHT_SERVER_URL": "http://127.0.0.1:9"})
    assert answer.exit_code in (1, 2) and isinstance(answer.exception, SystemExit)
    assert told in answer.output


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--data-dir", "/proc/nowhere"], 1, "data_dir: /proc/nowhere cannot be used"),
        (["--database-url", "nonsense"], 2, "database_url: "),
        (["--database-url", "postgresql+psycopg://nobody@127.0.0.1:9/none"], 1, "the database does not answer"),
    ],
)
def test_a_service_that_cannot_start_says_why_in_one_line(
    tmp_path: Path, arguments: list[str], status: int, told: str
) -> None:
    answer = runner.invoke(app, ["up", "--data-dir", str(tmp_path / "d"), "--no-tuner", *arguments])
    assert answer.exit_code == status and isinstance(answer.exception, SystemExit)
    assert told in answer.output


def test_the_doctors_findings_are_for_programs_too(tmp_path: Path) -> None:
    answer = runner.invoke(app, ["doctor", "--json", "--data-dir", str(tmp_path), "--port", "65001"])
    told = json.loads(answer.stdout)
    assert told["fine"] is (answer.exit_code == 0)
    assert {"name", "fine", "found", "mend", "needed", "mark"} == set(told["findings"][0])


def test_the_version_is_told() -> None:
    assert runner.invoke(app, ["--version"]).output == f"tailwright {checkout.release()}\n"


@pytest.mark.parametrize("variable", ["TAILWRIGHT__", "TAILWRIGHT_INSTALL_COMPLETION", "TAILWRIGHT_SHOW_COMPLETION"])
def test_no_variable_asks_for_what_acts_and_leaves(variable: str, tmp_path: Path) -> None:
    assert variable not in runner.invoke(app, ["--help"]).output
    answer = runner.invoke(app, ["rollouts"], env={variable: "1", "HOME": str(tmp_path)})
    assert "did you mean 'rollout'?" in answer.output, "the command line was read to its end"


def test_a_command_that_is_none_is_answered_with_the_nearest() -> None:
    answer = runner.invoke(app, ["rollouts", "list"])
    assert answer.exit_code == 2 and "did you mean 'rollout'?" in answer.output


def test_status_without_a_token_says_how_to_give_one() -> None:
    answer = runner.invoke(app, ["status"])
    assert answer.exit_code == 2
    assert "--token-file" in answer.output


def test_an_unreachable_service_is_one_line(tmp_path: Path) -> None:
    answer = runner.invoke(app, ["status", "--server", "http://127.0.0.1:9", "--token", "x"])
    assert answer.exit_code == 1
    assert answer.output == "the control plane at http://127.0.0.1:9 does not answer: Connection refused\n"


@pytest.mark.slow
def test_the_console_script_is_installed() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("tailwright"), "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "control plane" in done.stdout
