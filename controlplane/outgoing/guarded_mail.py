"""One message to somebody else's mail server (SMTP, RFC 5321) under one deadline, at an address that was looked at.

Guarantees: as `exchange`'s. STARTTLS (RFC 3207) is not optional: a server that does not offer it gets neither the login
nor the message, so nobody on the way can talk us out of it. What a server says is read up to `MOST_BYTES`.
"""

import smtplib
import socket
import ssl
from dataclasses import dataclass, field
from typing import IO, Literal

from controlplane.outgoing.addresses import AddressPolicy
from controlplane.outgoing.guarded_post import Answer, DeadlineExceeded, Watchdog
from controlplane.outgoing.guarded_transport import allowed_address

MOST_BYTES = 64 << 10
OWN_NAME = "[127.0.0.1]"
"""What we call ourselves: asking the resolver for a better name may take long, and says something about this host."""


class MailError(Exception):
    """The server did not take the message: `status` is its code, None where it did not come to one."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Server:
    """tls: `starttls`, `tls` from the first byte, or `none`. trust: None for the public authorities."""

    host: str
    port: int
    tls: Literal["starttls", "tls", "none"]
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    trust: ssl.SSLContext | None = None


@dataclass(frozen=True)
class Envelope:
    """Who sends, who gets it, and the message as it goes over the wire."""

    sender: str
    recipients: tuple[str, ...]
    message: bytes = field(repr=False)


def hand_over(server: Server, envelope: Envelope, policy: AddressPolicy, *, deadline_s: float) -> Answer:
    """The server's answer as to HTTP: its code, 250 where every recipient was taken, else the first refusal's.

    Raises `DeadlineExceeded`, `httpx.ConnectError` (also `RefusedAddress`), and `MailError` for what is no answer.
    """
    watchdog = Watchdog(deadline_s)
    try:
        with watchdog:
            return _spoken(server, envelope, policy, watchdog, deadline_s)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        if watchdog.over:
            raise DeadlineExceeded(f"no whole answer within {deadline_s:g} s") from error
        if isinstance(error, smtplib.SMTPResponseException):
            return Answer(int(error.smtp_code), {})
        raise MailError(f"{type(error).__name__}: {error}") from error


def _spoken(server: Server, envelope: Envelope, policy: AddressPolicy, watchdog: Watchdog, deadline_s: float) -> Answer:
    address = allowed_address(policy, server.host, server.port)
    talk = _Talk(address, server, watchdog, deadline_s)
    try:
        if server.tls == "starttls":
            talk.secure()
        if server.login is not None:
            talk.ehlo_or_helo_if_needed()
            talk.login(server.login, server.password or "")
        try:
            refused = talk.sendmail(envelope.sender, list(envelope.recipients), envelope.message)
        except smtplib.SMTPRecipientsRefused as error:
            refused = error.recipients
        return Answer(next(iter(refused.values()))[0] if refused else 250, {})
    finally:
        talk.close()


class _Talk(smtplib.SMTP):
    """A conversation whose socket the watchdog holds at each moment, and which is read from with a limit."""

    def __init__(self, address: str, server: Server, watchdog: Watchdog, timeout_s: float) -> None:
        self._address, self._server, self._watchdog = address, server, watchdog
        super().__init__(local_hostname=OWN_NAME, timeout=timeout_s)
        code, words = self.connect(server.host, server.port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, words)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        plain = socket.create_connection((self._address, port), timeout)
        self._watchdog.hold(plain)
        return self._wrapped(plain) if self._server.tls == "tls" else plain

    def _wrapped(self, plain: socket.socket) -> ssl.SSLSocket:
        trust = self._server.trust or ssl.create_default_context()
        made = trust.wrap_socket(plain, server_hostname=self._server.host, do_handshake_on_connect=False)
        self._watchdog.hold(made)
        made.do_handshake()
        return made

    def secure(self) -> None:
        """STARTTLS, or an error: what was said in clear before is forgotten."""
        self.ehlo_or_helo_if_needed()
        if not self.has_extn("starttls"):
            raise MailError("the server offers no STARTTLS; smtps:// speaks TLS from the first byte")
        code, words = self.docmd("STARTTLS")
        if code != 220:
            raise smtplib.SMTPResponseException(code, words)
        assert self.sock is not None
        self.sock = self._wrapped(self.sock)
        self.file = None
        self.helo_resp = self.ehlo_resp = None
        self.esmtp_features, self.does_esmtp = {}, False

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None:
            assert self.sock is not None
            self.file = _Limited(self.sock.makefile("rb"))
        return super().getreply()


class _Limited:
    """A file that ends after `MOST_BYTES`: no reply has so many lines."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._left = file, MOST_BYTES

    def readline(self, most: int) -> bytes:
        line = self._file.readline(min(most, self._left))
        self._left -= len(line)
        if self._left <= 0:
            raise OSError(f"the server says more than {MOST_BYTES} bytes")
        return line

    def close(self) -> None:
        self._file.close()
