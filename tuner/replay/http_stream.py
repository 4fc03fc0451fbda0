"""A small HTTP/1.1 client for streamed completions, made to cost little CPU: it shares the machine with what it
measures.

Guarantee: a time is taken when the bytes arrive, before anything is parsed. Events are not decoded as JSON, only
those with usage or an error are. Connections are kept and used again; one that the server closed while idle is
replaced without a trace in the result.
"""

import asyncio
import json
from dataclasses import dataclass, field
from time import perf_counter
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from controlplane.client.named_proxy import authorities, unreached


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
    """One kept connection: one request at a time. The parser calls its `on_` methods."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._done: asyncio.Future[None] | None = None
        self._reset()

    def _reset(self) -> None:
        self._parser = HttpResponseParser(self)
        self._now = 0.0  # When the bytes arrived that are parsed.
        self._stream = False
        self._length_told = False
        self._ends_with_connection = False
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
        self._now = perf_counter()
        if self._answer is None:
            return
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if self._answer is not None:
                self._answer.error = f"not an HTTP answer: {error}"
            self._finish(reusable=False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._now = perf_counter()
        if self._answer is not None:
            if not self._ends_with_connection:
                self._answer.error = f"connection lost: {exc!r}" if exc else "connection closed by the server"
            self._finish(reusable=False)

    def _finish(self, *, reusable: bool) -> None:
        answer, done = self._answer, self._done
        self._answer = None
        self.reusable = reusable
        if answer is not None:
            answer.finished_at = self._now
            if answer.status >= 400 and not answer.error:
                answer.error = f"HTTP {answer.status}: {bytes(answer.text[:200]).decode(errors='replace')}"
        if done is not None and not done.done():
            done.set_result(None)

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"content-length" | b"transfer-encoding":
                self._length_told = True
            case b"content-type":
                self._stream = value.lower().startswith(b"text/event-stream")

    def on_headers_complete(self) -> None:
        self._ends_with_connection = not self._length_told
        if self._answer is not None:
            self._answer.status = self._parser.get_status_code()

    def on_message_complete(self) -> None:
        self._finish(reusable=self._parser.should_keep_alive())

    def on_body(self, data: bytes) -> None:
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
                self._event(line, answer)

    def _event(self, line: bytes, answer: Answer) -> None:
        if b'"completion_tokens"' in line:
            answer.output_tokens = _output_tokens(line[5:])
        if b'"choices":[{' in line or b'"choices": [{' in line:
            answer.events.append(self._now)
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
        self._ssl = authorities(url) if parts.scheme == "https" else None
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
                answer.finished_at, answer.error = perf_counter(), f"cannot connect: {unreached(error)}"
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
