"""Declared knobs on a real vLLM: a flag by a restart, and what the plugin moves while it serves."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.contract.knobs import ChangeClass, EngineConfig
from controlplane.contract.reports.declared_knobs import with_more
from tests.agents.backends.vllm.managed.managed_node import Clients, Node, running
from tests.vllm.real_vllm import MODEL_DIR, START_LIMIT_S, vllm_environment
from tests.vllm.test_managed import NODE

DECLARED = """
[knobs.block_size]
flag = "--block-size"
values = [32, 64]
start = 64
unit = "tokens"
help = "Tokens of one block of the KV cache."
"""
STARTS = {"watermark": 0.0, "prefill_schedule_interval": 1}
STARTS |= {"max_num_queued_reqs": 1_000_000, "max_num_queued_tokens": 100_000_000}
"""Of what the plugin moves beside the contract's knobs."""
CONFIG = EngineConfig(max_num_batched_tokens=512, max_num_seqs=8)


@pytest.fixture(scope="module")
def node(vllm_executable: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node(tmp_path_factory.mktemp("d"), NODE.replace("{model}", str(MODEL_DIR)) + DECLARED)
    made.environment = {name: one for name, one in vllm_environment().items() if os.environ.get(name) != one}
    made.write(executable=str(vllm_executable), standby="never")
    yield made
    made.clear()


def test_a_flag_moves_by_a_restart_and_is_read_back_from_vllm(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend(), START_LIMIT_S) as backend:
            before = await backend.effective()
            assert before.knobs["block_size"] == 64
            assert before.declared["block_size"].change_class is ChangeClass.RESTART
            with Clients(node.url, timeout_s=START_LIMIT_S) as clients:
                await clients.some_more()
                after = await backend.apply(with_more(CONFIG, {"block_size": 32}), 3)
                await clients.some_more()
            assert not clients.failed
            assert (after.knobs["block_size"], after.revision) == (32, 3)
            assert after.sources["block_size"] == "vLLM's configuration: block_size"
            argv = node.living()[0].argv
            assert argv[argv.index("--block-size") + 1] == "32"

    asyncio.run(run())


def test_what_the_plugin_moves_is_live_and_goes_back_where_nobody_names_it(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend(), START_LIMIT_S) as backend:
            serving = [one.id for one in node.living()]
            own = {"block_size": (await backend.effective()).knobs["block_size"]}
            wanted = {**own, **STARTS, "watermark": 0.25, "prefill_schedule_interval": 4, "max_num_queued_reqs": 32}
            with Clients(node.url, timeout_s=START_LIMIT_S) as clients:
                moved = await backend.apply(with_more(CONFIG, wanted), 4)
                await clients.some_more()
                back = await backend.apply(with_more(CONFIG, own), 5)
                await clients.some_more()
            assert not clients.failed
            assert moved.knobs == CONFIG.knobs() | wanted
            assert {moved.declared[name].change_class for name in STARTS} == {ChangeClass.LIVE}
            assert back.knobs == CONFIG.knobs() | own | STARTS
            assert [one.id for one in node.living()] == serving

    asyncio.run(run())
