"""A small real mail server (SMTP with STARTTLS, TLS, AUTH) that remembers what it was handed, or behaves badly."""

import base64
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import default
from typing import Self

BETWEEN_DRIPS_S = 0.02


@dataclass
class Handed:
    """One message, with the login that handed it over, and whether it came by TLS."""

    sender: str
    recipients: list[str]
    message: Message
    login: str | None
    encrypted: bool


@dataclass
class MailServer:
    """tls: `starttls`, `tls`, `none`. refuses: command -> reply, instead of yes. behaviour: "", "drips", "floods"."""

    trust: ssl.SSLContext | None = None
    tls: str = "starttls"
    refuses: dict[str, str] = field(default_factory=dict)
    behaviour: str = ""
    got: list[Handed] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._ended = threading.Event()
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
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
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            if self.behaviour:
                self._misbehave(client)
            elif self.tls == "tls":
                assert self.trust is not None
                _Talk(self, self.trust.wrap_socket(client, server_side=True), encrypted=True).run()
            else:
                _Talk(self, client, encrypted=False).run()

    def _misbehave(self, client: socket.socket) -> None:
        while not self._ended.wait(BETWEEN_DRIPS_S if self.behaviour == "drips" else 0):
            client.sendall(b"2" if self.behaviour == "drips" else b"220-" + b"x" * 500 + b"\r\n")


class _Talk:
    def __init__(self, server: MailServer, client: socket.socket, *, encrypted: bool) -> None:
        self._server, self._client, self._encrypted = server, client, encrypted
        self._file = client.makefile("rb")
        self._login: str | None = None
        self._sender, self._recipients = "", list[str]()

    def run(self) -> None:
        self._say("220 here")
        while line := self._file.readline():
            command = line.decode().strip()
            verb = command.split()[0].upper() if command else ""
            if verb in self._server.refuses:
                self._say(self._server.refuses[verb])
            elif verb == "QUIT":
                self._say("221 bye")
                return
            else:
                self._obey(verb, command)

    def _say(self, *lines: str) -> None:
        self._client.sendall("".join(f"{line}\r\n" for line in lines).encode())

    def _obey(self, verb: str, command: str) -> None:
        match verb:
            case "EHLO":
                offers = ["STARTTLS"] if self._server.tls == "starttls" and not self._encrypted else []
                offers += ["AUTH PLAIN"] if self._encrypted else []
                words = ["here", *offers]
                self._say(*(f"250{'-' if n < len(words) - 1 else ' '}{word}" for n, word in enumerate(words)))
            case "STARTTLS":
                self._say("220 go on")
                assert self._server.trust is not None
                self._client = self._server.trust.wrap_socket(self._client, server_side=True)
                self._file, self._encrypted = self._client.makefile("rb"), True
            case "AUTH":
                _, login, password = base64.b64decode(command.split()[2]).decode().split("\0")
                self._login = f"{login}:{password}"
                self._say("235 in")
            case "MAIL":
                self._sender = command.partition("<")[2].partition(">")[0]
                self._recipients = []
                self._say("250 ok")
            case "RCPT":
                self._recipients.append(command.partition("<")[2].partition(">")[0])
                self._say("250 ok")
            case "DATA":
                self._say("354 go on")
                self._take()
            case _:
                self._say("250 ok")

    def _take(self) -> None:
        data = b""
        while (line := self._file.readline()) not in (b".\r\n", b""):
            data += line.removeprefix(b".") if line.startswith(b"..") else line
        message = message_from_bytes(data, policy=default)
        self._server.got.append(Handed(self._sender, self._recipients, message, self._login, self._encrypted))
        self._say("250 taken")
