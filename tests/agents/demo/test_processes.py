"""Nothing that the demo starts outlives it, whatever it has started itself."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.demo.processes import ChildDied, Processes

pytestmark = pytest.mark.slow

STUBBORN = """
import os, signal, subprocess, sys, time
if sys.argv[1] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
below = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", below], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize("leader", ["stubborn", "obedient"])
def test_what_a_child_left_behind_ends_with_it(tmp_path: Path, wait_for: Callable[..., object], leader: str) -> None:
    processes = Processes(tmp_path / "logs")
    child = processes.start("parent", ["-c", STUBBORN, leader])
    below = int(str(wait_for("it tells its child", lambda: child.log_end().strip(), 30)))
    assert alive(below)
    assert processes.resident_bytes() > 10 * 2**20
    processes.stop(grace_s=0.5)
    assert not alive(child.process.pid)
    wait_for("its child has ended", lambda: not alive(below), 10)


def test_a_program_gets_its_environment_and_folder_and_no_other(
    tmp_path: Path, wait_for: Callable[..., object]
) -> None:
    processes = Processes(tmp_path / "logs")
    child = processes.start_program(
        "env", [sys.executable, "-c", "import os; print(os.getcwd(), sorted(os.environ))"], cwd=tmp_path,
        environment={"ONLY": "1"},
    )  # fmt: skip
    child.process.wait(30)
    told = child.log.read_text()
    assert str(tmp_path) in told and "'ONLY'" in told and "'PATH'" not in told
    with pytest.raises(ChildDied, match="env ended with status 0"):
        processes.check()
    processes.stop()


def test_children_end_when_their_parent_is_killed(tmp_path: Path, wait_for: Callable[..., object]) -> None:
    parent = f"""
import sys, time
from pathlib import Path
from agents.demo.processes import Processes
child = Processes(Path({str(tmp_path)!r})).start("child", ["-c", "import time; time.sleep(600)"])
print(child.process.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, cwd=os.getcwd()) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert alive(pid)
        process.kill()
    wait_for("the child has ended", lambda: not alive(pid), 10)
