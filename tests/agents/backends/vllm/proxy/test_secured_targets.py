"""A target behind https: the proxy believes its CA alone, and knows as in clear when a request may be sent again."""

import asyncio
import random
import select
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agents.backends.vllm.proxy.upstream import WatchedSocket
from controlplane.serving.authority import Authority
from tests.agents.backends.vllm.proxy.proxy_process import running_proxy
from tests.agents.backends.vllm.proxy.scripted_server import Exchange, ScriptedServer


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made, now = Authority(tmp_path / "tls"), datetime.now(UTC)
    made.init(now)
    made.issue_server("vllm", ["127.0.0.1"], now)
    return made


def secured(authority: Authority, script: object) -> ScriptedServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.folder / "vllm.pem", authority.folder / "vllm.key")
    return ScriptedServer(script, tls=context)  # type: ignore[arg-type]


async def hello(exchange: Exchange) -> None:
    await exchange.answer(b"hello " + exchange.body)


async def request_unread(connection: Any) -> None:
    """Until the next request has come to this socket, which nobody reads."""
    readable, _, _ = await asyncio.to_thread(select.select, [connection], [], [], 10)
    assert readable


@pytest.mark.slow
def test_300_requests_by_tls_through_a_server_that_drops_idle_connections_at_random(
    tmp_path: Path, authority: Authority
) -> None:
    """As a process does that is killed: without a word of TLS, in the very moment in which a request is written."""
    luck = random.Random(5)

    async def fickle(exchange: Exchange) -> None:
        if luck.random() < 0.5:
            return await hello(exchange)
        # The socket's own transport: that of TLS would go on reading what it does not hand over.
        exchange.writer.transport._ssl_protocol._transport.pause_reading()  # type: ignore[attr-defined]
        await hello(exchange)
        if exchange.body != b"299":
            await request_unread(exchange.writer.transport.get_extra_info("socket"))
        exchange.writer.transport.abort()

    async def run() -> None:
        flags = ["--target-ca-file", str(authority.folder / "ca.pem")]
        async with secured(authority, fickle) as server, aiohttp.ClientSession() as session:
            async with running_proxy(tmp_path, "--target", server.url, *flags) as proxy:
                for number in range(300):
                    body = str(number).encode()
                    async with session.post(proxy.url, data=body) as answer:
                        assert (answer.status, await answer.read()) == (200, b"hello " + body)
                state = await proxy.state()
                assert (state.failed, state.requests) == ({}, 300)
                assert state.resent > 0
                assert state.target_ca_file == flags[1]
                assert [exchange.body for exchange in server.asked] == [str(n).encode() for n in range(300)]

    asyncio.run(run())


@pytest.mark.parametrize("how", [lambda ours: ours.recv(64), lambda ours: ours.recv_into(bytearray(64))])
def test_an_end_that_left_the_request_unread_is_a_reset_however_it_is_read(how: Callable[[socket.socket], Any]) -> None:
    """What comes by TLS is read into a buffer, what comes in clear is not."""

    def connected() -> tuple[socket.socket, socket.socket]:
        ours = WatchedSocket(socket.AF_INET, socket.SOCK_STREAM)
        ours.settimeout(10)
        ours.connect(listening.getsockname())
        return ours, listening.accept()[0]

    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours, theirs = connected()
        theirs.close()
        ours.send(b"request")
        with ours, pytest.raises(ConnectionResetError):
            how(ours)
        ours, theirs = connected()
        ours.send(b"request")
        assert theirs.recv(64) == b"request"
        theirs.close()
        with ours:
            assert not how(ours)


def test_a_request_that_was_read_by_tls_is_not_sent_again(tmp_path: Path, authority: Authority) -> None:
    async def read_and_die(exchange: Exchange) -> None:
        exchange.writer.transport.abort()

    async def run() -> None:
        flags = ["--target-ca-file", str(authority.folder / "ca.pem")]
        async with secured(authority, read_and_die) as server, aiohttp.ClientSession() as session:
            async with running_proxy(tmp_path, "--target", server.url, *flags) as proxy:
                async with session.post(proxy.url, data=b"x") as answer:
                    assert answer.status == 502
                assert len(server.asked) == 1

    asyncio.run(run())


@pytest.mark.parametrize("trusts", ["another's", "the public ones"])
def test_a_target_of_another_ca_gets_no_request_and_is_not_stormed(
    tmp_path: Path, authority: Authority, trusts: str
) -> None:
    stranger = Authority(tmp_path / "other")
    stranger.init(datetime.now(UTC))
    flags = ["--target-ca-file", str(stranger.folder / "ca.pem")] if trusts == "another's" else []

    async def run() -> None:
        async with secured(authority, hello) as server, aiohttp.ClientSession() as session:
            async with running_proxy(tmp_path, "--target", server.url, "--hold-s", "2", *flags) as proxy:
                async with session.post(proxy.url, data=b"prompt") as answer:
                    assert answer.status == 503
                state = await proxy.state()
                assert state.requests == 1 and sum(state.failed.values()) == 1
                assert state.resent < 10, "it knocks with growing pauses"
                assert server.asked == []
                assert "CERTIFICATE_VERIFY_FAILED" in proxy.log.read_text()

    asyncio.run(run())


@pytest.mark.slow
def test_a_file_without_an_authority_ends_the_start_by_its_name(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")

    async def run() -> None:
        with pytest.raises(AssertionError, match="target_ca_file: "):
            async with running_proxy(tmp_path, "--target-ca-file", str(empty)):
                pass

    asyncio.run(run())
