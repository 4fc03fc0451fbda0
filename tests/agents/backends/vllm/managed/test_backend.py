"""The managed backend keeps the seam's promises, on real processes of the stand-in for vLLM."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from agents.backends.base import Backend
from agents.backends.vllm.managed import server_process
from controlplane.contract.knobs import EngineConfig
from tests.agents.backends.backend_conformance import REFUSED, BackendConformance
from tests.agents.backends.vllm.managed.managed_node import Node, running

pytestmark = pytest.mark.slow


class ManagedDriver:
    """An agent before this one has started the server, or will; the backend under test finds it."""

    has_cache_reset = False  # Its server is not in its development mode.

    def __init__(self, node: Node) -> None:
        self._node = node
        self.start()

    def start(self) -> None:
        async def until_it_serves() -> None:
            async with running(self._node.backend()):
                pass

        asyncio.run(until_it_serves())

    def emit_steps(self, count: int) -> None:
        """Each token but the first takes a step of its own."""
        body = {"model": "m", "prompt": "a", "max_tokens": count}
        httpx.post(f"{self._node.url}/v1/completions", json=body, timeout=20, trust_env=False).raise_for_status()

    @contextmanager
    def refuse(self) -> Iterator[EngineConfig]:
        yield REFUSED

    def restart(self) -> None:
        self.vanish()
        self.start()

    def vanish(self) -> None:
        for record in self._node.living():
            server_process.kill(record)
        while self._node.living():
            time.sleep(0.01)


class TestManagedVllm(BackendConformance):
    @pytest.fixture
    def backend(self, node: Node) -> Callable[[], Backend]:
        return node.backend

    @pytest.fixture
    def driver(self, node: Node) -> ManagedDriver:
        return ManagedDriver(node)
