"""What comes back is told apart: whole answers of each framing, ends, silence, and what is no answer."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from benchmarks.chaos_measures.raw_exchange import Address, Answer, Ended, Unreadable, Wire

ASKED = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def _against(answers: list[bytes | None], ask: Callable[[Wire], Awaitable[object]]) -> object:
    """`ask` with a server that sends the next of `answers` for each head it reads; None: it closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while answers:
                await reader.readuntil(b"\r\n\r\n")
                answer = answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
            else:
                await reader.read()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def run() -> object:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            wire = Wire(Address(server.sockets[0].getsockname()[1]))
            try:
                return await ask(wire)
            finally:
                wire.drop()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n1;x=y\r\n!\r\n0\r\n\r\n", b"hi!"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", b"x"),
    ],
)
def test_an_answer_ends_where_its_framing_says_and_the_connection_serves_again(sent: bytes, body: bytes) -> None:
    async def twice(wire: Wire) -> object:
        return [await wire.exchange(ASKED, 5), await wire.exchange(ASKED, 5)]

    assert _against([sent, sent], twice) == [Answer(200, body)] * 2


def test_no_body_is_waited_for_where_there_is_none() -> None:
    sent: list[bytes | None] = [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"HTTP/1.1 204 No\r\n\r\n"]

    async def asked(wire: Wire) -> object:
        return [await wire.exchange(ASKED, 5, bodiless=True), await wire.exchange(ASKED, 5)]

    assert _against(sent, asked) == [Answer(200), Answer(204)]


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (None, Ended),
        (b"220 mail\r\n\r\n", Unreadable),
        (b"HTTP/1.1 abc\r\n\r\n", Unreadable),
        (b"HTTP/1.", TimeoutError),
    ],
)
def test_what_is_no_answer_raises(sent: bytes | None, error: type[Exception]) -> None:
    with pytest.raises(error):
        _against([sent], lambda wire: wire.exchange(ASKED, 0.2))


def test_nobody_there() -> None:
    with pytest.raises(Ended, match="no connection"):
        asyncio.run(Wire(Address(1)).exchange(ASKED, 5))


def test_what_is_no_request_gets_an_answer_or_an_end_once_nothing_more_comes() -> None:
    answer = b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n"
    assert _against([answer], lambda wire: wire.shout(ASKED, 0.01, 5)) == Answer(400)
    assert _against([None], lambda wire: wire.shout(ASKED, 0.01, 5)) is None
    assert _against([answer], lambda wire: wire.shout(b"GET / HT", 0.01, 5)) is None


def test_frames() -> None:
    upgraded = b"HTTP/1.1 101 Switching\r\n\r\n"
    ping, message, close = b"\x89\x01p", b"\x82\x7e\x00\x80" + b"m" * 128, b"\x88\x06\x03\xefnope"

    async def asked(wire: Wire) -> object:
        handshake = await wire.exchange(ASKED, 5)
        return [handshake, await wire.frame(b"\r\n\r\n", 5), await wire.frame(b"\r\n\r\n", 5)]

    found = _against([upgraded, ping + message, close], asked)
    assert found == [Answer(101), Answer(0, b"m" * 128), Answer(1007, b"nope")]
