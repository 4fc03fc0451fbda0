"""A server that dies is started again, and the proxy too; meanwhile requests wait."""

import asyncio
import os
import signal
from contextlib import suppress

import pytest

from agents.backends.base import EngineUnreachable
from agents.backends.vllm.managed import server_process
from controlplane.contract.knobs import EngineConfig
from tests.agents.backends.vllm.managed.managed_node import Clients, Node, running, until

pytestmark = pytest.mark.slow

LAST_GOOD = EngineConfig(max_num_batched_tokens=64, max_num_seqs=4, num_speculative_tokens=2)


def test_a_server_that_dies_comes_back_with_the_last_good_configuration(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend()) as backend:
            await backend.apply(LAST_GOOD, 6)
            first = node.living()[0]
            server_process.kill(first)
            await until(lambda: not server_process.is_alive(first))
            with Clients(node.url) as clients:  # Its requests come while no server runs.
                await clients.some_more()
            assert not clients.failed
            await until(lambda: len(node.living()) == 1)
            assert node.living()[0].id != first.id
            effective = await backend.effective()
            assert effective.knobs == LAST_GOOD.knobs() and effective.revision == 6

    asyncio.run(run())


def test_one_that_dies_again_and_again_is_told_with_its_last_words(node: Node) -> None:
    node.environment["STAND_IN_FAIL"] = "RuntimeError: the device is on fire"
    node.write()

    async def run() -> None:
        backend = node.backend()
        work = asyncio.create_task(backend.run())
        try:

            async def told() -> str:
                health = await backend.health()
                assert not health.healthy
                return health.detail if "2 times" in health.detail and "is started in" in health.detail else ""

            detail = await until(told)
            assert "the device is on fire" in detail
            with pytest.raises(EngineUnreachable, match="on fire"):
                await backend.effective()
            # The fleet's next wish is tried in its place: it may well be the mend.
            node.environment.clear()
            node.write()
            backend._node.environment.pop("STAND_IN_FAIL")

            async def applied() -> bool:
                with suppress(EngineUnreachable):
                    return (await backend.apply(LAST_GOOD, 3)).revision == 3
                return False

            await until(applied)
            assert (await backend.health()).healthy
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            await backend.close()

    asyncio.run(run())


def test_one_that_never_becomes_healthy_is_stopped_and_started_again(node: Node) -> None:
    node.environment["STAND_IN_SICK"] = "1"
    node.write()
    node.file.write_text(node.file.read_text().replace("start_timeout_s = 90", "start_timeout_s = 1"))

    async def run() -> None:
        backend = node.backend()
        work = asyncio.create_task(backend.run())
        first = await until(node.living)
        await until(lambda: [one.id for one in node.living()] not in ([], [first[0].id]))
        assert not server_process.is_alive(first[0])
        assert not (await backend.health()).healthy
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        await backend.close()

    asyncio.run(run())


def test_a_proxy_that_dies_is_replaced_and_sends_requests_on(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend()):
            before = (await node.proxy.state()).pid
            os.kill(before, signal.SIGKILL)

            async def replaced() -> bool:
                with suppress(Exception):
                    state = await node.proxy.state()
                    return state.pid != before and state.target is not None
                return False

            await until(replaced)
            with Clients(node.url) as clients:
                await clients.some_more()
            assert not clients.failed

    asyncio.run(run())
