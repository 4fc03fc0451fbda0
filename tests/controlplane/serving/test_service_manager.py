"""What a process says to who started it, over a real datagram socket."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.serving.service_manager import ALIVE, READY, STOPPING, ServiceManager
from tests.processes import free_port

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    """What listens at NOTIFY_SOCKET."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        yield listening


def test_nobody_is_told_where_nobody_listens() -> None:
    manager = ServiceManager({})
    manager.tell(READY)
    asyncio.run(manager.keep_telling())
    assert manager.alive_within_s == 0


def test_states_arrive(systemd: socket.socket) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": systemd.getsockname()})
    for state in (READY, STOPPING):
        manager.tell(state)
        assert systemd.recv(100).decode() == state


def test_an_abstract_address_is_understood() -> None:
    name = f"tailwright-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name)
        listening.settimeout(10)
        ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).tell(READY)
        assert listening.recv(100).decode() == READY


def test_signs_of_life_come_twice_as_often_as_they_are_wanted(systemd: socket.socket) -> None:
    given = {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "20000", "WATCHDOG_PID": str(os.getpid())}
    manager = ServiceManager(given)
    assert manager.alive_within_s == 0.02

    async def live() -> None:
        telling = asyncio.create_task(manager.keep_telling())
        for _ in range(3):
            assert (await asyncio.to_thread(systemd.recv, 100)).decode() == ALIVE
        telling.cancel()

    asyncio.run(live())


@pytest.mark.parametrize("more", [{"WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {}])
def test_what_is_wanted_of_another_process_is_not_given(more: dict[str, str]) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": "/nowhere", **more})
    assert manager.alive_within_s == 0
    asyncio.run(manager.keep_telling())


def test_a_listener_that_is_gone_is_told_of_once_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    manager.tell(READY)
    manager.tell(STOPPING)
    assert len(caplog.records) == 1 and READY in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("command", ["up", "agent"])
def test_a_process_says_all_of_it(command: str, systemd: socket.socket, tmp_path: Path) -> None:
    words = {
        "up": f"up --no-tuner --no-dashboard --port {free_port()} --data-dir {tmp_path}/data",
        "agent": f"agent --node n --state-dir {tmp_path}/state --enrolment-token-file {tmp_path}/token "
        "--server-url http://127.0.0.1:1",
    }[command]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TAILWRIGHT_")}
    environment |= {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "400000"}
    process = subprocess.Popen(
        [sys.executable, "-m", "controlplane.command.main", *words.split()],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        said = [systemd.recv(100).decode() for _ in range(3)]
        assert said == [READY, ALIVE, ALIVE]
        process.terminate()
        while (last := systemd.recv(100).decode()) == ALIVE:
            pass
        assert last == STOPPING and process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
