"""What a hostile or broken client may hold of the proxy's port, by real sockets."""

import asyncio
import contextlib
import errno
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from agents.backends.vllm.proxy.limited_clients import HEAD_FIELDS, LimitedServer
from controlplane.serving.browser_policy import HEADERS
from controlplane.serving.limits import Doorkeeper, Refused, ServerLimits

SIZES = ServerLimits(head_bytes=8192, connections=12, connections_of_address=8)
TIMES = ServerLimits(head_s=0.3)
Scene = Callable[[Doorkeeper, int], Awaitable[None]]


async def read_all(request: web.BaseRequest) -> web.StreamResponse:
    if request.path == "/slow":
        await asyncio.sleep(3 * TIMES.head_s)
    return web.Response(text=str(len(await request.read())))


@contextlib.asynccontextmanager
async def serving(limits: ServerLimits) -> AsyncIterator[tuple[Doorkeeper, int]]:
    door = Doorkeeper(limits)
    runner = web.ServerRunner(
        LimitedServer(
            door,
            read_all,
            access_log=None,
            keepalive_timeout=2.0,
            max_line_size=SIZES.head_bytes,
            max_field_size=SIZES.head_bytes,
        ),
        shutdown_timeout=0.5,
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield door, site.port
    finally:
        await runner.cleanup()


def play(limits: ServerLimits, scene: Scene) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), serving(limits) as (door, port):
            await scene(door, port)

    asyncio.run(run())


async def asked(port: int, request: bytes) -> bytes:
    """All that comes back on a connection of one's own, until its end; a reset would raise."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def refusal(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])
    assert fields[b"connection"] == b"close"
    assert {name.lower().encode(): value.lower().encode() for name, value in HEADERS.items()}.items() <= fields.items()
    return int(answer.split(b" ", 2)[1]), json.loads(body)["error"]["code"]


def test_usual_requests_pass_and_a_connection_is_used_again() -> None:
    async def scene(door: Doorkeeper, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for size in (0, 1, 10**6):
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(len(str(size))) == str(size).encode()
        assert door.open.total() == 1 and not door.refused
        writer.close()
        await until(lambda: not door.open)

    play(SIZES, scene)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nX: " + b"a" * (1 << 20),
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(100)),
        b"GET /" + b"a" * 100_000,
    ],
)
def test_a_head_that_does_not_end_is_not_held(head: bytes) -> None:
    async def scene(door: Doorkeeper, port: int) -> None:
        assert refusal(await asked(port, head))[0] in (400, 431)
        assert door.refused.total() == 1 and set(door.refused) <= {Refused.HEAD_BYTES, Refused.MALFORMED}
        await until(lambda: not door.open)

    play(SIZES, scene)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 9000 + b"\r\n\r\n", "head_bytes"),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", "head_bytes"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * HEAD_FIELDS + b"\r\n", "head_fields"),
    ],
)
def test_a_whole_head_that_is_too_much_is_refused_for_what_it_is(head: bytes, reason: str) -> None:
    async def scene(door: Doorkeeper, port: int) -> None:
        assert refusal(await asked(port, head)) == (431, reason)
        assert door.refused == {Refused(reason): 1}

    play(SIZES, scene)


def test_who_is_gone_before_it_is_refused_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def gone(_: object) -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    monkeypatch.setattr("asyncio.selector_events._SelectorSocketTransport.write_eof", gone)

    async def scene(door: Doorkeeper, port: int) -> None:
        await asked(port, b"GET / HTTP/9.9\r\n\r\n")
        assert door.refused == {Refused.MALFORMED: 1}
        await until(lambda: not door.open)

    play(SIZES, scene)
    assert not caplog.records


def test_who_says_nothing_or_half_a_head_is_let_go() -> None:
    async def scene(door: Doorkeeper, port: int) -> None:
        silent, half = await asyncio.gather(asked(port, b""), asked(port, b"GET / HTTP/1.1\r\nHost:"))
        assert silent == b"" and refusal(half) == (408, "head_time")
        assert door.refused == {Refused.HEAD_TIME: 2}
        await until(lambda: not door.open)

    play(TIMES, scene)


def test_an_answer_takes_as_long_as_it_takes() -> None:
    """Also where aiohttp has read on in between, as it does after each request that it hands over."""

    async def scene(door: Doorkeeper, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n")
        await writer.drain()
        writer.write(b"{}")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert not door.refused
        writer.close()

    play(TIMES, scene)


def test_a_second_request_has_its_own_time() -> None:
    async def scene(door: Doorkeeper, port: int) -> None:
        first = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxx"
        answer = await asked(port, first + b"GET / HT")
        assert answer.startswith(b"HTTP/1.1 200")
        await until(lambda: not door.open)

    play(TIMES, scene)


def test_connections_are_limited_by_address_and_counted_again_when_they_end() -> None:
    async def scene(door: Doorkeeper, port: int) -> None:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        await until(lambda: door.open.total() == 8)
        assert refusal(await asked(port, b"")) == (429, "connections_of_address")
        for _, writer in held:
            writer.close()
        await until(lambda: not door.open)
        told = await asked(port, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert told.startswith(b"HTTP/1.1 200")

    play(SIZES, scene)
