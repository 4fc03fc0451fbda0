"""A small HTTP/1.1 client connection for load: one request at a time, kept alive, parsed just far enough.

It takes a tenth of the CPU time of a full client, so that the load does not slow what it measures. Answers need a
Content-Length. Any break raises `ConnectionLost` for the request under way; the next one connects again.
"""

import asyncio
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit


class ConnectionLost(Exception):
    """The connection could not be made, or broke before the whole answer was there: the request may have been done."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: bytes
    body: bytes

    def header(self, name: str) -> str | None:
        for line in self.headers.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == name.lower().encode():
                return value.strip().decode("latin-1")
        return None


class Connection:
    """To one server, given as http://host:port, or as https://host:port with what it is trusted by."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self._host, self._port, self._tls = parts.hostname, parts.port, tls
        self._protocol: _Protocol | None = None

    async def request(self, head: bytes, body: bytes, timeout_s: float) -> Answer:
        """`head`: request line and headers, each ended by CRLF, without Host and Content-Length."""
        try:
            async with asyncio.timeout(timeout_s):
                if self._protocol is None or self._protocol.closed:
                    loop = asyncio.get_running_loop()
                    _, self._protocol = await loop.create_connection(_Protocol, self._host, self._port, ssl=self._tls)
                return await self._protocol.request(
                    b"%sHost: %s\r\nContent-Length: %d\r\n\r\n%s" % (head, self._host.encode(), len(body), body)
                )
        except (OSError, TimeoutError) as error:
            self.close()
            raise ConnectionLost(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        if self._protocol is not None:
            self._protocol.abort()
            self._protocol = None


class _Protocol(asyncio.Protocol):
    def __init__(self) -> None:
        self.closed = False
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._answer: asyncio.Future[Answer] | None = None

    async def request(self, data: bytes) -> Answer:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await self._answer

    def abort(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        headers = bytes(self._buffer[:end])
        length = 0
        at = headers.lower().find(b"\r\ncontent-length:")
        if at >= 0:
            length = int(headers[at + 17 :].split(b"\r\n", 1)[0])
        if len(self._buffer) < end + 4 + length:
            return
        answer = Answer(int(headers[9:12]), headers, bytes(self._buffer[end + 4 : end + 4 + length]))
        del self._buffer[: end + 4 + length]
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("the server closed the connection"))
