"""A plain layer gets the quickest way that keeps a row's bits, once, and says so. What each takes is made up."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from agents.engine.ops.kept_choices import CACHE_VARIABLE
from agents.engine.quantization import plain_choice
from agents.engine.quantization.plain import Blas, PlainLinear, SingleRows, Wide
from agents.engine.quantization.plain_choice import build, candidates
from agents.engine.quantization.row_bits import rows_are_their_own
from agents.engine.quantization.trial import ROWS, Times

OUTPUTS, INPUTS = 300, 256


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(plain_choice, "_decided", {})
    monkeypatch.setattr(plain_choice, "_spent_s", 0.0)
    return tmp_path


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Makes the last candidate the quickest; returns what was timed."""
    calls: list[list[str]] = []

    def take(ways: Mapping[str, Any], *rest: Any) -> Times:
        calls.append(list(ways))
        return Times({name: dict.fromkeys(ROWS, 1.0 / (1 + place)) for place, name in enumerate(ways)}, quiet=True)

    monkeypatch.setattr(plain_choice, "times_of", take)
    return calls


def weight(dtype: torch.dtype = torch.float32, outputs: int = OUTPUTS) -> Tensor:
    return torch.randn((outputs, INPUTS), generator=torch.Generator().manual_seed(1)).to(dtype)


def own_bits(_: PlainLinear, *rest: Any) -> bool:
    return True


def test_the_quickest_is_taken_kept_and_said(
    timed: list[list[str]], monkeypatch: pytest.MonkeyPatch, nothing_known: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plain_choice, "rows_are_their_own", own_bits)
    with caplog.at_level(logging.INFO):
        layer = build(weight(), None)
    names = [candidate.name for candidate in candidates(torch.float32, "auto")]
    assert isinstance(layer, Blas) and timed == [names] and layer.microseconds.keys() == set(names)
    assert "at most 5 s" in caplog.text and f"{OUTPUTS} x {INPUTS} float32" in caplog.text
    monkeypatch.setattr(plain_choice, "_decided", {})  # Another process.
    assert isinstance(build(weight(), None), Blas) and len(timed) == 1
    assert len(list(nothing_known.glob("*.json"))) == 1
    build(weight(outputs=OUTPUTS + 1), None)
    assert len(timed) == 2


def test_a_way_whose_bits_depend_on_the_batch_is_not_taken(
    timed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_choice, "rows_are_their_own", lambda *_: False)
    layer = build(weight(), None)
    assert isinstance(layer, Wide | SingleRows)
    assert isinstance(build(weight(), None, "torch"), SingleRows)


def test_rows_are_padded_to_the_fewest_that_help(timed: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_choice, "rows_are_their_own", lambda layer, *_: layer.least >= 3)
    layer = build(weight(), None)
    assert isinstance(layer, Blas) and layer.least == 4


def test_without_time_left_the_first_is_taken_and_not_kept(
    timed: list[list[str]], monkeypatch: pytest.MonkeyPatch, nothing_known: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plain_choice, "_spent_s", plain_choice.BUDGET_S)
    with caplog.at_level(logging.WARNING):
        layer = build(weight(), None)
    assert not timed and "no time left" in caplog.text and not layer.microseconds
    assert not list(nothing_known.glob("*.json"))


def test_beside_others_the_first_is_taken_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, nothing_known: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def disturbed(ways: Mapping[str, Any], *rest: Any) -> Times:
        return Times({name: dict.fromkeys(ROWS, 1.0 / (1 + place)) for place, name in enumerate(ways)}, quiet=False)

    monkeypatch.setattr(plain_choice, "times_of", disturbed)
    with caplog.at_level(logging.WARNING):
        layer = build(weight(), None)
    first = candidates(torch.float32, "auto")[0].build(weight(), None)
    assert type(layer) is type(first) and not layer.microseconds
    assert "too busy to time kernels" in caplog.text and not list(nothing_known.glob("*.json"))


def test_a_small_layer_is_not_timed(timed: list[list[str]]) -> None:
    build(weight(outputs=8), None)
    assert not timed


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_whatever_is_chosen_here_keeps_a_rows_bits(dtype: torch.dtype, kernels: str) -> None:
    for candidate in candidates(dtype, kernels):
        least = plain_choice._least(candidate, weight(dtype), None)
        layer = candidate.build(weight(dtype), None)
        if candidate.is_ours:
            assert rows_are_their_own(layer, layer.size, dtype)
        else:
            assert least in (None, *plain_choice._LEASTS)
    layer = build(weight(dtype), weight(dtype)[:, 0].contiguous(), kernels)
    assert rows_are_their_own(layer, layer.size, dtype)
    assert rows_are_their_own(SingleRows(weight(dtype), None), layer.size, dtype)


def test_bits_that_depend_on_the_number_of_rows_are_seen() -> None:
    def unlike(rows: Tensor) -> Tensor:
        return rows.sum(dim=1, keepdim=True) * (1.0 + 1e-6 * (rows.shape[0] == 17))

    assert not rows_are_their_own(unlike, (1, INPUTS), torch.float32)
