"""What the bytes of an answer tell, not decoded as JSON: pieces of output as they come, the outcome at the end.

Guarantee: no bytes whatever raise an error; a quote inside a text is escaped in JSON, so no text is taken for a field.
Events may be cut anywhere by the network; all three line ends of server-sent events are understood.
"""

import re
import zlib
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

_BOUNDARY = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_OUTPUT = re.compile(rb'"(?:text|content|reasoning|reasoning_content|refusal|arguments)"\s*:\s*"[^"]')
_CHOICE = re.compile(rb'"choices"\s*:\s*\[\s*\{')
_DONE = re.compile(rb"\s*data:\s*\[DONE\]")
_FINISH = re.compile(rb'"finish_reason"\s*:\s*"([^"]{1,64})"')
_TOKENS = re.compile(rb'"completion_tokens"\s*:\s*(\d{1,12})\b')
_ERROR = re.compile(rb'(?:^|[\n\r]|data:)\s*\{\s*"error"\s*:\s*[{"]')
_LAST_EVENTS = 4
"""The finish reason, the usage, [DONE]; and one more."""
_LONGEST_DONE = 32
MOST_REST_BYTES = 2**20
"""Of an event that does not end; beyond it is no event stream that could be read."""
MOST_BODY_BYTES = 2**23
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS


class Outcome(NamedTuple):
    """finish_reason: "" where none was told. failed: an error was told instead of, or in, the answer."""

    finish_reason: str
    output_tokens: int | None
    failed: bool


class Scanner(Protocol):
    """`feed` gives the pieces in a read; `begun`: the answer has begun; `done`: it says that it has ended."""

    @property
    def begun(self) -> bool: ...

    @property
    def done(self) -> bool: ...

    def feed(self, chunk: bytes) -> int: ...

    def outcome(self) -> Outcome: ...


class EventScanner:
    """Server-sent events of chat completions and completions."""

    __slots__ = ("_last", "_rest", "begun", "done")

    def __init__(self) -> None:
        self._rest = b""
        self._last: deque[bytes] = deque(maxlen=_LAST_EVENTS)
        self.begun = self.done = False

    def feed(self, chunk: bytes) -> int:
        data = self._rest + chunk if self._rest else chunk
        end = data.find(b"\n\n")
        if 0 <= end == len(data) - 2:  # Mostly a read is one event.
            self._rest = b""
            return self._event(data)
        *events, rest = _BOUNDARY.split(data)
        self._rest = rest if len(rest) <= MOST_REST_BYTES else b""
        return sum(map(self._event, events))

    def _event(self, event: bytes) -> int:
        self._last.append(event)
        if len(event) < _LONGEST_DONE and _DONE.match(event):
            self.done = True
            return 0
        choices = event.find(b'"choices"')
        if choices < 0:
            return 0
        if not self.begun and _CHOICE.match(event, choices):
            self.begun = True
        return 1 if _OUTPUT.search(event, choices) else 0

    def outcome(self) -> Outcome:
        return _outcome(b"\n\n".join(self._last))


class BodyScanner:
    """An answer in one piece: it has no pieces, and says how it ended in its fields."""

    __slots__ = ("_body", "begun", "done")

    def __init__(self) -> None:
        self._body = bytearray()
        self.begun = self.done = False

    def feed(self, chunk: bytes) -> int:
        if len(self._body) + len(chunk) <= MOST_BODY_BYTES:
            self._body += chunk
        return 0

    def outcome(self) -> Outcome:
        return _outcome(bytes(self._body))


class InflatingScanner:
    """An answer in gzip or deflate, read by `inner`. What cannot be inflated tells nothing more."""

    __slots__ = ("_inflate", "_inner")

    def __init__(self, inner: Scanner) -> None:
        self._inner = inner
        self._inflate: Callable[[bytes, int], bytes] | None = zlib.decompressobj(_ZLIB_OR_GZIP).decompress

    @property
    def begun(self) -> bool:
        return self._inner.begun

    @property
    def done(self) -> bool:
        return self._inner.done

    def feed(self, chunk: bytes) -> int:
        if self._inflate is None:
            return 0
        try:
            return self._inner.feed(self._inflate(chunk, MOST_BODY_BYTES))
        except zlib.error:
            self._inflate = None
            return 0

    def outcome(self) -> Outcome:
        return self._inner.outcome()


class OpaqueScanner:
    """Bytes of another compression: when they came is all that can be told."""

    __slots__ = ("begun", "done")

    def __init__(self) -> None:
        self.begun = self.done = False

    def feed(self, chunk: bytes) -> int:
        return 0

    def outcome(self) -> Outcome:
        return Outcome("", None, False)


def scanner_of(content_type: str, content_encoding: str) -> Scanner:
    scanner: Scanner = EventScanner() if content_type.startswith("text/event-stream") else BodyScanner()
    if content_encoding in ("", "identity"):
        return scanner
    return InflatingScanner(scanner) if content_encoding in ("gzip", "deflate") else OpaqueScanner()


def _outcome(told: bytes) -> Outcome:
    reasons, counts = _FINISH.findall(told), _TOKENS.findall(told)
    return Outcome(
        reasons[-1].decode("latin-1") if reasons else "",
        int(counts[-1]) if counts else None,
        _ERROR.search(told) is not None,
    )
