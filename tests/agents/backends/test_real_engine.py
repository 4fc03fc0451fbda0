"""The embedded backend keeps the seam's promises on the torch engine itself, with the bundled model."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from agents.backends.base import Backend
from agents.backends.embedded_backend import EmbeddedBackend
from agents.backends.engine_control import EngineControl
from controlplane.contract.knobs import EngineConfig, Quantization
from controlplane.contract.planning.memory_estimate import Fit, estimate
from tests.agents.backends.backend_conformance import REFUSED, BackendConformance
from tests.agents.backends.engine_process import EngineProcess

pytestmark = pytest.mark.slow


class RealDriver:
    has_cache_reset = True

    def __init__(self, process: EngineProcess) -> None:
        self._process = process

    def emit_steps(self, count: int) -> None:
        self._process.complete("def add(a, b):", count)

    @contextmanager
    def refuse(self) -> Iterator[EngineConfig]:
        with self._process.without_weights():
            yield REFUSED

    def restart(self) -> None:
        self._process.kill()
        self._process.start()

    def vanish(self) -> None:
        self._process.kill()


@pytest.fixture(scope="module")
def process() -> Iterator[EngineProcess]:
    made = EngineProcess()
    yield made
    made.close()


class TestEmbeddedBackendOnTheEngine(BackendConformance):
    @pytest.fixture
    def backend(self, process: EngineProcess) -> Callable[[], Backend]:
        process.start()
        return lambda: EmbeddedBackend(process.url, EngineControl.beside(process.url))

    @pytest.fixture
    def driver(self, process: EngineProcess) -> RealDriver:
        process.start()
        return RealDriver(process)


def test_its_memory_is_told_and_what_a_swap_was_said_to_hold_is_held(process: EngineProcess) -> None:
    process.start()

    async def run() -> None:
        backend = EmbeddedBackend(process.url, EngineControl.beside(process.url))
        try:
            before = await backend.effective()
            wanted = EngineConfig(quantization=Quantization.INT8).knobs()
            assert before.memory is not None
            foretold = estimate(before.memory, before.knobs, wanted)
            assert foretold.fit is Fit.FITS and foretold.old_weights == before.memory.weights_bytes
            after = await backend.apply(EngineConfig(quantization=Quantization.INT8), 2)
            assert after.memory is not None and after.memory.weights_bytes is not None
            assert foretold.weights is not None
            assert foretold.weights <= after.memory.weights_bytes <= 1.1 * foretold.weights
            assert after.memory.kv_cache_memory_bytes == before.memory.kv_cache_memory_bytes
        finally:
            await backend.apply(EngineConfig(), 3)
            await backend.close()

    asyncio.run(run())
