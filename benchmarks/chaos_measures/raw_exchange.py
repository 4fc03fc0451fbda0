"""One connection that sends any bytes, and sorts what comes back: HTTP answers, WebSocket frames, an end, or nothing.

Guarantee: an exchange ends within its limit. What is sent need not be HTTP; what comes back is read as HTTP/1.1
(RFC 9112: Content-Length, chunked, or until the end) or, after an upgrade, as frames of RFC 6455.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path

HEAD_LIMIT_BYTES = 2**18
_NO_BODY = {204, 304}


@dataclass(frozen=True)
class Address:
    """A port of this machine, or a Unix socket."""

    port: int = 0
    socket: Path | None = None


@dataclass(frozen=True)
class Answer:
    """status: of HTTP; of a WebSocket's close frame, or 0 for a message."""

    status: int
    body: bytes = b""


class Ended(Exception):
    """The other side closed the connection, or there was none to be had. `begun`: it had answered in part."""

    def __init__(self, why: str, *, begun: bool = False) -> None:
        super().__init__(why)
        self.begun = begun


class Unreadable(Exception):
    """What came back is no HTTP answer, or no frame."""


class Wire:
    """`exchange` connects when there is no connection. A TimeoutError of it means silence."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def is_open(self) -> bool:
        return self._reader is not None and not self._reader.at_eof()

    async def connect(self) -> None:
        self.drop()
        try:
            if self._address.socket is not None:
                self._reader, self._writer = await asyncio.open_unix_connection(
                    self._address.socket, limit=HEAD_LIMIT_BYTES
                )
            else:
                self._reader, self._writer = await asyncio.open_connection(
                    "127.0.0.1", self._address.port, limit=HEAD_LIMIT_BYTES
                )
        except OSError as error:
            raise Ended(f"no connection: {type(error).__name__}") from error

    def drop(self) -> None:
        """Break the connection off where it is."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def exchange(self, data: bytes, limit_s: float, *, head_only: bool = False, bodiless: bool = False) -> Answer:
        """Send, and read one answer. head_only: its body has no end; bodiless: it has none (HEAD).

        Raises `Ended`, `Unreadable`, or TimeoutError; the connection is dropped then, as it is after an answer that
        ends it.
        """
        try:
            async with asyncio.timeout(limit_s):
                if not self.is_open:
                    await self.connect()
                assert self._writer is not None
                self._writer.write(data)
                return await self._http(head_only=head_only, bodiless=bodiless)
        except (Ended, Unreadable, TimeoutError):
            self.drop()
            raise

    async def shout(self, data: bytes, patience_s: float, limit_s: float) -> Answer | None:
        """Send on a connection of its own what may be no request: the answer, or None when there is none.

        After `patience_s` of silence the other side is told that nothing more comes. Raises as `exchange` does;
        a TimeoutError says that the other side has not closed the connection even then.
        """
        await self.connect()
        assert self._writer is not None
        self._writer.write(data)
        reading = asyncio.ensure_future(self._http(head_only=False, bodiless=data.startswith(b"HEAD")))
        try:
            async with asyncio.timeout(limit_s):
                await asyncio.wait({reading}, timeout=patience_s)
                if not reading.done():
                    with contextlib.suppress(OSError):
                        self._writer.write_eof()
                return await reading
        except Ended:
            return None
        finally:
            reading.cancel()
            self.drop()

    async def frame(self, data: bytes, limit_s: float) -> Answer:
        """After an upgrade: send, and read one message or close frame. Raises as `exchange` does."""
        assert self._reader is not None and self._writer is not None
        try:
            async with asyncio.timeout(limit_s):
                self._writer.write(data)
                return await self._message()
        except (Ended, Unreadable, TimeoutError):
            self.drop()
            raise

    async def _http(self, *, head_only: bool, bodiless: bool) -> Answer:
        while True:
            head = await self._until(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1."):
                raise Unreadable(repr(head[:60]))
            try:
                status = int(head[9:12])
            except ValueError as error:
                raise Unreadable(repr(head[:60])) from error
            if status == 101 or status >= 200:
                break
        lower = head.lower()
        if head_only:
            self.drop()
            return Answer(status)
        body = b"" if bodiless or status in _NO_BODY or status == 101 else await self._body(lower)
        if b"\r\nconnection: close" in lower:
            self.drop()
        return Answer(status, body)

    async def _body(self, head: bytes) -> bytes:
        if b"\r\ntransfer-encoding: chunked" in head:
            pieces = []
            while True:
                size = int((await self._until(b"\r\n")).split(b";")[0], 16)
                pieces.append(await self._exactly(size))
                await self._exactly(2)
                if not size:
                    return b"".join(pieces)
        at = head.find(b"\r\ncontent-length:")
        if at >= 0:
            return await self._exactly(int(head[at + 17 :].split(b"\r\n", 1)[0]))
        assert self._reader is not None
        found = await self._reader.read(-1)
        self.drop()
        return found

    async def _message(self) -> Answer:
        while True:
            first, second = await self._exactly(2)
            size = second & 127
            if second & 128 or first & 0x70:
                raise Unreadable(f"a masked or reserved frame: {first:02x}{second:02x}")
            if size >= 126:
                size = int.from_bytes(await self._exactly(2 if size == 126 else 8), "big")
            body = await self._exactly(size)
            kind = first & 15
            if kind == 8:
                self.drop()
                return Answer(int.from_bytes(body[:2], "big") or 1005, body[2:])
            if kind in (0, 1, 2):
                return Answer(0, body)

    async def _until(self, mark: bytes) -> bytes:
        assert self._reader is not None
        try:
            return await self._reader.readuntil(mark)
        except asyncio.IncompleteReadError as error:
            raise Ended("closed", begun=bool(error.partial)) from error
        except asyncio.LimitOverrunError as error:
            raise Unreadable("a head without an end") from error
        except OSError as error:
            raise Ended(type(error).__name__) from error

    async def _exactly(self, size: int) -> bytes:
        assert self._reader is not None
        try:
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise Ended("closed", begun=True) from error
        except OSError as error:
            raise Ended(type(error).__name__, begun=True) from error
