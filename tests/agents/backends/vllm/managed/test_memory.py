"""Memory as /proc tells it."""

import os
from pathlib import Path

import pytest

from agents.backends.vllm.managed import memory
from agents.backends.vllm.managed.change_plan import Room


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(memory, "_DEVICES", ())
    (tmp_path / "meminfo").write_text("MemTotal: 900 kB\nMemAvailable:       500 kB\n")
    for pid, pss in ((7, 100), (8, 50)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "smaps_rollup").write_text(f"Rss: 999 kB\nPss:  {pss} kB\nPss_Anon: 1 kB\n")
    return tmp_path


def test_a_standby_needs_what_runs_now_and_a_tenth(proc: Path) -> None:
    assert memory.room(None, [7, 8], proc) == Room(round(150 * 1024 * 1.1), 500 * 1024)


def test_what_the_node_file_says_counts_first(proc: Path) -> None:
    assert memory.room(77, [7, 8], proc) == Room(77, 500 * 1024)


def test_resident_memory_where_shared_pages_are_not_told(proc: Path) -> None:
    (proc / "8/smaps_rollup").unlink()
    (proc / "8/status").write_text("Name: x\nVmRSS:\t 60 kB\n")
    assert memory.used_bytes([7, 8, 9], proc) == 160 * 1024


def test_what_cannot_be_known_is_said(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "running server" in memory.room(None, [9], proc).why
    monkeypatch.setattr(memory, "_DEVICES", (str(proc),))
    found = memory.room(None, [7], proc)
    assert found.needs is None and "GPU" in found.why
    assert memory.room(77, [7], proc).needs == 77
    (proc / "meminfo").unlink()
    assert memory.room(None, [7], proc).free is None


def test_this_machine_tells_it() -> None:
    assert (memory.free_bytes() or 0) > 2**20
    assert memory.used_bytes([os.getpid()]) > 2**20
