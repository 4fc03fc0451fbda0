"""What passes through the proxy, both ways, over real sockets and the proxy's real process."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from controlplane.serving.authority import Authority
from controlplane.serving.tls import client_context
from tests.agents.backends.vllm.proxy.proxy_process import ProxyProcess, running_proxy
from tests.agents.backends.vllm.proxy.scripted_server import Exchange, Script, ScriptedServer

pytestmark = pytest.mark.slow

Scene = Callable[[ScriptedServer, ProxyProcess, aiohttp.ClientSession], Awaitable[None]]


def play(folder: Path, script: Script, scene: Scene, *flags: str) -> None:
    """Run `scene` with a server that follows `script` behind a proxy."""

    async def run() -> None:
        async with asyncio.timeout(120), ScriptedServer(script) as server:
            async with running_proxy(folder, "--target", server.url, *flags) as proxy:
                async with aiohttp.ClientSession() as session:
                    await scene(server, proxy, session)

    asyncio.run(run())


async def echo(exchange: Exchange) -> None:
    await exchange.answer(exchange.body or b"nothing")


async def raw(proxy: ProxyProcess, request: bytes) -> bytes:
    """All that comes back on a connection of one's own, until its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()


def test_each_chunk_is_passed_on_before_the_next_is_sent(tmp_path: Path) -> None:
    got = [asyncio.Event() for _ in range(3)]

    async def stream(exchange: Exchange) -> None:
        await exchange.begin("Content-Type: text/event-stream")
        for number, seen in enumerate(got):
            await exchange.chunk(b"data: %d\n\n" % number)
            await seen.wait()  # Only the client sets it, with the chunk in its hands.
        await exchange.end()

    async def scene(_: ScriptedServer, proxy: ProxyProcess, session: aiohttp.ClientSession) -> None:
        async with session.post(f"{proxy.url}/v1/completions", json={"stream": True}) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            for number, seen in enumerate(got):
                assert await answer.content.readany() == b"data: %d\n\n" % number
                seen.set()
            assert await answer.content.read() == b""

    play(tmp_path, stream, scene)


def test_the_head_of_an_answer_is_passed_on_before_its_first_byte(tmp_path: Path) -> None:
    got = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await exchange.begin()
        await got.wait()
        await exchange.chunk(b"x")
        await exchange.end()

    async def scene(_: ScriptedServer, proxy: ProxyProcess, session: aiohttp.ClientSession) -> None:
        async with session.get(proxy.url) as answer:
            got.set()
            assert await answer.read() == b"x"

    play(tmp_path, slow, scene)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])
def test_any_method_path_status_and_header_pass(tmp_path: Path, method: str) -> None:
    path = "/v1/models%2Fa/./b;c?q=1%202&q=%C3%A4&empty="

    async def answer(exchange: Exchange) -> None:
        if exchange.method == "HEAD":
            await exchange.send(
                b"HTTP/1.1 418 Teapot\r\nContent-Length: 5\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n"
            )
        else:
            await exchange.answer(b"steam", "Set-Cookie: a=1", "Set-Cookie: b=2", "Server: own", status="418 Teapot")

    async def scene(server: ScriptedServer, proxy: ProxyProcess, _: aiohttp.ClientSession) -> None:
        body = b"leaves" if method not in ("GET", "HEAD", "OPTIONS") else b""
        length = b"Content-Length: %d\r\n" % len(body) if body else b""
        told = await raw(
            proxy,
            f"{method} {path} HTTP/1.1\r\nHost: models.example\r\nConnection: close\r\nX-One: 1\r\n".encode()
            + length
            + b"\r\n"
            + body,
        )
        head, _, rest = told.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert lines[0] == "HTTP/1.1 418 Teapot"
        assert [line for line in lines if line.startswith("Set-Cookie")] == ["Set-Cookie: a=1", "Set-Cookie: b=2"]
        assert rest == (b"" if method == "HEAD" else b"steam")
        [asked] = server.asked
        assert (asked.method, asked.path, asked.body) == (method, path, body)
        assert asked.header("Host") == ["models.example"]
        assert asked.header("X-One") == ["1"]
        assert asked.header("X-Forwarded-For") == ["127.0.0.1"]
        names = {name.lower() for name, _ in asked.headers}
        assert names - {"content-length"} == {"host", "x-one", "x-forwarded-for"}

    play(tmp_path, answer, scene)


def test_header_text_beyond_ascii_passes(tmp_path: Path) -> None:
    async def named(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Name: caf\xc3\xa9\r\n\r\n")

    async def scene(server: ScriptedServer, proxy: ProxyProcess, _: aiohttp.ClientSession) -> None:
        told = await raw(proxy, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Name: caf\xc3\xa9\r\n\r\n")
        assert b"X-Name: caf\xc3\xa9\r\n" in told
        assert server.asked[0].header("X-Name") == [b"caf\xc3\xa9".decode("latin-1")]

    play(tmp_path, named, scene)


def test_a_target_that_is_no_path_is_refused_and_a_whole_url_is_read_as_its_path(tmp_path: Path) -> None:
    async def scene(server: ScriptedServer, proxy: ProxyProcess, _: aiohttp.ClientSession) -> None:
        for first in (b"OPTIONS *", b"CONNECT models.example:80"):
            told = await raw(proxy, first + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert told.startswith(b"HTTP/1.1 400 ")
            assert b'"field": "path"' in told
        assert not server.asked
        await raw(proxy, b"GET http://models.example/v1/models?a=%20 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert [exchange.path for exchange in server.asked] == ["/v1/models?a=%20"]

    play(tmp_path, echo, scene)


def test_what_is_no_http_is_counted_and_costs_no_line_of_the_log(tmp_path: Path) -> None:
    async def scene(_: ScriptedServer, proxy: ProxyProcess, __: aiohttp.ClientSession) -> None:
        before = proxy.log.read_text()
        told = await raw(proxy, b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b" 400 " in told and b'"code": "malformed"' in told
        assert (await proxy.state()).refused == {"malformed": 1}
        assert proxy.log.read_text() == before

    play(tmp_path, echo, scene)


def test_a_compressed_answer_and_body_pass_untouched(tmp_path: Path) -> None:
    async def packed(exchange: Exchange) -> None:
        await exchange.answer(b"\x1f\x8bnot really" + exchange.body, "Content-Encoding: gzip")

    async def scene(server: ScriptedServer, proxy: ProxyProcess, _: aiohttp.ClientSession) -> None:
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            headers = {"Content-Encoding": "gzip", "Accept-Encoding": "br"}
            async with session.post(proxy.url, data=b"\x1f\x8bbody", headers=headers) as answer:
                assert await answer.read() == b"\x1f\x8bnot really\x1f\x8bbody"
        assert server.asked[0].header("Accept-Encoding") == ["br"]

    play(tmp_path, packed, scene)


def test_answers_without_a_body_have_none(tmp_path: Path) -> None:
    async def empty(exchange: Exchange) -> None:
        status = exchange.path.removeprefix("/v1/")
        await exchange.send(f"HTTP/1.1 {status} Text\r\n\r\n".encode())

    async def scene(_: ScriptedServer, proxy: ProxyProcess, __: aiohttp.ClientSession) -> None:
        for status in (b"204", b"304"):
            told = await raw(proxy, b"GET /v1/%b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % status)
            assert told.startswith(b"HTTP/1.1 %b Text\r\n" % status)
            assert told.endswith(b"\r\n\r\n")
            assert b"chunked" not in told

    play(tmp_path, empty, scene)


def test_a_chunked_request_body_arrives_whole(tmp_path: Path) -> None:
    async def scene(server: ScriptedServer, proxy: ProxyProcess, _: aiohttp.ClientSession) -> None:
        head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        told = await raw(proxy, head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        assert told.endswith(b"abcde")
        assert server.asked[0].header("Content-Length") == ["5"]
        assert server.asked[0].header("Transfer-Encoding") == []

    play(tmp_path, echo, scene)


def test_an_expectation_is_answered_by_the_proxy(tmp_path: Path) -> None:
    async def scene(server: ScriptedServer, proxy: ProxyProcess, _: aiohttp.ClientSession) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert not server.asked
        writer.write(b"body")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        assert await reader.readexactly(4) == b"body"
        writer.close()

    play(tmp_path, echo, scene)


def test_a_large_body_passes_and_one_above_the_limit_is_refused(tmp_path: Path) -> None:
    limit = 3 * 2**20

    async def scene(server: ScriptedServer, proxy: ProxyProcess, session: aiohttp.ClientSession) -> None:
        body = bytes(range(256)) * (limit // 256)
        async with session.post(proxy.url, data=body) as answer:
            assert await answer.read() == body

        async def pieces():
            yield body
            yield b"x"

        for above in (body + b"x", pieces()):
            async with session.post(proxy.url, data=above) as answer:
                assert answer.status == 413
                error = (await answer.json())["error"]
                assert error["code"] == "too_large"
                assert error["detail"] == {"field": "body", "limit_bytes": limit}
        assert len(server.asked) == 1
        assert (await proxy.state()).failed == {"too_large": 2}

    play(tmp_path, echo, scene, "--body-limit-bytes", str(limit))


@pytest.mark.parametrize(
    "sent", [b"Content-Length: 9\r\n\r\nhalf", b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n"]
)
def test_a_body_that_never_ends_is_given_up(tmp_path: Path, sent: bytes) -> None:
    async def scene(server: ScriptedServer, proxy: ProxyProcess, _: aiohttp.ClientSession) -> None:
        head, _, body = sent.partition(b"\r\n\r\n")
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + head + b"\r\n\r\n")
        await proxy.until(lambda state: state.requests == 1)
        writer.write(body)
        status = await reader.readuntil(b"\r\n")
        assert status.startswith(b"HTTP/1.1 408 ")
        await reader.readuntil(b"\r\n\r\n")
        assert b'"code": "body_stalled"' in await reader.readuntil(b"}}}")
        writer.close()
        assert not server.asked
        assert (await proxy.state()).failed == {"stalled": 1}

    play(tmp_path, echo, scene, "--body-stall-s", "0.3")


@pytest.mark.parametrize("begun", [False, True])
def test_a_client_that_goes_away_ends_the_request_at_the_server(tmp_path: Path, begun: bool) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def endless(exchange: Exchange) -> None:
        if begun:
            await exchange.begin()
            await exchange.chunk(b"first")
        asked.set()
        await exchange.closed_by_peer()
        ended.set()

    async def scene(server: ScriptedServer, proxy: ProxyProcess, _: aiohttp.ClientSession) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
        await asked.wait()
        if begun:
            await reader.readuntil(b"first")
        assert (await proxy.state()).in_flight == {server.url: 1}
        writer.close()
        await ended.wait()
        state = await proxy.until(lambda state: state.left == 1)
        assert state.in_flight == {server.url: 0}
        assert state.failed == {}

    play(tmp_path, endless, scene)


@pytest.mark.parametrize("how", ["end", "reset"])
@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_an_answer_that_breaks_off_is_never_ended_as_if_it_were_whole(tmp_path: Path, how: str, framing: str) -> None:
    got = asyncio.Event()

    async def broken(exchange: Exchange) -> None:
        if framing == "chunked":
            await exchange.begin()
            await exchange.chunk(b"half")
        else:
            await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
        await got.wait()
        if how == "reset":
            exchange.reset()
        else:
            exchange.writer.close()

    async def scene(_: ScriptedServer, proxy: ProxyProcess, session: aiohttp.ClientSession) -> None:
        async with session.post(proxy.url, data=b"{}") as answer:
            assert answer.status == 200
            assert await answer.content.readexactly(4) == b"half"
            got.set()
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.content.read()
        assert (await proxy.until(lambda state: bool(state.failed))).failed == {"broken": 1}

    play(tmp_path, broken, scene)


def test_an_old_client_gets_a_reset_when_its_answer_breaks_off(tmp_path: Path) -> None:
    """HTTP/1.0 without a length: the end of the connection would be the end of the answer."""
    got = asyncio.Event()

    async def broken(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"half")
        await got.wait()
        exchange.writer.close()

    async def scene(_: ScriptedServer, proxy: ProxyProcess, __: aiohttp.ClientSession) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        await reader.readuntil(b"half")
        got.set()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()

    play(tmp_path, broken, scene)


def test_an_old_client_gets_a_whole_answer_without_chunks(tmp_path: Path) -> None:
    async def chunked(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"all ")
        await exchange.chunk(b"of it")
        await exchange.end()

    async def scene(_: ScriptedServer, proxy: ProxyProcess, __: aiohttp.ClientSession) -> None:
        told = await raw(proxy, b"GET / HTTP/1.0\r\n\r\n")
        assert told.startswith(b"HTTP/1.0 200 OK\r\n")
        assert told.endswith(b"\r\n\r\nall of it")

    play(tmp_path, chunked, scene)


def test_a_server_that_dies_before_its_answer_gives_a_clear_502_and_is_asked_once(tmp_path: Path) -> None:
    async def crash(exchange: Exchange) -> None:
        exchange.writer.close()

    async def scene(server: ScriptedServer, proxy: ProxyProcess, session: aiohttp.ClientSession) -> None:
        async with session.post(f"{proxy.url}/v1/completions", data=b"{}") as answer:
            assert answer.status == 502
            error = json.loads(await answer.read())["error"]
        assert error["code"] == "server_lost"
        assert error["detail"] == {"reason": "lost", "target": server.url}
        assert "may have acted on the request" in error["message"]
        assert len(server.asked) == 1
        assert (await proxy.state()).failed == {"lost": 1}

    play(tmp_path, crash, scene)


def test_a_server_that_speaks_no_http_gives_a_502(tmp_path: Path) -> None:
    async def babble(exchange: Exchange) -> None:
        await exchange.send(b"hello\r\n\r\n")

    async def scene(_: ScriptedServer, proxy: ProxyProcess, session: aiohttp.ClientSession) -> None:
        async with session.post(proxy.url, data=b"{}") as answer:
            assert answer.status == 502
            assert (await answer.json())["error"]["code"] == "server_lost"

    play(tmp_path, babble, scene)


def test_trailers_of_an_answer_are_left_out_and_it_is_whole(tmp_path: Path) -> None:
    async def trailed(exchange: Exchange) -> None:
        await exchange.begin("Trailer: X-Sum")
        await exchange.chunk(b"body")
        await exchange.send(b"0\r\nX-Sum: 1\r\n\r\n")

    async def scene(_: ScriptedServer, proxy: ProxyProcess, session: aiohttp.ClientSession) -> None:
        for _ in range(2):
            async with session.get(proxy.url) as answer:
                assert await answer.read() == b"body"
                assert "Trailer" not in answer.headers

    play(tmp_path, trailed, scene)


def test_clients_come_by_tls_where_a_certificate_is_given(tmp_path: Path) -> None:
    authority, now = Authority(tmp_path / "tls"), datetime.now(UTC)
    authority.init(now)
    authority.issue_server("proxy", ["127.0.0.1"], now)
    files = {kind: str(authority.folder / f"proxy.{kind}") for kind in ("pem", "key")}

    async def scene(_: ScriptedServer, proxy: ProxyProcess, session: aiohttp.ClientSession) -> None:
        url = proxy.url.replace("http", "https")
        trusting = client_context(authority.folder / "ca.pem")
        async with session.post(f"{url}/v1/completions", data=b"prompt", ssl=trusting) as answer:
            assert await answer.read() == b"prompt"
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"{proxy.url}/v1/models")

    play(tmp_path, echo, scene, "--tls-cert", files["pem"], "--tls-key", files["key"])


@pytest.mark.parametrize("version", ["HTTP/2.0", "HTTP/0.9"])
def test_a_version_that_is_not_spoken_is_refused_in_one_that_is(tmp_path: Path, version: str) -> None:
    asked: list[str] = []

    async def note(exchange: Exchange) -> None:
        asked.append("once")
        await exchange.answer(b"{}")

    async def scene(_: ScriptedServer, proxy: ProxyProcess, session: aiohttp.ClientSession) -> None:
        answer = await raw(proxy, f"GET /v1/models {version}\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 505 ") and b"unsupported_version" in answer
        assert asked == []

    play(tmp_path, note, scene)
