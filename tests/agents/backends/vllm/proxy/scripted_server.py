"""An HTTP/1.1 server over plain sockets that does, byte by byte, what a test tells it to."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass
class Exchange:
    """One request, read whole, and the connection on which to answer it."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def begin(self, *headers: str, status: str = "200 OK") -> None:
        """The head of a chunked answer."""
        lines = [f"HTTP/1.1 {status}", "Transfer-Encoding: chunked", *headers]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def answer(self, body: bytes, *headers: str, status: str = "200 OK") -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        await self.send("\r\n".join([*lines, "", ""]).encode() + body)

    def reset(self) -> None:
        """Close such that the other side gets a reset."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def closed_by_peer(self) -> None:
        assert await self.reader.read() == b""


Script = Callable[[Exchange], Awaitable[None]]


@dataclass
class ScriptedServer:
    """`script` answers each request. A script that closed its connection ends it; else the next request is read."""

    script: Script
    url: str = ""
    port: int = 0
    tls: ssl.SSLContext | None = None
    asked: list[Exchange] = field(default_factory=list)
    connections: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> "ScriptedServer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        """No new connections, and the end of those there are."""
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        number = self.connections
        try:
            while not writer.is_closing() and (exchange := await _read(reader, writer, number)):
                self.asked.append(exchange)
                await self.script(exchange)
        except (asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> Exchange | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return Exchange(method, path, headers, await reader.readexactly(length), number, reader, writer)
