"""A small HTTP/1.1 client for streamed completions, made to cost little CPU: it shares the machine with what it
measures.

Guarantee: a time is taken when the bytes arrive, before anything is parsed. Events are not decoded as JSON, only
those with usage or an error are. Connections are kept and used again; one that the server closed while idle is
replaced without a trace in the result.
"""

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from time import perf_counter
from urllib.parse import urlsplit


@dataclass(slots=True)
class Answer:
    """What came back for one request; times are `perf_counter` seconds. `events`: when each piece of output arrived."""

    sent_at: float = 0.0
    connect_s: float = 0.0
    status: int = 0
    events: list[float] = field(default_factory=list)
    finished_at: float = 0.0
    output_tokens: int | None = None  # As the server's usage says, when it says so.
    text: bytearray = field(default_factory=bytearray)  # The body when it is not an event stream.
    error: str = ""


class Connection(asyncio.Protocol):
    """One kept connection: one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._answer: Answer | None = None
        self._done: asyncio.Future[None] | None = None
        self._reset()

    def _reset(self) -> None:
        self._in_head = True
        self._chunked = False
        self._stream = False
        self._left: int | None = None  # Body bytes still to come; None: until the connection closes.
        self._line = b""
        self.reusable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, head: bytes, body: bytes, answer: Answer) -> asyncio.Future[None]:
        """Starts a request; the future is done when its answer is complete or broken."""
        assert self._transport is not None and self._answer is None
        self._reset()
        self._buffer.clear()
        self._answer = answer
        self._done = asyncio.get_running_loop().create_future()
        answer.sent_at = perf_counter()
        self._transport.write(head + body)
        return self._done

    def abort(self) -> None:
        """Break off; an answer under way stays as it is."""
        self._answer = None
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        now = perf_counter()
        if self._answer is None:
            return
        self._buffer += data
        if self._in_head and not self._read_head():
            return
        try:
            if self._chunked:
                self._read_chunks(now)
            else:
                self._read_plain(now)
        except ValueError as error:
            if self._answer is not None:
                self._answer.error = f"not an HTTP answer: {error}"
            self._finish(now, reusable=False)

    def connection_lost(self, exc: Exception | None) -> None:
        now = perf_counter()
        if self._answer is not None:
            if self._in_head or self._chunked or self._left is not None:
                self._answer.error = f"connection lost: {exc!r}" if exc else "connection closed by the server"
            self._finish(now, reusable=False)

    def _finish(self, now: float, *, reusable: bool = True) -> None:
        answer, done = self._answer, self._done
        self._answer = None
        self.reusable = self.reusable and reusable
        if answer is not None:
            answer.finished_at = now
            if answer.status >= 400 and not answer.error:
                answer.error = f"HTTP {answer.status}: {bytes(answer.text[:200]).decode(errors='replace')}"
        if done is not None and not done.done():
            done.set_result(None)

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        assert self._answer is not None
        lines = bytes(self._buffer[:end]).lower().split(b"\r\n")
        del self._buffer[: end + 4]
        self._in_head = False
        try:
            self._answer.status = int(lines[0].split(b" ", 2)[1])
        except (IndexError, ValueError):
            self._answer.error = "not an HTTP answer"
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            value = value.strip()
            if name == b"transfer-encoding":
                self._chunked = b"chunked" in value
            elif name == b"content-length":
                self._left = int(value)
            elif name == b"content-type":
                self._stream = value.startswith(b"text/event-stream")
            elif name == b"connection":
                self.reusable = value != b"close"
        return True

    def _read_chunks(self, now: float) -> None:
        buffer = self._buffer
        begin = 0
        while True:
            end = buffer.find(b"\r\n", begin)
            if end < 0:
                break
            size = int(buffer[begin:end].split(b";")[0], 16)
            after = end + 2 + size + 2
            if len(buffer) < after:
                break
            if size == 0:
                self._finish(now)
                return
            self._body(bytes(buffer[end + 2 : end + 2 + size]), now)
            begin = after
        del buffer[:begin]

    def _read_plain(self, now: float) -> None:
        data = bytes(self._buffer)
        self._buffer.clear()
        if self._left is not None:
            self._left -= len(data)
        self._body(data, now)
        if self._left is not None and self._left <= 0:
            self._finish(now)

    def _body(self, data: bytes, now: float) -> None:
        answer = self._answer
        if answer is None:
            return
        if not self._stream:
            answer.text += data
            return
        lines = (self._line + data).split(b"\n")
        self._line = lines.pop()
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line, now, answer)

    def _event(self, line: bytes, now: float, answer: Answer) -> None:
        if b'"completion_tokens"' in line:
            answer.output_tokens = _output_tokens(line[5:])
        if b'"choices":[{' in line or b'"choices": [{' in line:
            answer.events.append(now)
        elif line.startswith((b'data: {"error"', b'data:{"error"')):
            answer.error = line[5:205].decode(errors="replace").strip()


def _output_tokens(event: bytes) -> int | None:
    try:
        count = json.loads(event)["usage"]["completion_tokens"]
    except (ValueError, KeyError, TypeError):
        return None
    return int(count)


class Target:
    """One server at `url`: its connections, and the request head that all requests share."""

    def __init__(self, url: str, path: str = "/v1/completions", *, api_key: str | None = None) -> None:
        parts = urlsplit(url)
        self.url = url
        self._host = parts.hostname or "localhost"
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        key = f"Authorization: Bearer {api_key}\r\n" if api_key else ""
        self._head = (
            f"POST {parts.path.rstrip('/')}{path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{key}"
            "Content-Type: application/json\r\nAccept: text/event-stream\r\nContent-Length: "
        ).encode()
        self._idle: list[Connection] = []

    async def post(self, body: bytes, answer: Answer) -> None:
        """One request to its end, noted in `answer` as it goes, so that a cancelled one still tells what it saw.

        Never raises for what the server or the network does: `Answer.error` tells of it.
        """
        head = self._head + str(len(body)).encode() + b"\r\n\r\n"
        while True:
            answer.sent_at = began = perf_counter()
            kept = False
            while self._idle and not self._idle[-1].open:
                self._idle.pop()
            try:
                if self._idle:
                    connection, kept = self._idle.pop(), True
                else:
                    loop = asyncio.get_running_loop()
                    _, connection = await loop.create_connection(Connection, self._host, self._port, ssl=self._ssl)
                    answer.connect_s = perf_counter() - began
            except OSError as error:
                answer.finished_at, answer.error = perf_counter(), f"cannot connect: {error}"
                return
            try:
                await connection.send(head, body, answer)
            except asyncio.CancelledError:
                connection.abort()
                raise
            if answer.error and kept and answer.status == 0:
                answer.error = ""
                continue
            if connection.reusable and connection.open:
                self._idle.append(connection)
            else:
                connection.abort()
            return

    def close(self) -> None:
        for connection in self._idle:
            connection.abort()
        self._idle.clear()
