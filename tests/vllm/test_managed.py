"""A managed node on a real vLLM: it is started, moved live, replaced under load, taken back, and adopted.

Servers outlive the backend that started them, so each test goes on with the server that the one before it left; alone,
it starts its own.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.backends.vllm.managed import server_process
from agents.backends.vllm.managed.changes import ChangeFailed
from controlplane.contract.knobs import ChangeClass, EngineConfig, Quantization
from tests.agents.backends.vllm.managed.managed_node import Clients, Node, running, until
from tests.vllm.real_vllm import MODEL_DIR, START_LIMIT_S, vllm_environment

NODE = """
executable = "{executable}"
served_model_name = "m"
port = {port}
server_ports = [{first}, {second}]
standby = "{standby}"
hold_s = 900
arguments = ["--max-model-len", "1024", "--dtype", "float32", "--enforce-eager"]
[environment]
{environment}
[capacity]
max_num_batched_tokens = 1024
max_num_seqs = 16
num_speculative_tokens = 4
[speculative]
method = "ngram"
prompt_lookup_max = 4
prompt_lookup_min = 2
[initial]
max_num_batched_tokens = 512
max_num_seqs = 8
[variants.none]
model = "{model}"
[variants.int8]
model = "./no-such-model"
"""
LIVE = EngineConfig(max_num_batched_tokens=128, max_num_seqs=5, num_speculative_tokens=((2, 4), (8, 1)))
BROKEN = EngineConfig(max_num_batched_tokens=128, max_num_seqs=5, quantization=Quantization.INT8)


@pytest.fixture(scope="module")
def node(vllm_executable: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node(tmp_path_factory.mktemp("n"), NODE.replace("{model}", str(MODEL_DIR)))
    made.environment = {name: one for name, one in vllm_environment().items() if os.environ.get(name) != one}
    made.write(executable=str(vllm_executable))
    yield made
    made.clear()


def test_live_knobs_move_without_another_process(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend(), START_LIMIT_S) as backend:
            before = [one.id for one in node.living()]
            with Clients(node.url, timeout_s=START_LIMIT_S) as clients:
                await clients.some_more()
                effective = await backend.apply(LIVE, 7)
                await clients.some_more()
            assert not clients.failed
            assert LIVE.knobs().items() <= effective.knobs.items() and effective.revision == 7
            assert [one.id for one in node.living()] == before
            assert effective.live_limits["max_num_seqs"] == 16
            assert effective.costs[ChangeClass.LIVE].last_s < 5
            assert (await backend.health()).degraded == ""

    asyncio.run(run())


def test_above_the_capacity_a_standby_takes_over_under_load(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend(), START_LIMIT_S) as backend:
            above = 2 * (await backend.effective()).live_limits["max_num_seqs"]
            wanted = EngineConfig(max_num_batched_tokens=512, max_num_seqs=above)
            old = node.living()
            with Clients(node.url, timeout_s=START_LIMIT_S) as clients:
                await clients.some_more()
                effective = await backend.apply(wanted, 8)
                answered = clients.answered
                await clients.some_more()
                await until(lambda: len(node.living()) == 1, 60)
            assert not clients.failed
            assert answered > 20  # They were answered all the while.
            assert wanted.knobs().items() <= effective.knobs.items() and effective.revision == 8
            assert not server_process.is_alive(old[0])
            assert effective.costs[ChangeClass.SWAP].unavailable_s == 0

    asyncio.run(run())


def test_what_cannot_start_is_taken_back_and_no_request_notices(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend(), START_LIMIT_S) as backend:
            before, serving = await backend.effective(), node.living()
            with Clients(node.url, timeout_s=START_LIMIT_S) as clients:
                with pytest.raises(ChangeFailed, match="no-such-model") as caught:
                    await backend.apply(BROKEN, 9)
                await clients.some_more()
            assert not clients.failed
            assert "vLLM ended during its start" in caught.value.message
            assert (await backend.effective()).knobs == before.knobs
            assert node.living() == serving

    asyncio.run(run())


def test_killed_it_comes_back_as_it_was_and_requests_wait(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend(), START_LIMIT_S) as backend:
            before, serving = await backend.effective(), node.living()[0]
            server_process.kill(serving)
            await until(lambda: not server_process.is_alive(serving))
            with Clients(node.url, timeout_s=START_LIMIT_S) as clients:
                await clients.some_more()
            assert not clients.failed
            effective = await backend.effective()
            assert (effective.knobs, effective.revision) == (before.knobs, before.revision)

    asyncio.run(run())
