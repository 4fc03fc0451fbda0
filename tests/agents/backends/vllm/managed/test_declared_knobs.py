"""Declared knobs of a managed node: started with, restarted for, read back, refused; on the stand-in for vLLM."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.backends.base import EngineUnreachable
from agents.backends.vllm.managed import server_process
from controlplane.contract.errors import KnobOutOfRange, UnknownKnob
from controlplane.contract.knobs import ChangeClass, EngineConfig
from controlplane.contract.reports.declared_knobs import with_more
from tests.agents.backends.vllm.managed.managed_node import NODE, Node, running, until

pytestmark = pytest.mark.slow

DECLARED = """
[knobs.block_size]
flag = "--block-size"
values = [16, 32]
start = 16
[knobs.prefix_caching]
flag = "--enable-prefix-caching"
values = [true, false]
start = true
"""
CONFIG = EngineConfig(max_num_batched_tokens=128, max_num_seqs=8)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, NODE + DECLARED)
    yield made
    made.clear()


def flags(node: Node) -> list[str]:
    argv = node.living()[-1].argv
    first = argv.index("--block-size")
    return argv[first : first + 3]


def test_a_declared_flag_is_changed_by_another_server_and_goes_back_where_nobody_names_it(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend()) as backend:
            told = await backend.effective()
            assert {name: told.knobs[name] for name in told.declared} == {"block_size": 16, "prefix_caching": True}
            assert told.declared["block_size"].change_class is ChangeClass.SWAP  # A standby fits here.
            assert flags(node) == ["--block-size", "16", "--enable-prefix-caching"]
            wanted = with_more(CONFIG, {"block_size": 32, "prefix_caching": False})
            moved = await backend.apply(wanted, 3)
            assert moved.knobs == wanted.knobs() and moved.revision == 3
            assert moved.sources["block_size"].startswith("argument of the running vllm serve")
            assert flags(node) == ["--block-size", "32", "--no-enable-prefix-caching"]
            back = await backend.apply(CONFIG, 4)
            assert back.knobs == CONFIG.knobs() | {"block_size": 16, "prefix_caching": True}

    asyncio.run(run())


def test_what_is_not_declared_or_out_of_range_touches_no_server(node: Node) -> None:
    async def run() -> None:
        async with running(node.backend()) as backend:
            serving = node.living()
            with pytest.raises(UnknownKnob, match=r"knobs.dtype: this node declares no such knob; declare it"):
                await backend.apply(with_more(CONFIG, {"dtype": "half"}), 3)
            with pytest.raises(KnobOutOfRange, match="24 is not one of 16, 32"):
                await backend.apply(with_more(CONFIG, {"block_size": 24}), 3)
            with pytest.raises(UnknownKnob, match="watermark"):  # The toy's scheduler has none.
                await backend.apply(with_more(CONFIG, {"watermark": 0.1}), 3)
            assert node.living() == serving

    asyncio.run(run())


def test_a_flag_declared_later_is_taken_up_with_the_next_restart(node: Node) -> None:
    async def run() -> None:
        file = node.file.read_text()
        node.file.write_text(file.replace(DECLARED, ""))
        async with running(node.backend()) as backend:
            assert (await backend.apply(CONFIG, 3)).declared == {}
        node.file.write_text(file)
        async with running(node.backend()) as backend:
            assert "the node file has changed" in (await backend.health()).degraded
            moved = await backend.apply(with_more(CONFIG, {"block_size": 32}), 4)
            assert (moved.knobs["block_size"], moved.knobs["prefix_caching"]) == (32, True)

    asyncio.run(run())


QUEUE = """
[knobs.max_num_queued_reqs]
flag = "--max-num-queued-reqs"
minimum = 4
maximum = 512
start = 256
"""
REQS = "max_num_queued_reqs"


@pytest.mark.parametrize("live", [True, False], ids=["vLLM 0.32", "an older vLLM"])
def test_a_queue_limit_that_is_declared_moves_live_where_it_can_and_else_by_another_server(
    tmp_path: Path, live: bool
) -> None:
    node = Node(tmp_path, NODE + QUEUE)
    node.environment = {"STAND_IN_QUEUES": "1"} if live else {}
    node.write()

    async def run() -> None:
        async with running(node.backend()) as backend:
            told, serving = await backend.effective(), node.living()
            knob = told.declared[REQS]
            assert (knob.change_class, knob.start) == (ChangeClass.LIVE if live else ChangeClass.SWAP, 256)
            assert told.knobs[REQS] == 256 and "256" in serving[0].argv
            moved = await backend.apply(with_more(CONFIG, {REQS: 8}), 3)
            assert (moved.knobs[REQS], moved.revision) == (8, 3)
            assert moved.sources[REQS].startswith("vLLM server" if live else "argument of the running vllm serve")
            assert ([one.id for one in node.living()] == [one.id for one in serving]) is live
            with pytest.raises(KnobOutOfRange, match=REQS):
                await backend.apply(with_more(CONFIG, {REQS: 2}), 4)
            assert (await backend.apply(CONFIG, 5)).knobs[REQS] == 256

    try:
        asyncio.run(run())
    finally:
        node.clear()


def test_a_server_that_died_comes_back_with_the_queue_limit_that_was_in_force(tmp_path: Path) -> None:
    node = Node(tmp_path, NODE)
    node.environment = {"STAND_IN_QUEUES": "1"}
    node.write()

    async def run() -> None:
        async with running(node.backend()) as backend:
            await backend.apply(with_more(CONFIG, {REQS: 8}), 3)
            (dead,) = node.living()
            server_process.kill(dead)

            async def came_back() -> bool:
                try:
                    return [one.id for one in node.living()] != [dead.id] and (await backend.health()).healthy
                except EngineUnreachable:
                    return False

            await until(came_back)
            assert (await backend.effective()).knobs[REQS] == 8

    try:
        asyncio.run(run())
    finally:
        node.clear()
