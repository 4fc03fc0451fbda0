"""An attached vLLM keeps the promises of every backend, on a real server.

The suite's own tests that end or restart the engine run on a server of their own; a start costs a minute.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from agents.backends.base import Backend
from agents.backends.vllm.attached import AttachedVllm
from controlplane.contract.knobs import EngineConfig
from tests.agents.backends.backend_conformance import REFUSED, BackendConformance
from tests.vllm.prompts import prompts
from tests.vllm.real_vllm import VllmServer

ENDING = ("another_process_starts_at_its_oldest", "health_never_raises_and_calls_say_the_engine_is_gone")


class RealDriver:
    """Moves a real vLLM by requests and signals."""

    has_cache_reset = True  # It is in its development mode.

    def __init__(self, server: VllmServer) -> None:
        self._server = server

    def emit_steps(self, count: int) -> None:
        assert not self._server.complete(prompts(1, seed=count)[0], 8 * count).failed  # Up to eight drafts are taken.

    @contextmanager
    def refuse(self) -> Iterator[EngineConfig]:
        yield REFUSED

    def restart(self) -> None:
        self._server.stop()
        self._server.start()

    def vanish(self) -> None:
        self._server.stop()


class TestAttachedToARealVllm(BackendConformance):
    @pytest.fixture
    def server(self, request: pytest.FixtureRequest) -> VllmServer:
        if request.node.originalname.removeprefix("test_") in ENDING:
            server: VllmServer = request.getfixturevalue("spare_server")
        else:
            server = request.getfixturevalue("vllm_server")
        return server

    @pytest.fixture
    def backend(self, server: VllmServer) -> Callable[[], Backend]:
        return lambda: AttachedVllm(server.url, server.folder)

    @pytest.fixture
    def driver(self, server: VllmServer) -> RealDriver:
        return RealDriver(server)
