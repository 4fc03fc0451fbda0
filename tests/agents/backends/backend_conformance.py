"""What every `Backend` must do. Subclass it, and give the fixtures `backend` and `driver` for the engine behind it."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pytest

from agents.backends.base import Backend, EngineUnreachable, Position
from controlplane.contract.errors import TailwrightError
from controlplane.contract.knobs import EngineConfig, Quantization
from controlplane.contract.reports.declared_knobs import kept_config


class EngineDriver(Protocol):
    """How a test moves the engine behind a backend. `has_cache_reset`: it offers a way to empty its prefix cache."""

    has_cache_reset: bool

    def emit_steps(self, count: int) -> None:
        """Make the engine run `count` steps (events)."""

    def refuse(self) -> AbstractContextManager[EngineConfig]:
        """Make the engine refuse a configuration meanwhile, and give that configuration."""

    def restart(self) -> None:
        """End the engine process and start another."""

    def vanish(self) -> None:
        """End the engine process for good."""


async def read(backend: Backend, position: Position | None, count: int) -> list[Any]:
    """The first `count` items of the stream."""
    found: list[Any] = []
    async with asyncio.timeout(10):
        async for item in backend.events(position):
            found.append(item)
            if len(found) == count:
                break
    return found


class BackendConformance:
    """The suite."""

    @pytest.fixture
    def backend(self) -> Callable[[], Backend]:
        raise NotImplementedError

    @pytest.fixture
    def driver(self) -> EngineDriver:
        raise NotImplementedError

    def test_the_stream_begins_with_a_hello_and_numbers_rise(self, backend, driver: EngineDriver) -> None:
        driver.emit_steps(5)
        hello, *events = asyncio.run(read(backend(), None, 6))
        assert hello["kind"] == "hello"
        assert hello["boot"] and hello["model"]
        numbers = [event["seq"] for event in events]
        assert numbers == sorted(set(numbers))
        assert numbers[0] >= hello["oldest"]

    def test_a_position_resumes_behind_it(self, backend, driver: EngineDriver) -> None:
        driver.emit_steps(5)
        hello, first, second, *_ = asyncio.run(read(backend(), None, 6))
        _, resumed = asyncio.run(read(backend(), Position(hello["boot"], first["seq"]), 2))
        assert resumed["seq"] == second["seq"]

    def test_another_process_starts_at_its_oldest(self, backend, driver: EngineDriver) -> None:
        driver.emit_steps(5)
        hello = asyncio.run(read(backend(), None, 1))[0]
        driver.restart()
        driver.emit_steps(2)
        again, first = asyncio.run(read(backend(), Position(hello["boot"], 4), 2))
        assert again["boot"] != hello["boot"]
        assert first["seq"] == again["oldest"]

    def test_what_was_applied_is_read_back(self, backend, driver: EngineDriver) -> None:
        wanted = EngineConfig(max_num_seqs=3, num_speculative_tokens=((2, 4), (8, 1)))

        async def run() -> None:
            made = backend()
            applied = await made.apply(wanted, 9)
            assert applied == await made.effective()
            assert applied.revision == 9
            assert {name: applied.knobs[name] for name in wanted.knobs()} == wanted.knobs()

        asyncio.run(run())

    def test_a_refused_configuration_leaves_the_last_in_force(self, backend, driver: EngineDriver) -> None:
        async def run() -> None:
            made = backend()
            before = await made.apply(EngineConfig(max_num_seqs=5), 4)
            with driver.refuse() as refused, pytest.raises(TailwrightError) as caught:
                await made.apply(refused, 5)
            assert not isinstance(caught.value, EngineUnreachable)
            assert await made.effective() == before

        asyncio.run(run())

    def test_a_knob_that_it_does_not_declare_is_refused_by_name(self, backend, driver: EngineDriver) -> None:
        async def run() -> None:
            made = backend()
            before = await made.apply(EngineConfig(max_num_seqs=5), 4)
            with pytest.raises(TailwrightError, match="no_such_flag") as caught:
                await made.apply(kept_config({"max_num_seqs": 5, "no_such_flag": 1}), 5)
            assert not isinstance(caught.value, EngineUnreachable)
            assert await made.effective() == before

        asyncio.run(run())

    def test_emptying_the_cache_says_whether_there_is_a_way_to(self, backend, driver: EngineDriver) -> None:
        async def run() -> None:
            made = backend()
            before = await made.effective()
            assert await made.reset_cache() is driver.has_cache_reset
            assert await made.effective() == before

        asyncio.run(run())

    def test_health_never_raises_and_calls_say_the_engine_is_gone(self, backend, driver: EngineDriver) -> None:
        async def run() -> None:
            made = backend()
            assert (await made.health()).healthy
            driver.vanish()
            health = await made.health()
            assert not health.healthy and health.detail
            with pytest.raises(EngineUnreachable):
                await made.effective()
            with pytest.raises(EngineUnreachable):
                await made.apply(EngineConfig(), 1)
            with pytest.raises(EngineUnreachable):
                await read(made, None, 1)
            with pytest.raises(EngineUnreachable):
                await made.reset_cache()

        asyncio.run(run())


REFUSED = EngineConfig(quantization=Quantization.FP8)
