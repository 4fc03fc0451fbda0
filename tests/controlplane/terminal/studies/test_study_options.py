"""Every field of a wanted study can be said on a command line, in the contract's own words."""

from typing import Any

import pytest
import typer

from controlplane.command.nouns import study_commands
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.terminal.studies.study_options import BY_COMMAND, space_of, suggested_of

START: Any = typer.main.get_command(study_commands.app)
OPTIONS = {parameter.name: parameter for parameter in START.commands["start"].params}
OTHERWISE = {"constraints": "constraint", "max_trials": "trials", "objective_q": "objective"}
"""Options that are called otherwise than their field."""


def test_each_field_of_the_contract_is_an_option() -> None:
    assert set(BY_COMMAND) <= set(StudyCreate.model_fields)
    assert {OTHERWISE.get(name, name) for name in StudyCreate.model_fields} <= set(OPTIONS)


def test_an_option_says_what_its_field_is_and_its_default() -> None:
    assert OPTIONS["load_replays"].opts == ["--load-replays"]
    assert OPTIONS["load_replays"].help == (
        "Replays of a trial at most, each at another load, where the objective is max_load.  [default: 7]"
    )
    assert OPTIONS["propose_rollout"].secondary_opts == ["--no-propose-rollout"]
    assert "[default: yes]" in OPTIONS["propose_rollout"].help and "repeatable" in OPTIONS["space"].help
    assert all(OPTIONS[name].default is None for name in StudyCreate.model_fields if name not in BY_COMMAND)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("max_num_seqs=16..256", {"minimum": 16, "maximum": 256, "log": False}),
        ("max_num_seqs=16..256:log", {"minimum": 16, "maximum": 256, "log": True}),
        ("max_num_seqs=16, 32", {"choices": [16, 32]}),
        ("quantization=none,int8", {"choices": ["none", "int8"]}),
        ('num_speculative_tokens=[4, "1:4,8:0"]', {"choices": [4, "1:4,8:0"]}),
    ],
)
def test_a_space_is_bounds_or_values(text: str, wanted: dict[str, Any]) -> None:
    found = space_of([text])
    assert found == {text.partition("=")[0]: wanted}
    assert StudyCreate.model_validate({"pool": "p", "space": found}).space


def test_a_configuration_is_a_text() -> None:
    found = suggested_of(["max_num_seqs=64,quantization=int8", "num_speculative_tokens=1:4,8:0,max_num_seqs=8"])
    assert found == [
        {"max_num_seqs": 64, "quantization": "int8"},
        {"num_speculative_tokens": "1:4,8:0", "max_num_seqs": 8},
    ]


@pytest.mark.parametrize("text", ["max_num_seqs", "=1..2", "max_num_seqs=", "max_num_seqs=[1"])
def test_what_is_no_range_is_told(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        space_of([text])
    assert "--space: " in capsys.readouterr().err


def test_what_is_no_configuration_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        suggested_of(["max_num_seqs"])
    assert "--suggested: wants knob=value" in capsys.readouterr().err
