"""The embedded backend keeps the seam's promises on the torch engine itself, with the bundled model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from agents.backends.base import Backend
from agents.backends.embedded_backend import EmbeddedBackend
from agents.backends.engine_control import EngineControl
from controlplane.contract.knobs import EngineConfig
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
