"""What a standby would need, of real processes and of the node file's word."""

import os

import psutil
import pytest

from agents.backends.vllm.managed import memory
from agents.host.host_memory import proportional_bytes

NOBODY = 2**22 + 1
"""Above the largest number that Linux gives a process."""


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_DEVICES", ())


def test_a_standby_needs_what_runs_now_and_a_tenth() -> None:
    found = memory.room(None, [os.getpid(), NOBODY])
    assert found.needs == pytest.approx(1.1 * proportional_bytes([os.getpid()]), rel=0.05)
    assert found.free == pytest.approx(psutil.virtual_memory().available, rel=0.1)


def test_what_the_node_file_says_counts_first() -> None:
    assert memory.room(77, [os.getpid()]).needs == 77


def test_what_cannot_be_known_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "running server" in memory.room(None, [NOBODY]).why
    monkeypatch.setattr(memory, "_DEVICES", ("/proc",))
    found = memory.room(None, [os.getpid()])
    assert found.needs is None and "GPU" in found.why
    assert memory.room(77, [os.getpid()]).needs == 77
