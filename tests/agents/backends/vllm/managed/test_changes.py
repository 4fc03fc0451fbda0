"""Changes under a stream of requests: none fails, whatever becomes of the change."""

import asyncio
import json
from typing import Any

import pytest

from agents.backends.base import Backend, EngineUnreachable, Position
from agents.backends.vllm.managed.changes import ChangeFailed
from controlplane.contract.errors import KnobOutOfRange
from controlplane.contract.knobs import ChangeClass, EngineConfig, Quantization
from tests.agents.backends.vllm.managed.managed_node import Clients, Node, running, until

pytestmark = pytest.mark.slow

SMALL = EngineConfig(max_num_batched_tokens=128, max_num_seqs=8)
ABOVE = EngineConfig(max_num_batched_tokens=128, max_num_seqs=32)
INT8 = EngineConfig(max_num_seqs=8, quantization=Quantization.INT8)
BROKEN = EngineConfig(max_num_seqs=8, quantization=Quantization.FP8)


class Reader:
    """Follows a backend's events as the collector does: from its position on, again and again."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.seen: dict[str, list[int]] = {}
        self.finished: dict[str, list[str]] = {}

    async def read(self) -> None:
        position: Position | None = None
        boot = ""
        while True:
            try:
                async for item in self._backend.events(position):
                    fields: Any = item
                    if item["kind"] == "hello":
                        boot = item["boot"]
                        self.seen.setdefault(boot, [])
                        continue
                    self.seen[boot].append(fields["seq"])
                    position = Position(boot, fields["seq"])
                    if item["kind"] == "finished":
                        self.finished.setdefault(boot, []).append(fields["request_id"])
            except EngineUnreachable:
                await asyncio.sleep(0.02)

    @property
    def requests(self) -> int:
        return sum(len(one) for one in self.finished.values())


def test_a_live_change_touches_no_process(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend()) as backend:
            with Clients(node.url) as clients:
                before = node.living()
                wanted = EngineConfig(max_num_batched_tokens=64, max_num_seqs=3, num_speculative_tokens=((2, 4),))
                effective = await backend.apply(wanted, 7)
                await clients.some_more()
            assert effective.knobs == wanted.knobs()
            assert effective.revision == 7
            assert [one.id for one in node.living()] == [one.id for one in before]
            assert effective.costs[ChangeClass.LIVE].count == 1
        assert not clients.failed

    asyncio.run(run())


def test_through_a_standby_no_request_fails_or_waits_for_a_start_and_no_event_is_lost(node: Node) -> None:
    node.environment["STAND_IN_START_S"] = "0.5"
    node.write()

    async def run() -> None:
        async with running(node.backend()) as backend:
            reader = Reader(backend)
            reading = asyncio.create_task(reader.read())
            await until(lambda: reader.seen)
            with Clients(node.url) as clients:
                await clients.some_more()
                old, held_s = node.living(), (await node.proxy.state()).held_seconds_total
                effective = await backend.apply(ABOVE, 2)
                assert effective.knobs == ABOVE.knobs() and effective.revision == 2
                assert effective.live_limits["max_num_seqs"] == 32
                await clients.some_more()
                state = await node.proxy.state()
            assert not clients.failed
            assert state.held_seconds_total == held_s
            # Every request is told once, by the server that had it; the warm-up of the new one by nobody.
            await until(lambda: reader.requests == clients.answered)
            await until(lambda: len(node.living()) == 1)
            assert node.living()[0].id != old[0].id
            reading.cancel()
            assert len(reader.finished) == 2
            assert reader.requests == clients.answered
            for numbers in reader.seen.values():
                assert numbers == list(range(1, len(numbers) + 1))
            cost = effective.costs[ChangeClass.SWAP]
            assert cost.count == 1 and cost.unavailable_s == 0

    asyncio.run(run())


def test_in_a_restart_requests_wait_and_none_fails(node: Node) -> None:
    node.write(standby="never")

    async def run() -> None:
        async with running(node.backend()) as backend:
            assert (await backend.effective()).change_classes["quantization"] is ChangeClass.RESTART
            with Clients(node.url) as clients:
                await clients.some_more()
                effective = await backend.apply(INT8, 2)
                await clients.some_more()
                state = await node.proxy.state()
            assert effective.knobs == INT8.knobs()
            assert "variants.int8" in effective.sources["quantization"]
            assert not clients.failed
            assert state.held_seconds_total > 0
            cost = effective.costs[ChangeClass.RESTART]
            assert 0 < cost.unavailable_s <= cost.last_s
            assert len(node.records()) == 1

    asyncio.run(run())


@pytest.mark.parametrize("standby", ["always", "never"])
def test_what_cannot_start_is_taken_back_with_the_logs_lines(node: Node, standby: str) -> None:
    node.write(standby=standby)

    async def run() -> None:
        async with running(node.backend()) as backend:
            before = await backend.apply(SMALL, 4)
            with Clients(node.url) as clients:
                await clients.some_more()
                with pytest.raises(ChangeFailed) as caught:
                    await backend.apply(BROKEN, 5)
                assert (await backend.effective()).knobs == before.knobs
                assert (await backend.effective()).revision == 4
                await clients.some_more()
            assert not clients.failed
            assert (await backend.health()).healthy
            assert "fp8 wants a device that has it" in caught.value.message
            assert "revision 5 was taken back, revision 4 is in force" in caught.value.message
            assert len(caught.value.message) < 2500
            assert len(node.living()) == 1
            assert (await backend.effective()).costs.keys() == {ChangeClass.LIVE}

    asyncio.run(run())


def test_one_that_never_becomes_healthy_is_given_up_in_time(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend()):
            pass  # What serves has all the time it needs to start; the next agent is less patient.
        text = node.file.read_text().replace("start_timeout_s = 90", "start_timeout_s = 2")
        node.file.write_text(text.replace("STAND_IN_FAIL", "STAND_IN_HANG"))
        async with running(node.backend()) as backend:
            with Clients(node.url) as clients, pytest.raises(ChangeFailed, match="not healthy within 2 s"):
                await backend.apply(BROKEN, 5)
            assert not clients.failed
            assert (await backend.effective()).knobs["quantization"] == "none"
            assert len(node.living()) == 1

    asyncio.run(run())


def test_what_the_node_can_never_run_is_refused_by_name_and_costs_nothing(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend()) as backend:
            with pytest.raises(KnobOutOfRange, match=r"limits\.max_num_seqs") as caught:
                await backend.apply(EngineConfig(max_num_seqs=65), 5)
            assert caught.value.detail["field"] == "knobs.max_num_seqs"
            effective = await backend.effective()
            assert effective.limits["max_num_seqs"] == 64
            assert effective.formats == ["none", "int8", "fp8"]
            assert effective.change_classes["quantization"] is ChangeClass.SWAP
            assert effective.change_classes["max_num_seqs"] is ChangeClass.LIVE
            assert len(node.records()) == 1

    asyncio.run(run())


def test_what_its_memory_cannot_hold_is_refused_before_anything_is_started(node: Node) -> None:
    told = {
        "limit_bytes": 1000,
        "kv_cache_memory_bytes": 600,
        "kv_cache_least_bytes": 100,
        "logits_bytes_per_token": 10,
    }
    node.environment["STAND_IN_MEMORY"] = json.dumps(told).replace('"', '\\"')
    node.write()

    async def run() -> None:
        async with running(node.backend()) as backend:
            before = node.living()
            roomy = EngineConfig(max_num_batched_tokens=256, max_num_seqs=40)
            with pytest.raises(KnobOutOfRange, match="does not fit the memory") as caught:
                await backend.apply(roomy.model_copy(update={"num_speculative_tokens": 2}), 5)
            assert caught.value.message == (
                "knobs.max_num_seqs: it does not fit the memory: it needs at least 1.27 KiB (KV cache 100 B instead of "
                "600 B, logits 1.17 KiB) of 1000 B; at most 30, or give its engine more memory"
            )
            assert caught.value.detail["field"] == "knobs.max_num_seqs"
            assert node.living() == before
            assert (await backend.apply(roomy, 6)).knobs == roomy.knobs()  # Its cache gives way.

    asyncio.run(run())


def test_the_active_server_dies_while_its_standby_starts(node: Node) -> None:
    node.environment["STAND_IN_START_S"] = "1"
    node.write()

    async def run() -> None:
        async with running(node.backend()) as backend:
            change = asyncio.create_task(backend.apply(ABOVE, 2))
            await until(lambda: len(node.living()) == 2)
            from agents.backends.vllm.managed import server_process

            server_process.kill(node.living()[0])
            await until(lambda: len(node.living()) == 1)
            with Clients(node.url) as clients:
                effective = await change
                await clients.some_more()
            assert effective.knobs == ABOVE.knobs()
            assert not clients.failed
            await until(lambda: len(node.records()) == 1)

    asyncio.run(run())
