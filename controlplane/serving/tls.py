"""TLS of a server: its certificate, whom it trusts to name clients, and their renewal while it runs.

Guarantee: a certificate, key or client CA that is replaced on disk counts from the next handshake on; a replacement
that cannot be used is logged, and the one before stays in use. Protocols below TLS 1.2 are refused.
"""

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.contract.errors import BadSettings
from controlplane.contract.host_names import is_loopback

log = logging.getLogger(__name__)

TLS_NAMES = "tls_names"
"""In an ASGI scope's `state`: what the client's certificate is for; absent where it showed none."""
NODE_URI = "urn:tailwright:node:"
"""With a node's name behind it: the name in a certificate that its agent shows."""


@dataclass(frozen=True)
class TlsFiles:
    """PEM files. `client_ca`: who may vouch for clients; None: clients show no certificate."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    def stamp(self) -> tuple[int, ...]:
        """Differs when a file was replaced. Raises OSError."""
        files = (self.cert, self.key, *([self.client_ca] if self.client_ca else []))
        return tuple(number for file in files for number in (file.stat().st_mtime_ns, file.stat().st_ino))


def tls_files(cert: Path | None, key: Path | None, client_ca: Path | None) -> TlsFiles | None:
    """From settings. Raises BadSettings where they do not fit together."""
    if cert is None and key is None and client_ca is None:
        return None
    if cert is None or key is None:
        missing = "tls_cert" if cert is None else "tls_key"
        raise BadSettings(f"{missing}: tls_cert and tls_key go together", field=missing)
    return TlsFiles(cert, key, client_ca)


def check_exposed(host: str, tls: TlsFiles | None, insecure_http: bool) -> None:
    """Raises BadSettings where tokens would go in clear over a network that nobody has said is safe."""
    if tls is None and not insecure_http and not is_loopback(host):
        raise BadSettings(
            f"host: {host} is reached from other machines, and tokens would go in clear: set tls_cert and tls_key "
            "(`tailwright tls init` makes them), or insecure_http where something before this encrypts",
            field="host",
        )


def context_of(files: TlsFiles) -> ssl.SSLContext:
    """A server's context that follows its files. Raises BadSettings that names the file."""
    renewed = _Renewed(files)
    renewed.current.sni_callback = renewed.choose
    return renewed.current


class _Renewed:
    """OpenSSL asks for a name's context at each handshake: the moment to look whether the files have changed."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self.current = _load(files)
        self._stamp = files.stamp()

    def choose(self, connection: Any, name: str | None, outer: ssl.SSLContext) -> None:
        try:
            stamp = self._files.stamp()
            if stamp != self._stamp:
                self._stamp = stamp
                self.current = _load(self._files)
                log.info("the certificate in %s was renewed", self._files.cert)
        except (OSError, BadSettings) as error:
            log.error("a renewed certificate cannot be used, the one before stays in use: %s", error)
        connection.context = self.current


def _load(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files.cert, files.key)
    except (OSError, ssl.SSLError) as error:
        message = f"tls_cert: {files.cert} and {files.key} cannot be used: {error}"
        raise BadSettings(message, field="tls_cert") from error
    if files.client_ca is not None:
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ssl.SSLError) as error:
            message = f"tls_client_ca: {files.client_ca} cannot be used: {error}"
            raise BadSettings(message, field="tls_client_ca") from error
        context.verify_mode = ssl.CERT_OPTIONAL  # People come without one; who must not is for the routes to say.
    return context


def names_in(certificate: dict[str, Any] | None) -> frozenset[str]:
    """What a checked certificate (`SSLSocket.getpeercert`) is for: its DNS and URI names, and its common name."""
    if not certificate:
        return frozenset()
    names = {value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI")}
    names |= {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    return frozenset(names)


@dataclass(frozen=True)
class ClientFiles:
    """PEM files of a client: whom it trusts, and who it is. None: what is usual, and nobody."""

    ca_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None

    def __post_init__(self) -> None:
        if (self.client_cert is None) != (self.client_key is None):
            missing = "client_cert" if self.client_cert is None else "client_key"
            raise BadSettings(f"{missing}: client_cert and client_key go together", field=missing)

    @property
    def any(self) -> bool:
        return self.ca_file is not None or self.client_cert is not None

    def stamp(self) -> tuple[int, ...]:
        """Differs when the certificate was replaced. Raises OSError."""
        files = (file for file in (self.client_cert, self.client_key) if file is not None)
        return tuple(number for file in files for number in (file.stat().st_mtime_ns, file.stat().st_ino))


class ClientTls:
    """A client's context, which it keeps; `refresh` takes a renewed certificate up for the connections to come.

    Raises BadSettings that names the setting.
    """

    def __init__(self, files: ClientFiles) -> None:
        self._files = files
        self.context = client_context(files.ca_file, files.client_cert, files.client_key)
        self._stamp = files.stamp()

    def refresh(self) -> None:
        """A replacement that cannot be used is logged, and looked at again when it changes."""
        files = self._files
        try:
            stamp = files.stamp()
            if files.client_cert is None or stamp == self._stamp:
                return
            self._stamp = stamp
            client_context(files.ca_file, files.client_cert, files.client_key)  # One that fails would spoil ours.
            self.context.load_cert_chain(files.client_cert, files.client_key)
            log.info("the certificate in %s was renewed", files.client_cert)
        except (OSError, BadSettings) as error:
            log.error("a renewed certificate cannot be used, the one before stays in use: %s", error)


def client_context(ca_file: Path | None, cert: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """A client's: the system's authorities or only `ca_file`, and its own certificate. Raises BadSettings."""
    try:
        context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise BadSettings(f"ca_file: {ca_file} cannot be used: {error}", field="ca_file") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert is not None:
        try:
            context.load_cert_chain(cert, key)
        except (OSError, ssl.SSLError) as error:
            message = f"client_cert: {cert} and {key} cannot be used: {error}"
            raise BadSettings(message, field="client_cert") from error
    return context
