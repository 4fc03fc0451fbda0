"""A revoked client certificate on a real server: in the handshake, on a resumed session, on a connection that is open,
and with lists that cannot be used."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from controlplane.contract.errors import BadSettings
from controlplane.serving.authority import Authority
from controlplane.serving.limited_http import end_revoked, protocol
from controlplane.serving.limits import Doorkeeper, Refused
from controlplane.serving.tls import ServerTls, TlsFiles, client_context, tls_files
from tests.processes import wait_for

NOW = datetime.now(UTC).replace(microsecond=0)
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers 204; takes any WebSocket, and waits for its end."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


class Secured:
    """A server whose files the fleet's CA writes, and its clients. `now` may be set on."""

    def __init__(self, folder: Path) -> None:
        self.now, self.ca, self.door = NOW, Authority(folder / "tls"), Doorkeeper()
        if not self.ca.folder.exists():
            self.ca.init(NOW)
        self.ca.issue_server("server", ["localhost"], NOW)
        for node in ("gpu-1", "gpu-2"):
            self.ca.issue_node(node, NOW)
        files = TlsFiles(*(self.file(name) for name in ("server.pem", "server.key", "ca.pem", "crl.pem")))
        self.tls = ServerTls(files, lambda: self.now, self._refuse)
        self.in_handshake = 0
        self.server: uvicorn.Server
        self.port = 0

    def _refuse(self) -> None:
        self.in_handshake += 1
        self.door.refuse(Refused.CERTIFICATE_REVOKED)

    def file(self, name: str) -> Path:
        return self.ca.folder / name

    def context(self, node: str) -> ssl.SSLContext:
        return client_context(self.file("ca.pem"), self.file(f"{node}.pem"), self.file(f"{node}.key"))

    def connect(self, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        return context.wrap_socket(plain, server_hostname="localhost", session=session)

    def is_served(self, node: str) -> bool:
        try:
            with self.connect(self.context(node)) as client:
                return answers(client)
        except OSError:
            return False

    @property
    def refused(self) -> int:
        return self.door.refused[Refused.CERTIFICATE_REVOKED]

    def end_revoked(self) -> None:
        """What `Server` does every few seconds, in the server's loop."""
        self.tls.look()
        end_revoked(self.server.server_state.connections, self.door, self.tls.is_revoked)


def answers(client: ssl.SSLSocket, request: bytes = REQUEST, status: bytes = b" 204 ") -> bool:
    try:
        client.sendall(request)
        return status in client.recv(4096)
    except OSError:
        return False


@contextlib.contextmanager
def serving(secured: Secured) -> Iterator[Secured]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        http=protocol(secured.door, secured.tls.is_revoked),
        ssl_context_factory=lambda *_: secured.tls.context,
        lifespan="off",
        log_level="error",
        timeout_graceful_shutdown=1,
    )
    secured.server, secured.port = uvicorn.Server(config), listener.getsockname()[1]
    thread = threading.Thread(target=secured.server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        wait_for("the server", lambda: secured.server.started)
        yield secured
    finally:
        secured.server.should_exit = True
        thread.join(10)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with serving(Secured(tmp_path)) as made:
        yield made


def in_loop(secured: Secured, act: Any) -> None:
    """Run in the server's loop, and wait."""
    connection = next(iter(secured.server.server_state.connections))
    done = threading.Event()

    def run() -> None:
        act()
        done.set()

    loop: asyncio.AbstractEventLoop = connection.loop
    loop.call_soon_threadsafe(run)
    assert done.wait(10)


def test_a_revoked_certificate_is_refused_in_the_handshake_and_counted(secured: Secured) -> None:
    assert secured.is_served("gpu-1") and secured.is_served("gpu-2")
    secured.ca.revoke("gpu-1", NOW)
    assert not secured.is_served("gpu-1")
    wait_for("it is counted", lambda: secured.refused == 1)
    assert secured.in_handshake == 1
    assert secured.is_served("gpu-2")
    secured.ca.issue_node("gpu-1", NOW)
    assert secured.is_served("gpu-1"), "a certificate anew counts"


def test_a_session_from_before_is_not_resumed(secured: Secured) -> None:
    context = secured.context("gpu-1")
    with secured.connect(context) as client:
        assert answers(client)  # What comes first from the server is its tickets.
        session = client.session
    assert session is not None
    with secured.connect(context, session) as client:
        assert client.session_reused and answers(client), "without a revocation it would be"
    secured.ca.revoke("gpu-1", NOW)
    with contextlib.suppress(OSError), secured.connect(context, session) as client:
        assert not answers(client)
    wait_for("it is counted", lambda: secured.refused == 1)
    assert secured.in_handshake == 0, "OpenSSL does not look at a resumed session's certificate"


@pytest.mark.parametrize(("request_", "status"), [(REQUEST, b" 204 "), (UPGRADE, b" 101 ")])
def test_an_open_connection_ends(secured: Secured, request_: bytes, status: bytes) -> None:
    with secured.connect(secured.context("gpu-1")) as revoked, secured.connect(secured.context("gpu-2")) as other:
        assert answers(revoked, request_, status) and answers(other)
        secured.ca.revoke("gpu-1", NOW)
        in_loop(secured, secured.end_revoked)
        with contextlib.suppress(ConnectionResetError, ssl.SSLEOFError):
            assert revoked.recv(100) == b""
        assert secured.refused == 1
        assert answers(other)


@pytest.mark.parametrize("content", [b"not a list", None])
def test_a_list_that_cannot_be_used_leaves_the_one_before(secured: Secured, content: bytes | None) -> None:
    secured.ca.revoke("gpu-1", NOW)
    assert not secured.is_served("gpu-1")
    good, file = secured.file("crl.pem").read_bytes(), secured.file("crl.pem")
    file.unlink() if content is None else file.write_bytes(content)
    assert secured.is_served("gpu-2") and not secured.is_served("gpu-1")
    assert secured.tls.failures == {"tls_client_crl": 1}, "once, not at each look"
    assert "crl.pem" in secured.tls.faults["tls_client_crl"]
    file.write_bytes(good)
    assert secured.is_served("gpu-2") and not secured.is_served("gpu-1") and not secured.tls.faults


def test_a_list_counts_beside_a_certificate_that_cannot_be_used(secured: Secured) -> None:
    assert secured.is_served("gpu-1")
    secured.file("server.pem").write_text("not a certificate")
    secured.ca.revoke("gpu-1", NOW)
    assert secured.is_served("gpu-2") and not secured.is_served("gpu-1")
    assert secured.tls.failures == {"tls_cert": 1} and "server.pem" in secured.tls.faults["tls_cert"]


def test_a_list_whose_time_is_over_stays_in_use(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    secured.ca.revoke("gpu-1", NOW)
    assert not secured.is_served("gpu-1") and not secured.tls.list_has_ended
    secured.now = NOW + timedelta(days=91)
    refused = secured.refused
    for _ in range(2):
        assert secured.is_served("gpu-2") and not secured.is_served("gpu-1")
    assert secured.refused >= refused + 2 and secured.tls.list_has_ended
    told = [record for record in caplog.records if "has ended, and stays in use" in record.getMessage()]
    assert len(told) == 1


def test_a_server_starts_with_a_list_whose_time_is_over(tmp_path: Path) -> None:
    Authority(tmp_path / "tls").init(NOW - timedelta(days=91))
    with serving(Secured(tmp_path)) as secured:
        assert secured.tls.list_has_ended and secured.is_served("gpu-1")
        secured.ca.revoke("gpu-1", NOW)
        assert secured.is_served("gpu-2") and not secured.is_served("gpu-1")
        assert not secured.tls.list_has_ended


def test_settings_that_do_not_fit_the_list(secured: Secured) -> None:
    cert, key, ca = (secured.file(name) for name in ("server.pem", "server.key", "ca.pem"))
    with pytest.raises(BadSettings, match="tls_client_ca: tls_client_crl"):
        tls_files(cert, key, None, secured.file("crl.pem"))
    with pytest.raises(BadSettings, match=r"tls_client_crl: .*none\.pem"):
        ServerTls(TlsFiles(cert, key, ca, secured.file("none.pem")))


def test_when_the_files_in_use_end(secured: Secured) -> None:
    ends = secured.tls.ends()
    assert ends == {
        "tls_cert": (NOW + timedelta(days=90)).timestamp(),
        "tls_client_ca": (NOW + timedelta(days=3650)).timestamp(),
        "tls_client_crl": (NOW + timedelta(days=90)).timestamp(),
    }
    assert set(ServerTls(TlsFiles(secured.file("server.pem"), secured.file("server.key"))).ends()) == {"tls_cert"}
