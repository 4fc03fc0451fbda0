"""A server to examine: the stand-in for `vllm serve`, with the real plugin in it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import answers, free_port

STAND_IN = Path(__file__).resolve().parents[1] / "stand_in.py"
SCHEDULER = ("--scheduler-cls", "tailwright_vllm.scheduler.live_scheduler")


@dataclass
class Running:
    url: str
    folder: Path
    process: "subprocess.Popen[bytes]"


@pytest.fixture
def start(tmp_path: Path, wait_for: Callable[..., object]) -> Iterator[Callable[..., Running]]:
    """`start(*flags, **environment)`: a server that answers."""
    started: list[subprocess.Popen[bytes]] = []

    def make(*flags: str, **environment: str) -> Running:
        port, folder = free_port(), tmp_path / f"share{len(started)}"
        given = {**os.environ, "TAILWRIGHT_VLLM_DIR": str(folder), "VLLM_SERVER_DEV_MODE": "1", **environment}
        command = [sys.executable, str(STAND_IN), "serve", "a-model", "--port", str(port), *flags]
        process = subprocess.Popen(
            command, env={name: value for name, value in given.items() if value}, stderr=subprocess.DEVNULL
        )
        started.append(process)
        url = f"http://127.0.0.1:{port}"
        wait_for("the server answers", lambda: answers(f"{url}/version"), 30)
        return Running(url, folder, process)

    yield make
    for process in started:
        process.kill()
        process.wait()
