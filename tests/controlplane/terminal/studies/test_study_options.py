"""What of a study is written in a form of its own."""

from typing import Any

import pytest
import typer

from controlplane.contract.bodies.studies import StudyCreate
from controlplane.terminal.studies.study_options import online_of, space_of, suggested_of


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


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["careful"], {}),
        (["step=1.5", "max_taken_back=2"], {"step": 1.5, "max_taken_back": 2}),
        (['hours={"opens": "22:00", "closes": "06:00"}'], {"hours": {"opens": "22:00", "closes": "06:00"}}),
    ],
)
def test_careful_is_the_default_in_production(texts: list[str], wanted: dict[str, Any]) -> None:
    assert online_of(texts) == wanted
    assert StudyCreate.model_validate({"pool": "p", "online": wanted}).online is not None


def test_what_is_no_field_in_production_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        online_of(["yes"])
    assert "--online: wants careful, or field=value" in capsys.readouterr().err
