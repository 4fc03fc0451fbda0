"""The sampler on a made-up machine, and on this one."""

import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.host.host_sampler import LOOKS_AT_ONCE, Sampler
from agents.host.neighbours import Neighbours
from controlplane.contract import metrics

Write = Callable[[str, str], None]


def machine(write: Write, at_s: int, engine_ticks: int, *, start: int = 100) -> None:
    """Two CPUs of which one is busy; the engine is process 10."""
    write("proc/stat", f"cpu {100 * at_s} 0 0 {100 * at_s} 0 0 0 0\ncpu0 1\ncpu1 1\nprocs_running 4\n")
    fields = " ".join(["S", "1", "1", "1", "0", "-1", "0", "0", "0", "7", "0", str(engine_ticks), "0", "0", "0", "20"])
    write("proc/10/stat", f"10 (x) {fields} 0 1 0 {start} 0 0")


def sampler(tmp_path: Path, url: str = "http://127.0.0.1:7400", **more: object) -> Sampler:
    proc = tmp_path / "proc"
    neighbours = Neighbours(tmp_path / "neighbours", "chat", proc, agent_pid=1)
    return Sampler(url, neighbours, proc=proc, control_groups=tmp_path / "cgroup", **more)  # type: ignore[arg-type]


def test_the_first_call_has_nothing_to_compare_with(tmp_path: Path, write: Write) -> None:
    clock = iter((10.0, 15.0))
    made = sampler(tmp_path, known=lambda: [10], clock=lambda: next(clock))
    machine(write, 10, 0)
    assert made.sample() == {}
    machine(write, 15, 200)
    found = made.sample()
    assert found[metrics.HOST_ENGINE_CPU] == pytest.approx(0.2)
    assert found[metrics.HOST_OTHER_CPU] == pytest.approx(0.3)
    assert found[metrics.HOST_MAJOR_FAULTS] == 0.0


def test_an_engine_that_is_not_found_is_said_once_and_looked_for_again(
    tmp_path: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    seconds = iter(range(10, 1000, 5))
    made = sampler(tmp_path, clock=lambda: float(next(seconds)))
    for step in range(LOOKS_AT_ONCE + 2):
        machine(write, 10 + 5 * step, 0)
        assert metrics.HOST_OTHER_CPU not in made.sample()
    said = [record.message for record in caplog.records if "no process" in record.message]
    assert len(said) == 1 and "http://127.0.0.1:7400" in said[0]


def test_a_replaced_engine_is_found_again(tmp_path: Path, write: Write) -> None:
    seconds = iter(range(10, 1000, 5))
    made = sampler(tmp_path, clock=lambda: float(next(seconds)))
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    write("proc/net/tcp", head + "   0: 0100007F:1CE8 00000000:0000 0A 0:0 0:0 0 0 0 555 1\n")
    (tmp_path / "proc/10/fd").mkdir(parents=True)
    (tmp_path / "proc/10/fd/3").symlink_to("socket:[555]")
    machine(write, 10, 50)
    made.sample()
    machine(write, 15, 100)
    assert made.sample()[metrics.HOST_ENGINE_CPU] == pytest.approx(0.05)
    machine(write, 20, 10, start=1600)  # Another process with the same number, begun after the last look.
    assert made.sample()[metrics.HOST_ENGINE_CPU] == pytest.approx(0.01)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="wants Linux's /proc")
def test_this_machine_is_measured(tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        made = Sampler(url, Neighbours(tmp_path, "chat"))
        made.sample()
        while not (found := made.sample()).get(metrics.HOST_ENGINE_CPU):  # Until a clock tick of ours was counted.
            sum(range(100_000))
    assert made._roots == [os.getpid()]
    assert 0.0 <= found[metrics.HOST_OTHER_CPU] <= 1.0 and found[metrics.HOST_CPUS] >= 1
