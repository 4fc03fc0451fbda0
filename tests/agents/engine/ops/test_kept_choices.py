"""Kernel choices outlast the process that made them, and nothing else is taken for them."""

import json
import logging
import multiprocessing
from pathlib import Path

import pytest

from agents.engine.ops.kept_choices import CACHE_VARIABLE, Choice, KeptChoices, cache_folder, read_file

IDENTITY = {"processor": "one", "threads": 2}
CHOICE = Choice("wide", 1, {"wide": {"1": 3.5, "16": 9.0}, "blas": {"1": 7.0, "16": 9.5}})


def test_what_was_added_is_read_back(tmp_path: Path) -> None:
    kept = KeptChoices(IDENTITY, tmp_path / "new")
    assert kept.read() == {}
    with kept.alone():
        kept.add("a", CHOICE)
        kept.add("b", Choice("onednn", 2, {}))
    again = KeptChoices(dict(reversed(IDENTITY.items())), tmp_path / "new")
    assert again.read() == {"a": CHOICE, "b": Choice("onednn", 2, {})}
    assert read_file(kept.path)[0]["threads"] == 2
    assert sorted(path.suffix for path in kept.path.parent.iterdir()) == [".json", ".lock"]


def test_another_processor_has_a_file_of_its_own(tmp_path: Path) -> None:
    one, other = KeptChoices(IDENTITY, tmp_path), KeptChoices({**IDENTITY, "threads": 1}, tmp_path)
    one.add("a", CHOICE)
    assert other.read() == {} and other.path != one.path


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"identity": 3}',
        json.dumps({"identity": {"format": 1, **IDENTITY}, "layers": {"a": {"kernel": "wide"}}}),
        json.dumps({"identity": {"format": 1, **IDENTITY}, "layers": {"a": {"kernel": 3, "least": 0}}}),
        json.dumps({"identity": {"format": 1, "processor": "another"}, "layers": {}}),
        json.dumps({"identity": {"format": 0, **IDENTITY}, "layers": {}}),
        "\udcff",
    ],
)
def test_a_broken_or_foreign_file_is_told_and_made_anew(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = KeptChoices(IDENTITY, tmp_path)
    kept.path.write_bytes(content.encode(errors="surrogateescape"))
    with caplog.at_level(logging.WARNING):
        assert kept.read() == {}
    assert "made anew" in caplog.text and str(kept.path) in caplog.text
    kept.add("a", CHOICE)
    assert kept.read() == {"a": CHOICE}


def test_a_folder_that_cannot_be_written_to_costs_a_measurement_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    kept = KeptChoices(IDENTITY, tmp_path / "file" / "folder")
    with caplog.at_level(logging.WARNING), kept.alone():
        kept.add("a", CHOICE)
    assert CACHE_VARIABLE in caplog.text


def _add(folder: Path, name: str) -> None:
    kept = KeptChoices(IDENTITY, folder)
    for number in range(20):
        with kept.alone():
            kept.add(f"{name}{number}", CHOICE)


@pytest.mark.slow
def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add, args=(tmp_path, name)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert len(KeptChoices(IDENTITY, tmp_path).read()) == 60


def test_the_folder_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "tailwright" / "kernel-timings"
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
