"""A real HTTP server that treats its clients badly, in one of several ways, until it is told to end."""

import socket
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Self

BETWEEN_DRIPS_S = 0.02
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"


class HostileReceiver:
    """`connections`: how many it took; `sent_bytes`: of answers, as far as clients let it; `left`: one has gone."""

    def __init__(self, behaviour: str) -> None:
        behaviours: dict[str, Callable[[socket.socket], None]] = {
            "never answers": self._never_answers,
            "drips its headers": self._drips_headers,
            "drips its body": self._drips_body,
            "sends a bomb": self._sends_bomb,
        }
        self._behave = behaviours[behaviour]
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._ended = threading.Event()
        self.asked = threading.Event()
        self.left = threading.Event()
        self.connections = 0
        self.received = b""
        self.sent_bytes = 0
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/hook"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Let all clients go."""
        self._ended.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            self.received += client.recv(1 << 16)
            self.asked.set()
            try:
                self._behave(client)
            except OSError:
                self.left.set()

    def _send(self, client: socket.socket, data: bytes) -> None:
        client.sendall(data)
        self.sent_bytes += len(data)

    def _never_answers(self, client: socket.socket) -> None:
        client.settimeout(BETWEEN_DRIPS_S)
        while not self._ended.is_set():
            with suppress(TimeoutError):
                if not client.recv(1 << 16):
                    self.left.set()
                    return

    def _drips_headers(self, client: socket.socket) -> None:
        self._send(client, HEAD + b"X-Slow: ")
        self._drip(client, b"x")

    def _drips_body(self, client: socket.socket) -> None:
        self._send(client, HEAD + b"\r\n")
        self._drip(client, b"1\r\nx\r\n")

    def _drip(self, client: socket.socket, drop: bytes) -> None:
        while not self._ended.wait(BETWEEN_DRIPS_S):
            self._send(client, drop)

    def _sends_bomb(self, client: socket.socket) -> None:
        """Zeros without end: each kilobyte sent is a megabyte for whoever decompresses it."""
        self._send(client, HEAD + b"Content-Encoding: gzip\r\n\r\n")
        bomb = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
        zeros = bytes(1 << 20)
        while not self._ended.is_set():
            piece = bomb.compress(zeros)
            if piece:
                self._send(client, b"%x\r\n%s\r\n" % (len(piece), piece))
