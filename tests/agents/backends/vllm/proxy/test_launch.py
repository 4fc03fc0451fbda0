"""Finding a running proxy or starting one, and what the client says when it cannot be reached."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from agents.backends.vllm.proxy.client import ProxyClient, ProxyRefused, ProxyUnreachable
from agents.backends.vllm.proxy.launch import ensure_proxy
from controlplane.contract.errors import BadRequest, Conflict, Unavailable
from tests.agents.backends.vllm.proxy.proxy_process import running_proxy

HOST = "127.0.0.1"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Ends what a test has left running on the folder's socket."""
    yield tmp_path

    async def end() -> None:
        try:
            pid = (await ProxyClient(tmp_path / "proxy.sock").state()).pid
        except ProxyUnreachable:
            return
        os.kill(pid, signal.SIGKILL)

    asyncio.run(end())


async def ensure(folder: Path, port: int = 0, **more: float) -> ProxyClient:
    return await ensure_proxy(HOST, port, folder / "proxy.sock", folder / "proxy.log", **more)


def test_it_starts_one_then_adopts_it_as_it_is(folder: Path) -> None:
    async def run() -> None:
        first = await ensure(folder, hold_s=9.0)
        state = await first.switch("http://127.0.0.1:9")
        assert state.hold_s == 9.0
        again = await ensure(folder, port=state.port)
        assert await again.state() == state
        # A session of its own: a terminal's interrupt, or the end of this one, does not reach it.
        assert os.getsid(state.pid) == state.pid != os.getsid(0)
        assert await again.stop()
        with pytest.raises(ProxyUnreachable):
            await first.state()

    asyncio.run(run())


@pytest.mark.slow
def test_several_at_once_get_the_same_one(folder: Path) -> None:
    async def run() -> None:
        found = await asyncio.gather(*(ensure(folder) for _ in range(4)))
        assert len({(await proxy.state()).pid for proxy in found}) == 1
        assert await found[0].stop()

    asyncio.run(run())


@pytest.mark.slow
def test_after_a_kill_a_new_one_is_started_on_the_same_port(folder: Path) -> None:
    async def run() -> None:
        first = await (await ensure(folder)).state()
        os.kill(first.pid, signal.SIGKILL)
        while True:  # Until the kernel has closed its sockets.
            try:
                await ProxyClient(folder / "proxy.sock").state()
            except ProxyUnreachable:
                break
        second = await (await ensure(folder, port=first.port)).state()
        assert second.pid != first.pid
        assert (second.port, second.target) == (first.port, None)

    asyncio.run(run())


@pytest.mark.slow
def test_a_taken_port_is_named(folder: Path) -> None:
    async def run() -> None:
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(Conflict, match=f"127.0.0.1:{port}.*choose another port") as caught:
                await ensure(folder, port=port)
            assert caught.value.detail["field"] == "port"

    asyncio.run(run())


def test_a_proxy_that_listens_elsewhere_is_not_adopted(folder: Path) -> None:
    async def run() -> None:
        port = (await (await ensure(folder)).state()).port
        with pytest.raises(Conflict, match=f"listens on 127.0.0.1:{port}, not on 127.0.0.1:{port + 1}"):
            await ensure(folder, port=port + 1)

    asyncio.run(run())


def test_a_start_that_fails_shows_the_end_of_the_log(folder: Path) -> None:
    async def run() -> None:
        with pytest.raises(Unavailable, match=r"(?s)exit status 2.*proxy\.log.*above 0 is wanted"):
            await ensure(folder, hold_s=-1.0)

    asyncio.run(run())


def test_a_folder_that_is_not_there_is_named(folder: Path) -> None:
    async def run() -> None:
        with pytest.raises(Unavailable, match=r"cannot be started: .*nowhere"):
            await ensure_proxy(HOST, 0, folder / "proxy.sock", folder / "nowhere" / "proxy.log")

    asyncio.run(run())


def test_an_unreachable_proxy_is_named_by_its_socket(tmp_path: Path) -> None:
    async def run() -> None:
        proxy = ProxyClient(tmp_path / "proxy.sock")
        for ask in (proxy.state(), proxy.hold(), proxy.switch("http://a:1"), proxy.drained("http://a:1", 1.0)):
            with pytest.raises(ProxyUnreachable, match=r"proxy\.sock") as caught:
                await ask
            assert caught.value.detail["socket"] == str(tmp_path / "proxy.sock")

    asyncio.run(run())


def test_a_stranger_on_the_socket_is_no_proxy(tmp_path: Path) -> None:
    async def run() -> None:
        async def stranger(_: web.BaseRequest) -> web.Response:
            return web.json_response({"hello": "world"})

        runner = web.ServerRunner(web.Server(stranger))
        await runner.setup()
        await web.UnixSite(runner, str(tmp_path / "proxy.sock")).start()
        with pytest.raises(ProxyUnreachable, match=r"proxy\.sock.*not a proxy's state"):
            await ProxyClient(tmp_path / "proxy.sock").state()
        await runner.cleanup()

    asyncio.run(run())


def test_a_url_that_cannot_be_a_target_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_proxy(tmp_path) as proxy:
            with pytest.raises(BadRequest, match="url"):
                await proxy.switch("nonsense")
            with pytest.raises(ProxyRefused, match=r"proxy\.sock.*no such path"):
                await proxy._ask("GET", "/nothing")

    asyncio.run(run())


def test_drained_is_about_one_server(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_proxy(tmp_path, "--target", "http://127.0.0.1:9") as proxy:
            assert await proxy.drained("http://127.0.0.1:9/", 0.0)
            assert await proxy.drained("http://127.0.0.1:10", 0.0)

    asyncio.run(run())
