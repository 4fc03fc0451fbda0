"""The proxy as a process of its own, and how a test waits for what it tells of itself."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from agents.backends.vllm.proxy.client import ProxyClient, ProxyUnreachable
from agents.backends.vllm.proxy.state import ProxyState

ROOT = Path(__file__).resolve().parents[5]
LIMIT_S = 60.0


class ProxyProcess(ProxyClient):
    """Its client, with the address that it listens on and its log."""

    def __init__(self, folder: Path, *flags: str) -> None:
        """Every name is its own, and the shortest path passes, unless the flags say whom it answers."""
        super().__init__(folder / "proxy.sock")
        self.log = folder / "proxy.log"
        arguments = ["--host", "127.0.0.1", "--port", "0", "--control", str(self.socket_path)]
        arguments += [*flags] if "--allowed-hosts" in flags else ["--pass-paths", "/", "--allowed-hosts", "*", *flags]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "agents.backends.vllm.proxy", *arguments], cwd=ROOT, stdout=log, stderr=log
            )
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def listening(self) -> None:
        deadline = time.monotonic() + LIMIT_S
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                self.port = (await self.state()).port
            except ProxyUnreachable:
                await asyncio.sleep(0.02)
            else:
                return
        raise AssertionError(f"the proxy does not listen: {self.log.read_text()}")

    async def until(self, holds: Callable[[ProxyState], bool]) -> ProxyState:
        """The first state of which `holds` is true."""
        deadline = time.monotonic() + LIMIT_S
        while not holds(state := await self.state()):
            assert time.monotonic() < deadline, f"last seen: {state}; {self.log.read_text()}"
            await asyncio.sleep(0.01)
        return state

    async def ended(self) -> int:
        """The exit status."""
        return await asyncio.to_thread(self.process.wait, LIMIT_S)


@asynccontextmanager
async def running_proxy(folder: Path, *flags: str) -> AsyncIterator[ProxyProcess]:
    proxy = ProxyProcess(folder, *flags)
    try:
        await proxy.listening()
        yield proxy
    finally:
        proxy.process.kill()
        proxy.process.wait()
