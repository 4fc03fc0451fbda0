"""Processes are recognised again, and ended to the last one; a number given to somebody else is left alone."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.backends.vllm.managed import become_server, server_process
from agents.backends.vllm.managed.kept_servers import Records, ServerRecord
from tests.processes import free_port

pytestmark = pytest.mark.slow

PARENT = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
MANY_THREADS = """
import signal, socket, sys, threading, time
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
memory = bytearray(200_000_000)  # What a dying process gives back takes a while.
for _ in range(8):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("up", flush=True)
signal.sigwait([signal.SIGTERM])
"""
Spawn = Callable[..., ServerRecord]


@pytest.fixture
def records(tmp_path: Path) -> Records:
    made = Records(tmp_path)
    made.make_folders()
    return made


@pytest.fixture
def spawn(records: Records, tmp_path: Path) -> Iterator[Spawn]:
    started: list[ServerRecord] = []

    def begin(*argv: str) -> ServerRecord:
        record = made(tmp_path, f"s-{len(started)}", list(argv))
        records.write(record)
        started.append(server_process.spawn(records.path(record.id), record, dict(os.environ), end_with_agent=False))
        return started[-1]

    yield begin
    for record in started:
        server_process.kill(record)


def made(folder: Path, server_id: str, argv: list[str]) -> ServerRecord:
    return ServerRecord(
        id=server_id, port=1, folder=folder, log=folder / "log", knobs={}, revision=1, plugin=True, cwd=folder,
        argv=argv, began=time.time(),
    )  # fmt: skip


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def test_the_process_itself_writes_down_which_it_is(records: Records, spawn: Spawn) -> None:
    record = spawn(sys.executable, "-c", "import time; print('hello', flush=True); time.sleep(600)")
    eventually(lambda: (found := records.read(record.id)) is not None and found.pid is not None)
    assert records.read(record.id) == record
    assert server_process.is_alive(record)
    eventually(lambda: record.log.exists() and record.log.read_text() == "hello\n")


def test_another_process_with_its_number_is_not_taken_for_it(spawn: Spawn) -> None:
    record = spawn(sys.executable, "-c", "import time; time.sleep(600)")
    assert record.ticks is not None
    for other in (
        record.model_copy(update={"ticks": record.ticks + 1}),
        record.model_copy(update={"machine_boot": "another"}),
        record.model_copy(update={"pid": None}),
    ):
        assert not server_process.is_alive(other)
        assert server_process.members(other) == []
        assert server_process.kill(other) == 0
    assert server_process.is_alive(record)


def test_it_ends_with_its_children_also_stubborn_ones(spawn: Spawn) -> None:
    record = spawn(sys.executable, "-c", PARENT, STUBBORN)
    eventually(lambda: record.log.exists() and "up" in record.log.read_text())
    assert len(server_process.members(record)) == 2
    asyncio.run(server_process.end(record, 0.3))
    assert server_process.members(record) == []
    assert not server_process.is_alive(record)


def test_children_are_found_when_their_parent_is_dead(spawn: Spawn) -> None:
    record = spawn(sys.executable, "-c", PARENT, STUBBORN)
    eventually(lambda: record.log.exists() and "up" in record.log.read_text())
    assert record.pid is not None
    os.kill(record.pid, 9)
    eventually(lambda: not server_process.is_alive(record))
    assert len(server_process.members(record)) == 1
    asyncio.run(server_process.killed(record))
    assert server_process.members(record) == []


def test_it_lives_until_its_last_thread_has_let_go_of_its_port(spawn: Spawn) -> None:
    """Its first thread is a zombie before."""
    for _ in range(5):
        port = free_port()
        record = spawn(sys.executable, "-c", MANY_THREADS, str(port))
        eventually(lambda: record.log.exists() and "up" in record.log.read_text())  # noqa: B023 - called here.
        assert record.pid is not None
        os.kill(record.pid, signal.SIGTERM)
        while server_process.members(record):
            pass
        socket.create_server(("127.0.0.1", port)).close()


def test_a_program_that_cannot_be_run_is_told_in_the_log(spawn: Spawn) -> None:
    record = spawn("/does/not/exist")
    eventually(lambda: not server_process.is_alive(record))
    assert "OSError: /does/not/exist cannot be run" in record.log.read_text()


def test_nothing_is_started_whose_record_is_gone(tmp_path: Path) -> None:
    arguments = [str(tmp_path / "no-record"), str(tmp_path / "log"), "0", "--", "/bin/sh", "-c", "echo ran"]
    done = subprocess.run([sys.executable, become_server.__file__, *arguments], timeout=20, check=False)
    assert done.returncode != 0
    assert "ran" not in (tmp_path / "log").read_text().splitlines()


def test_a_dead_process_has_no_start() -> None:
    child = subprocess.Popen(["/bin/true"])
    eventually(lambda: become_server.start_ticks(child.pid) is None)  # A zombie already counts as dead.
    child.wait()
    assert become_server.start_ticks(child.pid) is None
