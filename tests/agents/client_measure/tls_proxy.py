"""A TLS proxy on loopback that adds delays of known size: before the handshake, and in each direction.

Guarantee: every piece of bytes arrives at least its direction's delay after it came in; the order stays.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import trustme

HOST = "127.0.0.1"


class Authority:
    """A certificate authority of this test run."""

    def __init__(self) -> None:
        self._authority = trustme.CA()
        certificate = self._authority.issue_cert(HOST, "localhost")
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(self.server)
        self.client = ssl.create_default_context()
        self._authority.configure_trust(self.client)


@dataclass(frozen=True)
class Delays:
    """In seconds."""

    handshake_s: float = 0.0
    to_server_s: float = 0.0
    to_client_s: float = 0.0


class TlsProxy:
    def __init__(self, target: str, authority: Authority, delays: Delays) -> None:
        parts = urlsplit(target)
        assert parts.hostname and parts.port
        self._target = (parts.hostname, parts.port)
        self._context, self._delays = authority.server, delays
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = socket.create_server((HOST, 0))
        self.url = f"https://{HOST}:{self._listener.getsockname()[1]}"

    async def serve(self, ending: asyncio.Event) -> None:
        accepting = asyncio.create_task(self._accept())
        await ending.wait()
        for task in (accepting, *self._tasks):
            task.cancel()
        await asyncio.gather(accepting, *self._tasks, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        while True:
            connected, _ = await loop.sock_accept(self._listener)
            task = asyncio.create_task(self._connection(connected))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connection(self, connected: socket.socket) -> None:
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        # The handshake begins by the client's first bytes, which stay in the socket until the delay is over.
        began = asyncio.Event()
        loop.add_reader(connected, began.set)
        await began.wait()
        loop.remove_reader(connected)
        await asyncio.sleep(self._delays.handshake_s)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            transport, protocol = await loop.connect_accepted_socket(
                lambda: asyncio.StreamReaderProtocol(reader), connected, ssl=self._context
            )
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            up_reader, up_writer = await asyncio.open_connection(*self._target)
            try:
                await asyncio.gather(
                    _forward(reader, up_writer, self._delays.to_server_s),
                    _forward(up_reader, writer, self._delays.to_client_s),
                )
            finally:
                transport.abort()
                up_writer.transport.abort()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def write() -> None:
        while True:
            at, data = await due.get()
            await asyncio.sleep(max(0.0, at - loop.time()))
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()

    writing = asyncio.create_task(write())
    try:
        while True:
            data = await reader.read(2**16)
            due.put_nowait((loop.time() + delay_s, data))
            if not data:
                await writing
                return
    finally:
        writing.cancel()


@contextlib.contextmanager
def tls_proxy(target: str, authority: Authority, delays: Delays) -> Iterator[TlsProxy]:
    proxy = TlsProxy(target, authority, delays)
    loop, ending = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(proxy.serve(ending),), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(20)
        loop.close()
