"""A field of a model is a flag, a variable and a key, in that order; a wrong value names where it came from."""

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typer.testing import CliRunner

from controlplane.command.main import app
from controlplane.terminal.setting_values import Bytes, Pairs
from tests.read_settings import read


class Kiln(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Its name.")
    heat_c: int = Field(default=900, ge=20, le=1400, description="How hot.")
    lit: bool = Field(default=True, description="Whether it burns.")
    mode: Literal["slow", "fast"] = Field(default="slow", description="How it burns.")
    labels: Pairs = Field(default={}, repr=False, description="What is put on it.")
    ash_bytes: Bytes | None = Field(default=None, description="How much it keeps.")
    made_inside: int = 3


def kiln(*words: str) -> Any:
    return read(Kiln, "kiln", words)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kiln.toml"
    path.write_text('[kiln]\nname = "from-file"\nheat-c = 30\nlit = false\nlabels = { a = "file" }\n')
    return path


def test_flag_then_variable_then_file_then_default(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--config", str(file)]
    assert kiln(*given) == Kiln(name="from-file", heat_c=30, lit=False, labels={"a": "file"})
    monkeypatch.setenv("TAILWRIGHT_HEAT_C", "40")
    monkeypatch.setenv("TAILWRIGHT_LIT", "yes")
    monkeypatch.setenv("TAILWRIGHT_LABELS", '{"a": "variable"}')
    assert kiln(*given) == Kiln(name="from-file", heat_c=40, labels={"a": "variable"})
    given += ["--heat-c", "50", "--no-lit", "--label", "a=flag", "--label", "b=2", "--ash-bytes", "2K"]
    assert kiln(*given) == Kiln(name="from-file", heat_c=50, lit=False, labels={"a": "flag", "b": "2"}, ash_bytes=2048)
    monkeypatch.setenv("TAILWRIGHT_NAME", "")
    assert kiln(*given).name == "from-file", "an empty variable is none"


def test_a_file_may_be_the_table_itself(tmp_path: Path) -> None:
    path = tmp_path / "kiln.toml"
    path.write_text('name = "a"\nlabel = ["a=1"]\n')
    assert kiln("--config", str(path)) == Kiln(name="a", labels={"a": "1"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name: is needed: give --name or TAILWRIGHT_NAME"),
        (["--name", "a", "--heat-c", "hot"], "heat_c: Input should be a valid integer"),
        (["--name", "a", "--heat-c", "2000"], "less than or equal to 1400, got '2000' (from --heat-c)"),
        (["--name", "a", "--mode", "wild"], "mode: Input should be 'slow' or 'fast', got 'wild' (from --mode)"),
        (["--name", "a", "--label", "secret"], "labels: wants NAME=VALUE (from --labels)"),
        (["--name", "a", "--made-inside", "4"], "No such option"),
        (["--config", "/nowhere.toml"], "--config: /nowhere.toml cannot be read"),
    ],
)
def test_what_is_wrong_is_named(words: list[str], said: str) -> None:
    assert said in kiln(*words)


def test_wrong_variables_and_keys_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kiln.toml"
    path.write_text("[kiln]\nheat_c = 1\nname = 'a'\n")
    assert f"heat_c: Input should be greater than or equal to 20, got 1 (from {path})" in kiln("--config", str(path))
    monkeypatch.setenv("TAILWRIGHT_HEAT_C", "2")
    assert "got '2' (from TAILWRIGHT_HEAT_C)" in kiln("--config", str(path))
    path.write_text("[kiln]\nheat = 1\n")
    assert "[kiln] heat: no such option, did you mean 'heat_c'?" in kiln("--config", str(path))
    path.write_text("kiln = 1\n")
    assert "[kiln] is not a table" in kiln("--config", str(path))


def test_the_help_says_all_of_it() -> None:
    said = " ".join(kiln("--help").split())
    assert "--name TEXT Its name. [env var: TAILWRIGHT_NAME; required]" in said
    assert "--heat-c INTEGER How hot. [env var: TAILWRIGHT_HEAT_C; default: 900; >=20, <=1400]" in said
    assert "--lit / --no-lit Whether it burns. [env var: TAILWRIGHT_LIT; default: on]" in said
    assert "--mode slow|fast How it burns." in said
    assert "--label, --labels NAME=VALUE What is put on it. [env var: TAILWRIGHT_LABELS, JSON]" in said
    assert "--ash-bytes BYTES How much it keeps. [env var: TAILWRIGHT_ASH_BYTES]" in said


@pytest.mark.slow
def test_every_command_of_the_group_reads_its_table_and_its_own_variables(tmp_path: Path) -> None:
    config = tmp_path / "tailwright.toml"
    config.write_text("[up]\nport = 70000\n[agent]\nnode = 'a b'\n")
    for words, variables, said in (
        (["up"], {}, f"got 70000 (from {config})"),
        (["up"], {"TAILWRIGHT_UP_PORT": "x"}, "got 'x' (from TAILWRIGHT_UP_PORT)"),
        (["up"], {"TAILWRIGHT_UP_PORT": "x", "TAILWRIGHT_PORT": "y"}, "got 'y' (from TAILWRIGHT_PORT)"),
        (["agent"], {}, f"got 'a b' (from {config})"),
        (
            ["engine"],
            {"TAILWRIGHT_ENGINE_KV_CACHE_MEMORY_BYTES": "0"},
            "(from TAILWRIGHT_ENGINE_KV_CACHE_MEMORY_BYTES)",
        ),
        (["store", "verify"], {"TAILWRIGHT_CLICKHOUSE_URL": "there"}, "(from TAILWRIGHT_CLICKHOUSE_URL)"),
    ):
        answer = CliRunner().invoke(app, ["--config", str(config), *words], env=variables)
        assert answer.exit_code == 2 and said in answer.output
