"""TLS with the fleet's own CA, by real handshakes: who is trusted, whom a certificate names, renewal meanwhile."""

import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controlplane.contract.errors import BadSettings, Conflict, NotFound
from controlplane.serving.authority import Authority
from controlplane.serving.tls import (
    NODE_URI,
    ClientFiles,
    ClientTls,
    TlsFiles,
    check_exposed,
    client_context,
    context_of,
    names_in,
    tls_files,
)
from tests.processes import wait_for

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path / "tls")
    made.init(NOW)
    made.issue_server("server", ["localhost", "127.0.0.1"], NOW)
    made.issue_node("gpu-1", NOW)
    return made


def files(authority: Authority, *, clients: bool = True) -> TlsFiles:
    folder = authority.folder
    return TlsFiles(folder / "server.pem", folder / "server.key", folder / "ca.pem" if clients else None)


class Server:
    """Tells each client its names, and remembers why handshakes failed."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                try:
                    with self._context.wrap_socket(plain, server_side=True) as secured:
                        secured.sendall(" ".join(sorted(names_in(secured.getpeercert()))).encode() or b"-")
                except OSError as error:
                    self.failures.append(str(error))

    def failure(self) -> str:
        """The newest; the client may have heard of it first."""
        return wait_for("a handshake fails", lambda: self.failures)[-1]

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def ask(self, context: ssl.SSLContext, name: str = "localhost") -> tuple[str, int]:
        """What it says of the client, and the serial number of its certificate."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as plain:
            with context.wrap_socket(plain, server_hostname=name) as secured:
                told = secured.recv(1000).decode()
                serial = (secured.getpeercert() or {}).get("serialNumber", "0")
                return told, int(str(serial), 16)


@contextmanager
def serving(context: ssl.SSLContext) -> Iterator[Server]:
    server = Server(context)
    try:
        yield server
    finally:
        server.close()


def test_a_client_trusts_the_fleets_ca_alone_and_only_the_servers_names(authority: Authority) -> None:
    trusting = client_context(authority.folder / "ca.pem")
    with serving(context_of(files(authority))) as server:
        assert server.ask(trusting)[0] == "-" and server.ask(trusting, "127.0.0.1")[0] == "-"
        with pytest.raises(ssl.SSLCertVerificationError, match=r"self-signed|unable to get"):
            server.ask(client_context(None))
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            server.ask(trusting, "other.example")


def test_a_certificate_names_its_node_and_only_this_cas_counts(authority: Authority, tmp_path: Path) -> None:
    folder = authority.folder
    node = client_context(folder / "ca.pem", folder / "gpu-1.pem", folder / "gpu-1.key")
    foreign = Authority(tmp_path / "foreign")
    foreign.init(NOW)
    foreign.issue_node("gpu-1", NOW)
    with serving(context_of(files(authority))) as server:
        assert set(server.ask(node)[0].split()) == {"gpu-1", f"{NODE_URI}gpu-1"}
        forged = client_context(folder / "ca.pem", foreign.folder / "gpu-1.pem", foreign.folder / "gpu-1.key")
        with pytest.raises(OSError):
            assert server.ask(forged)[0] != "-"  # TLS 1.3 tells the client of the refusal only when it reads.
        assert "certificate verify failed" in server.failure()


def test_a_servers_certificate_is_no_nodes(authority: Authority) -> None:
    folder = authority.folder
    wrong = client_context(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    with serving(context_of(files(authority))) as server:
        with pytest.raises(OSError):
            assert server.ask(wrong)[0] != "-"
        assert "unsuitable certificate purpose" in server.failure()


def test_old_protocols_are_refused(authority: Authority) -> None:
    old = client_context(authority.folder / "ca.pem")
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with serving(context_of(files(authority))) as server, pytest.raises(ssl.SSLError):
        server.ask(old)


def test_only_strong_ciphers_are_offered_and_the_strongest_first(authority: Authority) -> None:
    offered = context_of(files(authority)).get_ciphers()
    assert all(one["strength_bits"] >= 128 for one in offered)
    assert not [one["name"] for one in offered if any(weak in one["name"] for weak in ("RC4", "3DES", "MD5", "NULL"))]
    keyed = [one["name"] for one in offered if not one["name"].startswith(("TLS_", "ECDHE-", "DHE-"))]
    assert not keyed, "each has forward secrecy"
    assert offered[0]["protocol"] == "TLSv1.3" and offered[0]["strength_bits"] == 256
    weak = client_context(authority.folder / "ca.pem")
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers("AES128-SHA:AES256-SHA:AES128-GCM-SHA256@SECLEVEL=0")  # RSA key exchange, SHA-1.
    with serving(context_of(files(authority))) as server, pytest.raises(ssl.SSLError):
        server.ask(weak)


def test_what_is_renewed_counts_from_the_next_handshake_on(authority: Authority) -> None:
    trusting = client_context(authority.folder / "ca.pem")
    with serving(context_of(files(authority))) as server:
        before = server.ask(trusting)[1]
        assert server.ask(trusting)[1] == before
        assert authority.renew(NOW, within_days=91) == ["gpu-1", "server"]
        server.ask(trusting)
        renewed = server.ask(trusting)[1]
        assert renewed != before
        (authority.folder / "server.pem").write_text("not a certificate")
        assert server.ask(trusting)[1] == renewed, "one that cannot be used leaves the one before"


def test_a_client_shows_its_renewed_certificate_and_keeps_one_that_works(authority: Authority) -> None:
    folder = authority.folder
    authority.issue_node("gpu-2", NOW)
    client = ClientTls(ClientFiles(folder / "ca.pem", folder / "gpu-1.pem", folder / "gpu-1.key"))
    with serving(context_of(files(authority))) as server:
        for kind in ("pem", "key"):
            (folder / f"gpu-2.{kind}").replace(folder / f"gpu-1.{kind}")
        assert f"{NODE_URI}gpu-1" in server.ask(client.context)[0]
        client.refresh()
        assert f"{NODE_URI}gpu-2" in server.ask(client.context)[0]
        for broken in ("not a key", None):
            (folder / "gpu-1.key").write_text(broken) if broken else (folder / "gpu-1.key").unlink()
            client.refresh()
            assert f"{NODE_URI}gpu-2" in server.ask(client.context)[0]


@pytest.mark.parametrize(("cert", "key", "named"), [("a.pem", None, "client_key"), (None, "a.key", "client_cert")])
def test_a_clients_certificate_and_key_go_together(cert: str | None, key: str | None, named: str) -> None:
    with pytest.raises(BadSettings, match=f"{named}: client_cert and client_key go together"):
        ClientFiles(None, None if cert is None else Path(cert), None if key is None else Path(key))


def test_only_what_ends_soon_is_renewed_under_its_names(authority: Authority) -> None:
    assert authority.renew(NOW) == []
    later = NOW + timedelta(days=80)
    authority.issue_node("gpu-2", later)
    assert authority.renew(later) == ["gpu-1", "server"]
    assert authority.ends_at("server") == later + timedelta(days=90)
    with pytest.raises(NotFound):
        authority.ends_at("gpu-9")


def test_nothing_outlives_the_ca(authority: Authority) -> None:
    last = NOW + timedelta(days=3650 - 10)
    authority.issue_node("late", last)
    assert authority.ends_at("late") <= authority.ends_at("ca")


def test_keys_are_their_owners_alone_and_nothing_is_overwritten(authority: Authority) -> None:
    for key in authority.folder.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    with pytest.raises(Conflict):
        authority.init(NOW)
    with pytest.raises(Conflict, match="tailwright tls renew"):
        authority.issue_node("gpu-1", NOW)
    for name in ("ca", "", "../evil", ".hidden"):
        with pytest.raises(BadSettings, match="name"):
            authority.issue_node(name, NOW)
    with pytest.raises(BadSettings, match="host"):
        authority.issue_server("empty", [], NOW)
    with pytest.raises(BadSettings, match="no CA"):
        Authority(authority.folder / "none").issue_node("gpu-1", NOW)


def test_settings_that_do_not_fit_together_name_what_is_missing(authority: Authority) -> None:
    some = authority.folder / "server.pem"
    assert tls_files(None, None, None) is None
    for given, missing in (
        ((some, None, None), "tls_key"),
        ((None, some, None), "tls_cert"),
        ((None, None, some), "tls_cert"),
    ):
        with pytest.raises(BadSettings, match=missing):
            tls_files(*given)
    with pytest.raises(BadSettings, match="tls_cert"):
        context_of(TlsFiles(some, authority.folder / "gpu-1.key"))
    with pytest.raises(BadSettings, match="tls_client_ca"):
        context_of(TlsFiles(some, authority.folder / "server.key", authority.folder / "none.pem"))
    with pytest.raises(BadSettings, match="ca_file"):
        client_context(authority.folder / "none.pem")
    with pytest.raises(BadSettings, match="client_cert"):
        client_context(None, some, authority.folder / "gpu-1.key")


def test_tokens_do_not_go_in_clear_unless_somebody_says_so(authority: Authority) -> None:
    secured = files(authority)
    for host, tls, insecure in (("127.0.0.1", None, False), ("0.0.0.0", secured, False), ("0.0.0.0", None, True)):
        check_exposed(host, tls, insecure)
    for host in ("0.0.0.0", "::", "10.1.2.3", "gpu-1.example"):
        with pytest.raises(BadSettings, match=r"host: .*insecure_http"):
            check_exposed(host, None, False)
