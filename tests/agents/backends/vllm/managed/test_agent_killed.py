"""The agent is killed, at rest or in the middle of a change: requests go on, and the next agent finds everything."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.backends.vllm.managed import server_process
from controlplane.contract.knobs import EngineConfig
from tests.agents.backends.vllm.managed.managed_node import Clients, Node, running, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[5]
AGENT = """
import asyncio, sys
from pathlib import Path
from agents.backends.vllm.managed import ManagedVllm
from agents.backends.vllm.node_file import load_node_file
from controlplane.contract.knobs import parse_config

async def main(file, state, knobs):
    backend = ManagedVllm(load_node_file(Path(file)), Path(state))
    work = asyncio.create_task(backend.run())
    while not (await backend.health()).healthy:
        await asyncio.sleep(0.02)
    print("healthy", flush=True)
    if knobs:
        await backend.apply(parse_config(eval(knobs)), 9)
        print("applied", flush=True)
    await work

asyncio.run(main(*sys.argv[1:]))
"""
Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(node: Node) -> Iterator[Start]:
    """An agent in a process of its own, which serves already; it wants the knobs given, none when empty."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(knobs: str) -> "subprocess.Popen[bytes]":
        arguments = [sys.executable, "-c", AGENT, str(node.file), str(node.state_dir), knobs]
        made = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE)
        started.append(made)
        assert made.stdout is not None
        assert made.stdout.readline() == b"healthy\n"
        return made

    yield begin
    for one in started:
        one.kill()
        one.wait(20)


def kill(agent: "subprocess.Popen[bytes]") -> None:
    agent.send_signal(signal.SIGKILL)
    agent.wait(20)


def test_servers_and_proxy_outlive_the_agent_and_are_adopted(node: Node, start: Start) -> None:
    agent = start("{'max_num_seqs': 5, 'max_num_batched_tokens': 64}")
    assert agent.stdout is not None and agent.stdout.readline() == b"applied\n"
    server, proxy = [one.id for one in node.living()], asyncio.run(node.proxy.state()).pid
    assert len(server) == 1
    with Clients(node.url) as clients:
        asyncio.run(clients.some_more())
        kill(agent)
        asyncio.run(clients.some_more())

        async def next_agent() -> None:
            async with running(node.backend()) as backend:
                effective = await backend.effective()
                assert effective.knobs["max_num_seqs"] == 5 and effective.revision == 9
                assert [one.id for one in node.living()] == server
                assert (await node.proxy.state()).pid == proxy
                await clients.some_more()

        asyncio.run(next_agent())
    assert not clients.failed


def test_killed_while_a_standby_starts_the_next_agent_keeps_what_serves(node: Node, start: Start) -> None:
    node.environment["STAND_IN_START_S"] = "0.3"
    node.write()
    agent = start("")
    kill(agent)
    serving = node.living()
    node.environment["STAND_IN_START_S"] = "60"
    node.write()
    with Clients(node.url) as clients:
        agent = start("{'max_num_seqs': 32}")
        asyncio.run(until(lambda: len(node.living()) == 2))
        kill(agent)
        asyncio.run(clients.some_more())

        async def next_agent() -> None:
            async with running(node.backend()) as backend:
                await until(lambda: len(node.records()) == 1)
                assert [one.id for one in node.living()] == [one.id for one in serving]
                assert (await backend.effective()).knobs["max_num_seqs"] == 8
                await clients.some_more()

        asyncio.run(next_agent())
    assert not clients.failed


def test_killed_in_a_restart_the_next_agent_brings_the_requests_to_the_new_server(node: Node, start: Start) -> None:
    node.environment["STAND_IN_START_S"] = "1.5"
    node.write(standby="never")
    agent = start("{'max_num_seqs': 32}")
    first = [one.id for one in node.living()]

    def the_new_one_starts() -> bool:
        return [one.id for one in node.living()] not in ([], first)

    with Clients(node.url) as clients:
        asyncio.run(until(the_new_one_starts))
        kill(agent)

        async def next_agent() -> None:
            async with running(node.backend()) as backend:
                effective = await backend.effective()
                assert effective.knobs["max_num_seqs"] == 32 and effective.revision == 9
                await clients.some_more()

        asyncio.run(next_agent())
    assert not clients.failed


def test_where_the_node_file_says_so_all_ends_with_the_agent(node: Node, start: Start) -> None:
    node.write(stop_with_agent="true")
    agent = start("")
    server, proxy = node.living()[0], asyncio.run(node.proxy.state()).pid
    kill(agent)
    asyncio.run(until(lambda: not server_process.is_alive(server)))
    asyncio.run(until(lambda: not _lives(proxy)))


def test_in_good_order_too(node: Node) -> None:
    node.write(stop_with_agent="true")

    async def run() -> int:
        async with running(node.backend()):
            return (await node.proxy.state()).pid

    proxy = asyncio.run(run())
    assert node.records() == []
    asyncio.run(until(lambda: not _lives(proxy)))


def test_a_changed_node_file_is_told_of_a_server_that_was_started_before(node: Node, start: Start) -> None:
    kill(start(""))
    node.file.write_text(node.file.read_text().replace('"--max-model-len", "64"', '"--max-model-len", "32"'))

    async def next_agent() -> None:
        async with running(node.backend()) as backend:
            assert "node file has changed" in (await backend.health()).degraded
            await backend.apply(EngineConfig(max_num_seqs=32), 2)
            assert (await backend.health()).degraded == ""

    asyncio.run(next_agent())


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
