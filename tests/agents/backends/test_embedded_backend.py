"""The embedded backend over HTTP keeps the seam's promises; checked on a stand-in engine."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from agents.backends.base import Backend
from agents.backends.embedded_backend import EmbeddedBackend
from agents.backends.engine_control import EngineControl
from controlplane.contract.errors import Conflict
from controlplane.contract.knobs import ChangeClass, EngineConfig, Quantization
from tests.agents.backends.backend_conformance import REFUSED, BackendConformance
from tests.agents.backends.fake_engine import FakeEngine, step_event
from tests.agents.served_app import ServedApp


def of(served: ServedApp) -> EmbeddedBackend:
    """The stand-in answers clients and control on one port."""
    return EmbeddedBackend(served.url, EngineControl(url=served.url))


class FakeDriver:
    has_cache_reset = True

    def __init__(self, engine: FakeEngine, served: ServedApp) -> None:
        self._engine, self._served = engine, served

    def emit_steps(self, count: int) -> None:
        self._engine.emit(*(step_event(time.time()) for _ in range(count)))

    @contextmanager
    def refuse(self) -> Iterator[EngineConfig]:
        self._engine.refuse_with = Conflict("this device cannot run fp8")
        yield REFUSED

    def restart(self) -> None:
        self._engine.restart("boot-2")

    def vanish(self) -> None:
        self._engine.gone = True
        self._served.stop()


class TestEmbeddedBackend(BackendConformance):
    @pytest.fixture
    def backend(self, served_engine: ServedApp) -> Callable[[], Backend]:
        return lambda: of(served_engine)

    @pytest.fixture
    def driver(self, engine: FakeEngine, served_engine: ServedApp) -> FakeDriver:
        return FakeDriver(engine, served_engine)


def test_what_changes_cost_is_measured_by_class(served_engine: ServedApp) -> None:
    async def run() -> None:
        backend = of(served_engine)
        await backend.apply(EngineConfig(max_num_seqs=4), 1)
        await backend.apply(EngineConfig(max_num_seqs=4), 2)  # Nothing to change.
        found = await backend.apply(EngineConfig(max_num_seqs=4, quantization=Quantization.INT8), 3)
        live, swap = found.costs[ChangeClass.LIVE], found.costs[ChangeClass.SWAP]
        assert (live.count, live.unavailable_s) == (1, 0.0)
        assert swap.count == 1 and swap.unavailable_s == swap.last_s > 0

    asyncio.run(run())
