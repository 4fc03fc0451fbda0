"""Exchanging the server behind the proxy: no request fails, and each waits no longer and no more than it may."""

import asyncio
import time
from pathlib import Path

import aiohttp
import pytest

from tests.agents.backends.vllm.proxy.proxy_process import ProxyProcess, running_proxy
from tests.agents.backends.vllm.proxy.scripted_server import Exchange, Script, ScriptedServer

CHUNKS = 20
CLIENTS = 200
EACH = 6


def streaming(name: str, gate: asyncio.Event | None = None) -> Script:
    """`CHUNKS` chunks that carry the server's name and the request's body; the second half waits for `gate`."""

    async def script(exchange: Exchange) -> None:
        await exchange.begin()
        for number in range(CHUNKS):
            if gate is not None and number == CHUNKS // 2:
                await gate.wait()
            await exchange.chunk(b"%b %b %d\n" % (name.encode(), exchange.body, number))
            await asyncio.sleep(0)
        await exchange.end()

    return script


async def ask(session: aiohttp.ClientSession, proxy: ProxyProcess, body: str) -> str:
    """The name of the server that gave the whole of one answer."""
    async with session.post(f"{proxy.url}/v1/completions", data=body.encode()) as answer:
        assert answer.status == 200, await answer.text()
        lines = (await answer.text()).splitlines()
    name = lines[0].split()[0]
    assert lines == [f"{name} {body} {number}" for number in range(CHUNKS)]
    return name


def no_limit() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=200))


@pytest.mark.slow
def test_switching_under_200_streams_loses_nothing(tmp_path: Path) -> None:
    async def client(session: aiohttp.ClientSession, proxy: ProxyProcess, number: int) -> list[str]:
        return [await ask(session, proxy, f"{number}/{turn}") for turn in range(EACH)]

    async def run() -> None:
        gate = asyncio.Event()
        async with ScriptedServer(streaming("a", gate)) as a, ScriptedServer(streaming("b")) as b:
            async with running_proxy(tmp_path, "--target", a.url) as proxy, no_limit() as session:
                clients = [asyncio.create_task(client(session, proxy, number)) for number in range(CLIENTS)]
                # All are in the middle of an answer when the switch comes.
                await proxy.until(lambda state: state.in_flight[a.url] == CLIENTS)
                await proxy.switch(b.url)
                assert not await proxy.drained(a.url, 0.0)
                gate.set()
                assert await proxy.drained(a.url, 60.0)
                for target in (a, b, a, b):  # To and fro while they go on.
                    seen = (await proxy.switch(target.url)).requests
                    await proxy.until(
                        lambda state, seen=seen: state.requests > seen or state.requests == CLIENTS * EACH
                    )
                answers = await asyncio.gather(*clients)
                assert [names[0] for names in answers] == ["a"] * CLIENTS
                assert {name for names in answers for name in names} == {"a", "b"}
                state = await proxy.state()
                assert (state.requests, state.failed, state.left, state.resent) == (CLIENTS * EACH, {}, 0, 0)
                assert set(state.in_flight.values()) == {0}
                assert len(a.asked) + len(b.asked) == CLIENTS * EACH

    asyncio.run(run())


@pytest.mark.slow
def test_held_requests_reach_nobody_until_the_switch(tmp_path: Path) -> None:
    async def run() -> None:
        gate = asyncio.Event()
        async with ScriptedServer(streaming("a", gate)) as a, ScriptedServer(streaming("b")) as b:
            async with running_proxy(tmp_path, "--target", a.url) as proxy, no_limit() as session:
                running = asyncio.create_task(ask(session, proxy, "running"))
                await proxy.until(lambda state: state.in_flight[a.url] == 1)
                held = await proxy.hold()
                assert held.held
                assert held.held_since is not None
                assert abs(held.held_since - time.time()) < 60.0
                waiting = [asyncio.create_task(ask(session, proxy, f"w{number}")) for number in range(10)]
                state = await proxy.until(lambda state: state.waiting == 10)
                assert state.waiting_bytes == 20
                gate.set()
                assert await running == "a"
                assert await proxy.drained(a.url, 60.0)
                assert (len(a.asked), len(b.asked)) == (1, 0)
                after = await proxy.switch(b.url)
                assert not after.held
                assert 0.0 < after.held_seconds_total < 60.0
                assert await asyncio.gather(*waiting) == ["b"] * 10
                assert (await proxy.state()).waiting == 0

    asyncio.run(run())


def test_requests_wait_for_the_first_target(tmp_path: Path) -> None:
    async def run() -> None:
        async with ScriptedServer(streaming("a")) as a, running_proxy(tmp_path) as proxy, no_limit() as session:
            early = asyncio.create_task(ask(session, proxy, "early"))
            await proxy.until(lambda state: state.waiting == 1)
            await proxy.switch(a.url)
            assert await early == "a"

    asyncio.run(run())


@pytest.mark.slow
def test_a_hold_that_lasts_too_long_ends_in_a_503_that_says_when_to_retry(tmp_path: Path) -> None:
    async def run() -> None:
        async with ScriptedServer(streaming("a")) as a, no_limit() as session:
            async with running_proxy(tmp_path, "--target", a.url, "--hold-s", "0.3") as proxy:
                await proxy.hold()
                async with session.post(proxy.url, data=b"x") as answer:
                    assert answer.status == 503
                    error = (await answer.json())["error"]
                    assert error["code"] == "unavailable"
                    assert error["detail"] == {"retry_after_s": 5, "reason": "held"}
                    assert answer.headers["Retry-After"] == "5"
                state = await proxy.state()
                assert (state.failed, state.waiting) == ({"held": 1}, 0)
                assert not a.asked

    asyncio.run(run())


@pytest.mark.slow
def test_beyond_the_room_to_wait_requests_are_refused_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with ScriptedServer(streaming("a")) as a, no_limit() as session:
            flags = ("--waiting-limit", "3", "--waiting-limit-bytes", "100")
            async with running_proxy(tmp_path, *flags) as proxy:

                async def refused(size: int) -> None:
                    async with session.post(proxy.url, data=b"x" * size) as answer:
                        assert answer.status == 503
                        assert (await answer.json())["error"]["detail"]["reason"] == "no_room"

                bodies = ["y" * 60, "z"]
                waiting = [asyncio.create_task(ask(session, proxy, body)) for body in bodies]
                await proxy.until(lambda state: state.waiting == 2)
                await refused(40)
                waiting.append(asyncio.create_task(ask(session, proxy, "last")))
                await proxy.until(lambda state: state.waiting == 3)
                await refused(1)
                await proxy.switch(a.url)
                assert await asyncio.gather(*waiting) == ["a"] * 3
                assert (await proxy.state()).failed == {"no_room": 2}

    asyncio.run(run())


def test_a_client_that_goes_away_while_it_waits_makes_room(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_proxy(tmp_path) as proxy:
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await proxy.until(lambda state: state.waiting == 1)
            writer.close()
            state = await proxy.until(lambda state: state.waiting == 0)
            assert (state.left, state.failed) == (1, {})

    asyncio.run(run())


@pytest.mark.slow
def test_requests_survive_a_restart_of_the_server_on_its_port(tmp_path: Path) -> None:
    """Requests that come while it is away wait; nobody tells the proxy anything."""

    async def run() -> None:
        server = ScriptedServer(streaming("a"))
        await server.start()
        async with running_proxy(tmp_path, "--target", server.url) as proxy, no_limit() as session:
            for turn in range(3):
                # Connections that are kept alive, then a server that closes them and its port.
                await asyncio.gather(*(ask(session, proxy, f"before{turn}-{number}") for number in range(20)))
                await server.stop()
                meanwhile = [asyncio.create_task(ask(session, proxy, f"{turn}-{number}")) for number in range(50)]
                await proxy.until(lambda state: state.waiting == 50)
                await server.start()
                assert await asyncio.gather(*meanwhile) == ["a"] * 50
            state = await proxy.state()
            assert (state.failed, state.left, state.waiting) == ({}, 0, 0)
            bodies = [exchange.body for exchange in server.asked]
            assert len(bodies) == len(set(bodies)) == 3 * 70  # None was processed twice.
        await server.stop()

    asyncio.run(run())


def test_a_switch_lets_requests_go_that_wait_for_a_dead_server(tmp_path: Path) -> None:
    async def run() -> None:
        async with ScriptedServer(streaming("a")) as a, ScriptedServer(streaming("b")) as b, no_limit() as session:
            async with running_proxy(tmp_path, "--target", a.url) as proxy:
                await a.stop()
                waiting = [asyncio.create_task(ask(session, proxy, str(number))) for number in range(5)]
                await proxy.until(lambda state: state.waiting == 5)
                await proxy.switch(b.url)
                assert await asyncio.gather(*waiting) == ["b"] * 5

    asyncio.run(run())
