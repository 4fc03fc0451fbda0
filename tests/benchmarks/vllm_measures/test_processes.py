import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.vllm_measures.proc_files import MARK, marked
from benchmarks.vllm_measures.processes import Nursery

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
_SLEEP = """
import time
while time.process_time() < 0.1:  # Ten of the ticks in which the kernel tells CPU time.
    pass
print('up', flush=True)
time.sleep(600)
"""
_SLEEPER = [sys.executable, "-c", _SLEEP]
_DETACHER = """
import subprocess, sys, time
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)
print('up', flush=True)
time.sleep(600)
"""


@pytest.fixture
def nursery(tmp_path: Path) -> "Nursery":
    return Nursery(tmp_path)


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _until_up(log: Path) -> None:
    _until(lambda: log.exists() and "up" in log.read_text())


def test_closing_ends_children_and_what_they_detached(nursery: Nursery) -> None:
    child = nursery.start("detacher", [sys.executable, "-c", _DETACHER])
    _until_up(child.log)
    # Its environment can be read a moment after a process has begun.
    _until(lambda: len(marked(nursery.mark)) == 2)

    nursery.close()

    assert not child.is_alive
    assert not [pid for pid in marked(nursery.mark) if pid != os.getpid()]


def test_a_held_child_can_be_stopped(nursery: Nursery) -> None:
    child = nursery.start("sleeper", _SLEEPER)
    _until_up(child.log)
    child.hold()

    nursery.stop(child)
    nursery.stop(child)

    assert not child.is_alive


def test_the_same_processes_are_told_from_restarted_ones(nursery: Nursery) -> None:
    child = nursery.start("sleeper", _SLEEPER)
    _until_up(child.log)
    before = child.pids()

    assert set(before) == {child.pid}
    assert child.pids() == before
    assert child.cpu_s() > 0.0
    assert child.thread_cpu_s("no such thread") is None
    assert child.thread_cpu_s("python") is not None
    nursery.close()
    assert child.pids() != before


def test_a_child_that_ends_early_is_told_with_its_log(nursery: Nursery) -> None:
    child = nursery.start("dead", [sys.executable, "-c", "import sys; print('what went wrong'); sys.exit(3)"])

    with pytest.raises(WorkerFailed, match=r"(?s)dead ended with 3.*what went wrong"):
        child.wait_healthy("http://127.0.0.1:9/health", 30.0)


def test_others_are_not_marked(nursery: Nursery) -> None:
    other = subprocess.Popen(_SLEEPER, stdout=subprocess.DEVNULL, env={**os.environ, MARK: nursery.mark + "0"})
    try:
        assert nursery.end_detached() == []
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
