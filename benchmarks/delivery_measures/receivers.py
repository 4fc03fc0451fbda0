"""Receivers of alerts that fail, hang, drip, close, or are far away; each notes what it took, by the letter's key."""

import json
import random
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BEHAVIOURS = ("good", "good too", "far", "fails", "hangs", "drips", "closes")
GOOD = frozenset({"good", "good too", "far"})
FAR_S = 0.1
"""`far` answers as well as the good ones, after so long: as chat and pagers on another continent do."""
AT_RANDOM = {"fails": 0.2, "closes": 0.2}
"""Share of the requests that go wrong, all the time; `hangs` and `drips` always do, in the first part of a run."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@dataclass
class Receiver:
    """took: by key, when it first took it, and how often. bad_for_s: from its first request on it hangs or drips."""

    behaviour: str
    seed: int
    bad_for_s: float
    bad_until: float | None = None
    took: dict[str, float] = field(default_factory=dict)
    order: list[tuple[str, str]] = field(default_factory=list)
    again: int = 0
    wrong: int = 0

    def __post_init__(self) -> None:
        self._dice, self._lock = random.Random(self.seed), threading.Lock()
        self.ended = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def misbehaves(self) -> bool:
        with self._lock:
            bad = self._dice.random() < AT_RANDOM.get(self.behaviour, 0.0)
            self.bad_until = self.bad_until or time.time() + self.bad_for_s
            bad |= self.behaviour in ("hangs", "drips") and time.time() < self.bad_until
            self.wrong += bad
            return bad

    def note(self, key: str, body: dict[str, str]) -> None:
        with self._lock:
            self.again += key in self.took
            if key not in self.took:
                self.took[key] = time.time()
                self.order.append((body["groupKey"], body["status"]))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.misbehaves():
                    with suppress(OSError):
                        self._misbehave()
                    return
                if len(body) < int(self.headers["Content-Length"]):
                    return  # The sender was killed over it.
                if receiver.behaviour == "far":
                    receiver.ended.wait(FAR_S)
                receiver.note(self.headers["Idempotency-Key"], json.loads(body))
                self._answer(200)

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def _misbehave(self) -> None:
                self.close_connection = True
                if receiver.behaviour == "fails":
                    self._answer(500)
                elif receiver.behaviour == "closes":
                    self.connection.shutdown(socket.SHUT_RDWR)
                elif receiver.behaviour == "hangs":
                    receiver.ended.wait(60)
                else:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                    while not receiver.ended.wait(0.1):
                        self.wfile.write(b"x")

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        return Handler
