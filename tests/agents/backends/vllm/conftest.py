"""A stand-in vLLM server as a process of its own."""

import asyncio
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import httpx
import pytest

from controlplane.serving.tls import client_context
from tests.processes import free_port

STAND_IN = Path(__file__).resolve().parent / "stand_in.py"
ALL_LIMITS = (
    "--scheduler-cls=tailwright_vllm.scheduler.live_scheduler",
    "--max-num-batched-tokens=1024",
    "--max-num-seqs=16",
    '--speculative-config={"method":"ngram","num_speculative_tokens":8}',
)


class StandInServer:
    """`vllm serve` as `stand_in.py` plays it, at one port; `folder` is shared with its plugin."""

    def __init__(self, log: Path, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        self.trusted: ssl.SSLContext | bool = True
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str, plugin: bool = True, **environment: str) -> None:
        """Start, and wait until it is healthy."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TAILWRIGHT_", "VLLM_"))}
        added = {"TAILWRIGHT_VLLM_DIR": str(self.folder)} if plugin else {"STAND_IN_NO_PLUGIN": "1"}
        command = [sys.executable, str(STAND_IN), "serve", "model", "--served-model-name=m", f"--port={self.port}"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen([*command, *flags], env={**kept, **added, **environment}, stderr=log)
        deadline = time.monotonic() + 30
        while True:
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            try:
                if httpx.get(f"{self.url}/health", trust_env=False, verify=self.trusted).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.01)

    def start_secured(self, cert: Path, key: Path, ca: Path) -> None:
        """By https alone."""
        self.url = f"https://127.0.0.1:{self.port}"
        self.trusted = client_context(ca)
        self.start(*ALL_LIMITS, f"--ssl-certfile={cert}", f"--ssl-keyfile={key}")

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(10)

    def complete(self, count: int = 1, *, prompt_tokens: int = 20, max_tokens: int = 6) -> None:
        """So many requests, one after another; each has ended when this returns."""
        body = {"model": "m", "prompt": [1] * prompt_tokens, "max_tokens": max_tokens}
        with httpx.Client(base_url=self.url, trust_env=False, timeout=30) as http:
            for _ in range(count):
                http.post("/v1/completions", json=body).raise_for_status()

    def in_flight(self, max_tokens: int) -> Thread:
        """A request that runs while the test goes on."""
        thread = Thread(target=lambda: self.complete(max_tokens=max_tokens), daemon=True)
        thread.start()
        return thread


async def eventually(condition: Callable[[], bool]) -> None:
    """Until it is true."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for may be another process.
            await asyncio.sleep(0.02)


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[[], StandInServer]]:
    made: list[StandInServer] = []

    def make() -> StandInServer:
        folder = tmp_path / f"shared{len(made)}"
        folder.mkdir()
        made.append(StandInServer(tmp_path / "stand-in.log", folder))
        return made[-1]

    yield make
    for server in made:
        server.kill()


@pytest.fixture
def server(make_server: Callable[[], StandInServer]) -> StandInServer:
    """Not started yet."""
    return make_server()
