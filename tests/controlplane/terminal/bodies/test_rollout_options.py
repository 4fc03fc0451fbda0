"""What of a rollout is written in a form of its own."""

import pytest
import typer

from controlplane.terminal.bodies.rollout_options import levels_of


def test_levels_are_quantiles_by_metric() -> None:
    assert levels_of(["ttft=0.9, 0.99", "itl=0.99"]) == {"ttft": [0.9, 0.99], "itl": [0.99]}


@pytest.mark.parametrize("text", ["ttft", "ttft=", "ttft=high"])
def test_what_is_no_level_is_told(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        levels_of([text])
    assert "--levels: wants METRIC=QUANTILE" in capsys.readouterr().err
