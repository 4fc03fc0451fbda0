"""Managed servers on the stand-in for vLLM: real processes, a real proxy, real sockets."""

import asyncio
import contextlib
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx

from agents.backends.vllm.managed import ManagedVllm, server_process
from agents.backends.vllm.managed.kept_servers import Records, ServerRecord
from agents.backends.vllm.managed.run_folder import choose_run_folder
from agents.backends.vllm.node_file import load_node_file
from agents.backends.vllm.proxy.client import ProxyClient
from controlplane.contract.errors import TailwrightError
from tests.processes import free_ports

STAND_IN = Path(__file__).resolve().parents[1] / "stand_in.py"
NODE = """
executable = "{executable}"
served_model_name = "m"
port = {port}
server_ports = [{first}, {second}]
plugin = true
start_timeout_s = 90
drain_timeout_s = 60
hold_s = 90
standby = "{standby}"
stop_with_agent = {stop_with_agent}
arguments = ["--max-model-len", "64"]
[environment]
{environment}
[capacity]
max_num_batched_tokens = 256
max_num_seqs = 16
num_speculative_tokens = 4
[speculative]
method = "ngram"
[limits]
max_num_seqs = 64
[initial]
max_num_batched_tokens = 128
max_num_seqs = 8
[variants.none]
model = "plain"
[variants.int8]
model = "narrow"
arguments = ["--quantization", "int8"]
[variants.fp8]
model = "broken"
arguments = ["--quantization", "fp8"]
environment = {{ STAND_IN_FAIL = "ValueError: fp8 wants a device that has it" }}
"""


class Node:
    """A node file and state of a test's own, and what lives of them."""

    def __init__(self, folder: Path, template: str = NODE) -> None:
        self._template = template
        self.file = folder / "node.toml"
        self.state_dir = folder / "state"
        self.port, self.first, self.second = free_ports(3)
        self.settings: dict[str, str] = {"standby": "always", "stop_with_agent": "false"}
        self.environment: dict[str, str] = {}
        self.write()

    def write(self, **settings: str) -> None:
        self.settings.update(settings)
        environment = "\n".join(f'{name} = "{value}"' for name, value in self.environment.items())
        ports = {"port": self.port, "first": self.first, "second": self.second}
        values = {"executable": STAND_IN, "environment": environment, **ports, **self.settings}
        self.file.write_text(self._template.format(**values))

    def backend(self) -> ManagedVllm:
        return ManagedVllm(load_node_file(self.file), self.state_dir)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def run_dir(self) -> Path:
        return choose_run_folder(None, self.state_dir)

    @property
    def proxy(self) -> ProxyClient:
        return ProxyClient(self.run_dir / "proxy.sock")

    def records(self) -> list[ServerRecord]:
        return Records(self.state_dir).servers()

    def living(self) -> list[ServerRecord]:
        return [record for record in self.records() if server_process.is_alive(record)]

    def clear(self) -> None:
        """End all that is left."""
        for record in self.records():
            server_process.kill(record)
        with contextlib.suppress(TailwrightError):
            asyncio.run(self.proxy.stop(10.0))
        shutil.rmtree(self.run_dir, ignore_errors=True)


async def until(condition: Callable[[], Any], limit_s: float = 90.0) -> Any:
    """The condition's first true value; it may be a coroutine function."""
    deadline = time.monotonic() + limit_s
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def running(backend: ManagedVllm, limit_s: float = 90.0) -> AsyncIterator[ManagedVllm]:
    """The backend at work and healthy; what its `run` raises, the test raises."""
    work = asyncio.create_task(backend.run())

    async def healthy() -> bool:
        if work.done():
            work.result()
        return (await backend.health()).healthy

    try:
        await until(healthy, limit_s)
        yield backend
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        await backend.close()


class Clients:
    """Requests through the proxy, one after another on each of a few connections, while the test goes on."""

    def __init__(self, url: str, connections: int = 3, timeout_s: float = 90.0, verify: Any = True) -> None:
        self.answered = 0
        self.failed: list[str] = []
        self._url = url
        self._timeout_s = timeout_s
        self._verify = verify
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(connections)]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(self._timeout_s)

    async def some_more(self, count: int = 5) -> None:
        """Wait until so many more were answered."""
        before = self.answered
        await until(lambda: self.answered >= before + count, self._timeout_s)

    def _ask(self) -> None:
        body = {"model": "m", "prompt": "one two three", "max_tokens": 6, "ignore_eos": True}
        with httpx.Client(base_url=self._url, timeout=self._timeout_s, trust_env=False, verify=self._verify) as http:
            while not self._stopping.is_set():
                try:
                    answer = http.post("/v1/completions", json=body)
                except httpx.HTTPError as error:
                    self.failed.append(repr(error))
                    continue
                if answer.status_code == 200 and answer.json()["usage"]["completion_tokens"] == 6:
                    self.answered += 1
                else:
                    self.failed.append(f"{answer.status_code} {answer.text[:200]}")
