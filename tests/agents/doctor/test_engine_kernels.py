"""`tailwright doctor` says which kernels the engine has chosen here."""

from pathlib import Path

import pytest

from agents.doctor.command import engine_kernels
from agents.engine.ops.kept_choices import CACHE_VARIABLE, Choice, KeptChoices
from agents.engine.ops.processor_identity import processor_name


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    return tmp_path


def test_before_the_first_start_it_says_so(folder: Path) -> None:
    finding = engine_kernels()
    assert finding.fine and "not timed yet" in finding.found and str(folder) in finding.found


def test_choices_of_this_processor_are_counted_and_others_left_out(folder: Path) -> None:
    own = KeptChoices({"processor": processor_name(), "threads": 2, "settings": {}})
    for layer, kernel in (("a", "wide"), ("b", "onednn"), ("c", "wide")):
        own.add(layer, Choice(kernel, 1, {}))
    KeptChoices({"processor": "another"}).add("a", Choice("blas", 1, {}))
    assert "2 threads: 1 onednn, 2 wide" in engine_kernels().found and "blas" not in engine_kernels().found


def test_a_broken_file_is_told(folder: Path) -> None:
    (folder / "x.json").write_text("{")
    assert "unreadable" in engine_kernels().found and "x.json" in engine_kernels().found
