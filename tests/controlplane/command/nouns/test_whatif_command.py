"""`tailwright whatif`: factors as people write them, the answer as a table and in words."""

import pytest
import typer
from typer.testing import CliRunner

from controlplane.command.main import app
from controlplane.command.nouns.whatif_command import factor
from tests.controlplane.command.nouns.plane import Plane


@pytest.mark.parametrize(("text", "times"), [("2x", 2.0), ("x1.5", 1.5), ("0.5", 0.5), (" 3x ", 3.0)])
def test_factors(text: str, times: float) -> None:
    assert factor("--load", text) == times


@pytest.mark.parametrize("text", ["", "twice", "2xx3"])
def test_what_is_no_factor(text: str) -> None:
    with pytest.raises(typer.Exit):
        factor("--load", text)


def test_what_the_service_refuses_is_one_line(plane: Plane) -> None:
    assert "no pool 'nobody'" in plane.run("whatif", "--pool", "nobody", status=1).stderr
    assert "no revision in production" in plane.run("whatif", "--pool", "chat", "--load", "2x", status=1).stderr


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--load", "99x", "--load: Input should be less than or equal to 20"),
        ("--outputs", "nan", "--outputs: Input should be less than or equal to 20"),
        ("--replicas", "257", "--replicas: Input should be less than or equal to 256"),
        ("--window", "soon", "--window: 'soon' is not a duration"),
        ("--window", "1s", "--window, in seconds: Input should be greater than or equal to 30"),
        ("--good", "tfft=1", "--good tfft=1: wants ttft=SECONDS, of ttft, tpot, e2e (did you mean 'ttft'?)"),
        ("--good", "itl=1", "--good itl=1: wants ttft=SECONDS, of ttft, tpot, e2e\n"),
        ("--good", "ttft", "--good: wants ttft=SECONDS, got 'ttft'"),
        ("--good", "ttft=0", "--good ttft: Input should be greater than 0"),
        ("--good", "ttft=500ms", "--good ttft: Input should be a valid number"),
    ],
)
def test_what_is_wrong_is_told_as_it_was_typed(option: str, value: str, said: str) -> None:
    service = ("--server", "http://127.0.0.1:9", "--token", "none")
    answer = CliRunner().invoke(app, ["whatif", "--pool", "chat", option, value, *service])
    assert answer.exit_code == 2 and answer.stderr.startswith(said), answer.output
