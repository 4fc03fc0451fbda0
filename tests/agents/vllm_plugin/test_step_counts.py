"""Steps counted in one process and read in another: each once, whatever happens to the file."""

import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tailwright_vllm import surprises
from tailwright_vllm.step_counts import StepCounts, StepGrowth
from tailwright_vllm.step_limit import LIMITS


def _count(counts: StepCounts, *limits: str) -> None:
    for limit in limits:
        counts.count(limit)
    counts.write()


def _told(growth: StepGrowth) -> dict[str, int]:
    """Whenever they were counted."""
    told = Counter[str]()
    for by_limit in growth.take().values():
        told.update(by_limit)
    return dict(told)


@given(looks=st.lists(st.lists(st.sampled_from(LIMITS), max_size=9), max_size=9))
def test_each_step_is_told_once(tmp_path_factory: pytest.TempPathFactory, looks: list[list[str]]) -> None:
    folder = tmp_path_factory.mktemp("share")
    counts, growth = StepCounts(folder), StepGrowth(folder)
    for steps in looks:
        _count(counts, *steps)
        assert _told(growth) == {limit: steps.count(limit) for limit in LIMITS if limit in steps}


def test_what_was_counted_before_is_not_told(tmp_path: Path) -> None:
    counts = StepCounts(tmp_path)
    _count(counts, "chunk")
    growth = StepGrowth(tmp_path)
    assert _told(growth) == {}
    _count(counts, "chunk")
    assert _told(growth) == {"chunk": 1}


def test_a_new_run_counts_from_its_start(tmp_path: Path) -> None:
    before, growth = StepCounts(tmp_path), StepGrowth(tmp_path)
    _count(before, "chunk", "chunk")
    assert _told(growth) == {"chunk": 2}
    _count(StepCounts(tmp_path), "chunk", "chunk", "chunk", "no_work")
    assert _told(growth) == {"chunk": 3, "no_work": 1}


def test_a_run_that_begins_after_the_reader_is_told_whole(tmp_path: Path) -> None:
    growth = StepGrowth(tmp_path / "share")
    _count(StepCounts(tmp_path / "share"), "drafts")
    assert _told(growth) == {"drafts": 1}


def test_ranks_are_added_up(tmp_path: Path) -> None:
    growth = StepGrowth(tmp_path)
    for rank in (0, 1):
        _count(StepCounts(tmp_path, rank), "kv_memory", "no_work")
    assert _told(growth) == {"kv_memory": 2, "no_work": 2}


def test_a_folder_that_vanished_comes_back_with_the_next_step(tmp_path: Path) -> None:
    folder = tmp_path / "share"
    counts, growth = StepCounts(folder), StepGrowth(folder)
    _count(counts, "chunk")
    assert _told(growth) == {"chunk": 1}
    shutil.rmtree(folder)
    counts.write()
    assert _told(growth) == {} and not folder.exists(), "nothing was counted, nothing is written"
    _count(counts, "chunk", "no_work")
    assert _told(growth) == {"chunk": 1, "no_work": 1}


def test_where_it_cannot_be_written_that_is_noted_and_told_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surprises.surprises, "counts", {})
    folder = tmp_path / "share"
    folder.touch()
    counts, growth = StepCounts(folder), StepGrowth(folder)
    _count(counts, "chunk")
    assert surprises.surprises.counts == {"steps.json": 1} and _told(growth) == {}
    folder.unlink()
    counts.write()
    assert _told(growth) == {"chunk": 1}


def test_steps_are_told_by_the_second_in_which_they_were_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the file was written and read: windows of few seconds have their own steps."""
    counts, growth = StepCounts(tmp_path), StepGrowth(tmp_path)
    _count_at(monkeypatch, counts, 100.2, "chunk")
    _count_at(monkeypatch, counts, 100.9, "no_work")
    _count_at(monkeypatch, counts, 104.9, "chunk")
    _count(counts, "chunk")
    assert growth.take() == {100: {"chunk": 1, "no_work": 1}, 104: {"chunk": 2}}
    _count_at(monkeypatch, counts, 104.95, "chunk")
    _count_at(monkeypatch, counts, 105.0, "chunk")
    _count(counts)
    assert growth.take() == {104: {"chunk": 1}, 105: {"chunk": 1}}


def test_what_was_counted_before_the_seconds_that_are_told_goes_with_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, growth = StepCounts(tmp_path), StepGrowth(tmp_path)
    for second in range(100, 140):
        _count_at(monkeypatch, counts, second, "drafts")
    _count(counts)
    told = growth.take()
    assert list(told) == list(range(124, 140))
    assert [by_limit["drafts"] for by_limit in told.values()] == [25, *[1] * 15]


def _count_at(monkeypatch: pytest.MonkeyPatch, counts: StepCounts, at_s: float, limit: str) -> None:
    monkeypatch.setattr(time, "time", lambda: at_s)
    counts.count(limit)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"run": 1, "steps": 3}',
        b'{"run": 1, "steps": {"chunk": "x"}}',
        b'{"run": 1, "steps": {}, "seconds": []}',
        b'{"run": 1, "steps": {}, "seconds": [[0, 3]]}',
        b"[" * 9999,
    ],
)
def test_a_damaged_file_counts_nothing(tmp_path: Path, content: bytes) -> None:
    counts, growth = StepCounts(tmp_path), StepGrowth(tmp_path)
    _count(counts, "chunk")
    path = tmp_path / "steps.json"
    good = path.read_bytes()
    path.write_bytes(content)
    assert _told(growth) == {}
    path.write_bytes(good)
    assert _told(growth) == {"chunk": 1}
