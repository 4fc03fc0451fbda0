"""Hands the ring's events to the agent over a Unix socket, in a thread of its own.

Protocol (that of an engine's `/events`, without HTTP): the reader sends one line {"boot": B, "after": N}; the feed
answers with a line {"kind": "hello", ...}, then with the events numbered above N, or from the oldest held when B is not
this process, one JSON object a line, and follows. One reader at a time: a new one takes the place of the old.

Guarantee: a slow, stuck or vanished reader costs vLLM nothing: the thread sends with a time limit and drops the reader.
"""

import contextlib
import json
import logging
import secrets
import select
import socket
import threading
from pathlib import Path

from trimtab_vllm import __version__
from trimtab_vllm.folder import EFFECTIVE, EVENTS_SOCKET
from trimtab_vllm.records import events_of
from trimtab_vllm.ring import Ring

log = logging.getLogger("trimtab_vllm")

_SEND_TIMEOUT_S = 5.0
_ASK_TIMEOUT_S = 5.0
_IDLE_S = 1.0
"""How long the thread sleeps at most before it looks whether its reader is still there."""
_LONGEST_ASK = 4096

_feeds: dict[Path, "Feed"] = {}


def shared_feed(folder: Path, model: str) -> "Feed":
    """This process's feed in the folder, started once."""
    if folder not in _feeds:
        _feeds[folder] = Feed(folder, model)
        _feeds[folder].start()
    return _feeds[folder]


class Feed:
    """Listens on the folder's socket. Raises OSError when it cannot be made."""

    def __init__(self, folder: Path, model: str) -> None:
        self.path = folder / EVENTS_SOCKET
        self.ring = Ring()
        self._boot = secrets.token_hex(8)
        self._model = model
        self._effective = folder / EFFECTIVE
        self._closed = False
        self._listener = _listen(self.path)
        self._thread = threading.Thread(target=self._serve, name="trimtab-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Serve no more; the reader sees its stream end."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while not self._closed:
            try:
                reader, _ = self._listener.accept()
            except OSError:
                if not self._closed:
                    log.warning("trimtab: the feed's socket broke; no raw statistics from now on")
                return
            with reader:
                try:
                    self._follow(reader)
                except (OSError, ValueError, KeyError, TypeError) as error:
                    log.info("trimtab: the reader is gone (%s: %s)", type(error).__name__, error)

    def _follow(self, reader: socket.socket) -> None:
        reader.settimeout(_ASK_TIMEOUT_S)
        sent = self._resume_point(_read_line(reader))
        hello = {"kind": "hello", "boot": self._boot, "oldest": self.ring.oldest, "model": self._model}
        reader.settimeout(_SEND_TIMEOUT_S)
        reader.sendall(json.dumps({**hello, "plugin": __version__}).encode() + b"\n")
        while not self._closed:
            if not self.ring.wait(sent, _IDLE_S):
                if _is_gone(reader) or _waits_another(self._listener):
                    return
                continue
            revision = self._revision()
            lines: list[bytes] = []
            for first, iteration in self.ring.after(sent):
                for event in events_of(first, iteration, revision):
                    if event["seq"] > sent:
                        lines.append(json.dumps(event, separators=(",", ":")).encode())
                        sent = event["seq"]
            reader.sendall(b"\n".join(lines) + b"\n")

    def _resume_point(self, line: bytes) -> int:
        asked = json.loads(line or b"{}")
        after = asked.get("after", 0)
        known = asked.get("boot") == self._boot and isinstance(after, int) and 0 <= after <= self.ring.newest
        return after if known else 0

    def _revision(self) -> int:
        """The revision in force, as the scheduler wrote it; 0 when no limits were ever given."""
        try:
            return int(json.loads(self._effective.read_bytes())["revision"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(4)
    except OSError:
        listener.close()
        raise
    return listener


def _read_line(reader: socket.socket) -> bytes:
    content = b""
    while not content.endswith(b"\n") and len(content) < _LONGEST_ASK:
        chunk = reader.recv(_LONGEST_ASK)
        if not chunk:
            break
        content += chunk
    return content


def _is_gone(reader: socket.socket) -> bool:
    reader.setblocking(False)
    try:
        return reader.recv(1) == b""
    except BlockingIOError:
        return False
    finally:
        reader.settimeout(_SEND_TIMEOUT_S)


def _waits_another(listener: socket.socket) -> bool:
    return bool(select.select([listener], [], [], 0)[0])
