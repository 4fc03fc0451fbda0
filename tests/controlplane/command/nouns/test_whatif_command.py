"""`tailwright whatif`: factors as people write them, the answer as a table and in words."""

import pytest
import typer

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
    assert "load" in plane.run("whatif", "--pool", "chat", "--load", "99x", status=2).stderr
    assert "duration" in plane.run("whatif", "--pool", "chat", "--window", "soon", status=2).stderr
    assert "ttft" in plane.run("whatif", "--pool", "chat", "--good", "itl=1", status=2).stderr
    assert "--good: wants" in plane.run("whatif", "--pool", "chat", "--good", "ttft", status=2).stderr
    assert "greater than 0" in plane.run("whatif", "--pool", "chat", "--good", "ttft=0", status=2).stderr
