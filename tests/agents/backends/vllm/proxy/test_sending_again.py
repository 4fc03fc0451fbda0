"""When a request is sent a second time, and when never: what the kernel tells of a connection that ended."""

import asyncio
import random
from pathlib import Path

import aiohttp
import pytest

from tests.agents.backends.vllm.proxy.proxy_process import running_proxy
from tests.agents.backends.vllm.proxy.scripted_server import Exchange, ScriptedServer


async def hello(exchange: Exchange) -> None:
    await exchange.answer(b"hello " + exchange.body)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["end", "reset", "late"])
def test_1000_requests_through_a_server_that_closes_idle_connections_at_random(tmp_path: Path, kind: str) -> None:
    """It closes after an answer: at once, or in the very moment in which the next request is written ("late")."""
    luck = random.Random(kind)

    async def fickle(exchange: Exchange) -> None:
        if luck.random() < 0.5:
            return await hello(exchange)
        # Who has decided to close a connection reads it no more: what still comes on it was processed by nobody.
        exchange.writer.transport.pause_reading()
        await hello(exchange)
        if kind == "late":
            for _ in range(luck.randrange(20)):
                await asyncio.sleep(0)
        if kind == "reset":
            exchange.reset()
        else:
            exchange.writer.close()

    async def run() -> None:
        async with ScriptedServer(fickle) as server, aiohttp.ClientSession() as session:
            async with running_proxy(tmp_path, "--target", server.url) as proxy:
                for number in range(1000):
                    body = str(number).encode()
                    async with session.post(proxy.url, data=body) as answer:
                        assert (answer.status, await answer.read()) == (200, b"hello " + body)
                state = await proxy.state()
                assert (state.failed, state.requests) == ({}, 1000)
                assert [exchange.body for exchange in server.asked] == [str(n).encode() for n in range(1000)]
                # Some connections were kept, some were closed.
                assert 100 < server.connections < 1000

    asyncio.run(run())


def test_a_connection_closed_with_the_request_unread_is_tried_again(tmp_path: Path) -> None:
    """As when a process ends before it looks at the request: the kernel answers with a reset."""
    refusals = 3

    async def run() -> None:
        async def unread(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal refusals
            if refusals:
                refusals -= 1
                writer.transport.pause_reading()
                await arrived.wait()
                writer.close()
                return
            while line := await reader.readline():
                if line == b"\r\n":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        arrived = asyncio.Event()
        server = await asyncio.start_server(unread, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with running_proxy(tmp_path, "--target", url) as proxy, aiohttp.ClientSession() as session:
            asked = asyncio.create_task(session.post(proxy.url, data=b"x" * 100))
            await proxy.until(lambda state: state.in_flight[url] == 1)
            # The request lies in the server's socket, or will: either way it is not read.
            arrived.set()
            async with await asked as answer:
                assert (answer.status, await answer.read()) == (200, b"ok")
            state = await proxy.state()
            assert (state.resent, state.failed) == (3, {})
        server.close()

    asyncio.run(run())


@pytest.mark.parametrize(("method", "status", "times"), [("POST", 502, 1), ("PATCH", 502, 1), ("GET", 502, 2)])
def test_a_request_that_was_read_is_not_sent_again_but_for_idempotent_methods_once(
    tmp_path: Path, method: str, status: int, times: int
) -> None:
    async def read_and_die(exchange: Exchange) -> None:
        exchange.writer.close()

    async def run() -> None:
        async with ScriptedServer(read_and_die) as server, aiohttp.ClientSession() as session:
            async with running_proxy(tmp_path, "--target", server.url) as proxy:
                async with session.request(method, proxy.url, data=None if method == "GET" else b"x") as answer:
                    assert answer.status == status
                assert len(server.asked) == times
                assert (await proxy.state()).failed == {"lost": 1}

    asyncio.run(run())


def test_a_read_request_on_a_used_connection_is_not_sent_again(tmp_path: Path) -> None:
    """The same connection answered before: the end alone does not tell this from an idle one that was closed."""

    async def second_is_death(exchange: Exchange) -> None:
        if exchange.body == b"2":
            exchange.writer.close()
        else:
            await hello(exchange)

    async def run() -> None:
        async with ScriptedServer(second_is_death) as server, aiohttp.ClientSession() as session:
            async with running_proxy(tmp_path, "--target", server.url) as proxy:
                for body, status in ((b"1", 200), (b"2", 502)):
                    async with session.post(proxy.url, data=body) as answer:
                        assert answer.status == status
                assert [exchange.body for exchange in server.asked] == [b"1", b"2"]
                assert server.connections == 1

    asyncio.run(run())


@pytest.mark.slow
def test_after_the_head_of_an_answer_nothing_is_sent_again(tmp_path: Path) -> None:
    async def half(exchange: Exchange) -> None:
        await exchange.begin()
        exchange.reset()

    async def run() -> None:
        async with ScriptedServer(half) as server, aiohttp.ClientSession() as session:
            async with running_proxy(tmp_path, "--target", server.url) as proxy:
                with pytest.raises(aiohttp.ClientError):
                    async with session.post(proxy.url, data=b"x") as answer:
                        await answer.read()
                assert len(server.asked) == 1

    asyncio.run(run())


def test_an_idle_connection_is_given_up_before_the_server_would_close_it() -> None:
    from agents.backends.vllm.proxy.upstream import IDLE_S

    uvicorn_keep_alive_s = 5
    assert uvicorn_keep_alive_s - 1 >= IDLE_S
