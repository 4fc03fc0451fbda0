"""The service's memory, in which keys are: nobody of its user reads it, unless its operator has said so."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from controlplane.terminal.closed_memory import close_memory
from tests.processes import answers, free_port, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="prctl(2)")]

ROOT = Path(__file__).resolve().parents[2]
_DROP_FROM_BOUNDING_SET = 24  # prctl(2).
_READS_ANYBODY = (19, 21, 38)  # capabilities(7): CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON, which root has.
READ = "import sys; sys.stdout.buffer.write(open(f'/proc/{sys.argv[1]}/environ', 'rb').read())"


def as_a_usual_user() -> None:
    """What root executes next may not read whom it likes either."""
    for capability in _READS_ANYBODY:
        ctypes.CDLL(None).prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)


@contextmanager
def service(data: Path, *flags: str) -> Iterator[int]:
    """The process of a service that is ready."""
    port = free_port()
    words = ["up", "--data-dir", str(data), "--port", str(port), "--no-tuner", "--no-dashboard", *flags]
    command = [sys.executable, "-m", "controlplane.command.main", *words]
    process = subprocess.Popen(command, cwd=ROOT, preexec_fn=as_a_usual_user)
    url = f"http://127.0.0.1:{port}/readyz"
    try:
        wait_for("the service is ready", lambda: answers(url))
        yield process.pid
    finally:
        process.kill()
        process.wait()


def as_another_of_its_user(pid: int) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-c", READ, str(pid)]
    return subprocess.run(command, preexec_fn=as_a_usual_user, capture_output=True, check=False)


def test_what_the_service_has_in_memory_is_closed_unless_it_is_said(tmp_path: Path) -> None:
    with service(tmp_path / "closed") as pid:
        closed = as_another_of_its_user(pid)
        assert closed.returncode == 1 and b"PermissionError" in closed.stderr, closed.stderr
        assert soft_core_limit(pid) == "0"
    with service(tmp_path / "open", "--memory-dumps") as pid:
        told = as_another_of_its_user(pid)
        assert told.returncode == 0 and b"PATH=" in told.stdout, told.stderr


def soft_core_limit(pid: int) -> str:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line.split()[4] for line in lines if line.startswith("Max core file size"))


def test_a_closed_process_goes_on_measuring_itself_as_any_user() -> None:
    """`/metrics` has its memory, its processor time and its open files, though those below /proc are then root's."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            close_memory()
            registry = CollectorRegistry()
            ProcessCollector(registry=registry)
            names = sorted(family.name for family in registry.collect())
            os.write(writing, " ".join(names).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        names = told.read().split()
    os.waitpid(child, 0)
    assert {"process_open_fds", "process_resident_memory_bytes", "process_cpu_seconds"} <= set(names)
