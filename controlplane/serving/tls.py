"""TLS of a server: its certificate, whom it trusts to name clients, and their renewal while it runs.

Guarantee: a certificate, key, client CA or revocation list that is replaced on disk counts from the next handshake on;
a replacement that cannot be used is logged, and the one before stays in use. Protocols below TLS 1.2 are refused.
"""

import logging
import ssl
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.contract.clock import Clock, utc_now
from controlplane.contract.errors import BadSettings
from controlplane.contract.host_names import is_loopback

if TYPE_CHECKING:  # The engine and the agent have TLS without it.
    from controlplane.serving.revocation_list import RevocationList

log = logging.getLogger(__name__)

TLS_NAMES = "tls_names"
"""In an ASGI scope's `state`: what the client's certificate is for; absent where it showed none."""
NODE_URI = "urn:tailwright:node:"
"""With a node's name behind it: the name in a certificate that its agent shows."""
_CERT_REVOKED = 23  # X509_V_ERR_CERT_REVOKED of OpenSSL.


@dataclass(frozen=True)
class TlsFiles:
    """PEM files. `client_ca`: who may vouch for clients; None: clients show no certificate. `client_crl`: whom it no
    longer vouches for."""

    cert: Path
    key: Path
    client_ca: Path | None = None
    client_crl: Path | None = None


def tls_files(
    cert: Path | None, key: Path | None, client_ca: Path | None, client_crl: Path | None = None
) -> TlsFiles | None:
    """From settings. Raises BadSettings where they do not fit together."""
    if client_crl is not None and client_ca is None:
        raise BadSettings("tls_client_ca: tls_client_crl is a list of its: set both", field="tls_client_ca")
    if cert is None and key is None and client_ca is None:
        return None
    if cert is None or key is None:
        missing = "tls_cert" if cert is None else "tls_key"
        raise BadSettings(f"{missing}: tls_cert and tls_key go together", field=missing)
    return TlsFiles(cert, key, client_ca, client_crl)


def check_exposed(host: str, tls: TlsFiles | None, insecure_http: bool) -> None:
    """Raises BadSettings where tokens and prompts would go in clear over a network that nobody has said is safe."""
    if tls is None and not insecure_http and not is_loopback(host):
        raise BadSettings(
            f"host: {host} is reached from other machines, and tokens and prompts would go in clear: set tls_cert and "
            "tls_key (`tailwright tls init` makes them), or insecure_http where something before this encrypts",
            field="host",
        )


class ServerTls:
    """A server's `context`, which follows its files: at each handshake, and at each `look`.

    What `client_crl` revokes is refused by OpenSSL in the handshake, and once more by `is_revoked`: a session that is
    resumed is not verified again, and OpenSSL takes nobody by a list whose time is over.

    `on_revoked` is called for each handshake that is refused so. `failures`: replacements that could not be used, by
    setting; `faults`: why those that lie there now cannot be. Raises BadSettings that names the file.
    """

    def __init__(
        self, files: TlsFiles, clock: Clock = utc_now, on_revoked: Callable[[], object] = lambda: None
    ) -> None:
        self._files, self._clock = files, clock
        self.failures: Counter[str] = Counter()
        self.faults: dict[str, str] = {}
        self.revoked: RevocationList | None = None
        self._told_of_end = False
        self._seen = self._stamps()
        self.context, self._certificate = _load(files)
        self._current = self.context
        self._revoked_in_handshake = self._take_list(self.context)
        self.context.sni_callback = self._choose
        self.context.sslobject_class = _counted(on_revoked)
        self._check_by_list()

    def look(self) -> None:
        """Take up what was replaced. What cannot be used is logged, counted and kept as a fault."""
        stamps = self._stamps()
        if stamps != self._seen:
            certificate_replaced, self._seen = stamps[0] != self._seen[0], stamps
            self._take_up(certificate_replaced)
        self._check_by_list()

    def _take_up(self, certificate_replaced: bool) -> None:
        self.faults = {}
        fresh, certificate = self._current, self._certificate
        try:
            fresh, certificate = _load(self._files)
        except BadSettings as error:
            self._is_at_fault(error)
        taken = None
        try:
            taken = self._take_list(fresh)
        except BadSettings as error:
            self._is_at_fault(error)
        if taken is None and not certificate_replaced:
            return  # The one before goes by the list before.
        if fresh is not self._current or taken is not None:
            self._revoked_in_handshake = taken
        if certificate != self._certificate:
            log.info("the certificate in %s was renewed", self._files.cert)
        self._current, self._certificate = fresh, certificate

    def is_revoked(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a connection's certificate (`SSLSocket.getpeercert`) no longer counts."""
        return self.revoked is not None and self.revoked.names(certificate)

    @property
    def list_has_ended(self) -> bool:
        """The list in use should have been renewed by now. Whom it names is refused all the same."""
        return self.revoked is not None and self.revoked.ends_at <= self._clock()

    def ends(self) -> dict[str, float]:
        """When what is in use ends, by setting; seconds since the epoch. Of several authorities, the first to end."""
        from cryptography import x509

        found = {"tls_cert": x509.load_pem_x509_certificate(self._certificate).not_valid_after_utc.timestamp()}
        authorities = self._current.get_ca_certs()
        if authorities:
            found["tls_client_ca"] = min(float(ssl.cert_time_to_seconds(str(one["notAfter"]))) for one in authorities)
        if self.revoked is not None:
            found["tls_client_crl"] = self.revoked.ends_at.timestamp()
        return found

    def _choose(self, connection: Any, name: str | None, outer: ssl.SSLContext) -> None:
        """OpenSSL asks for a name's context at each handshake: the moment to look whether the files have changed."""
        self.look()
        connection.context = self._current

    def _stamps(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        files = self._files
        certificates = (files.cert, files.key, files.client_ca)
        return _stamp_of(certificates), _stamp_of((files.client_crl,))

    def _take_list(self, context: ssl.SSLContext) -> "RevocationList | None":
        """Raises BadSettings. At the start there is none to keep: one whose time is over is then better than none."""
        file = self._files.client_crl
        if file is None:
            return None
        from controlplane.serving import revocation_list

        names, ders = context.get_ca_certs(), context.get_ca_certs(binary_form=True)
        authorities = [
            revocation_list.CaCertificate(cert["subject"], der) for cert, der in zip(names, ders, strict=True)
        ]
        found = revocation_list.read(file, authorities)
        if self.revoked is not None:
            found = revocation_list.replacement(self.revoked, found, file, self._clock())
        try:
            context.load_verify_locations(file)
        except (OSError, ssl.SSLError) as error:
            raise BadSettings(f"tls_client_crl: {file} cannot be used: {error}", field="tls_client_crl") from error
        log.info("%d certificates are revoked by %s", len(found.revoked), file)
        self.revoked, self._told_of_end = found, False
        return found

    def _check_by_list(self) -> None:
        """Have OpenSSL go by the list while its time lasts: by one that has ended it would refuse everybody."""
        if self.list_has_ended and not self._told_of_end:
            self._told_of_end = True
            log.error("tls_client_crl: the list in %s has ended, and stays in use", self._files.client_crl)
        found = self._revoked_in_handshake
        checks = found is not None and found.ends_at > self._clock()
        flag, flags = ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF, self.context.verify_flags
        wanted = flags | flag if checks else flags & ~flag
        if wanted != flags:
            self.context.verify_flags = wanted

    def _is_at_fault(self, error: BadSettings) -> None:
        setting = str(error.detail["field"])
        self.failures[setting] += 1
        self.faults[setting] = error.message
        log.error("a renewed file cannot be used, the one before stays in use: %s", error)


def context_of(files: TlsFiles) -> ssl.SSLContext:
    """A server's context that follows its files. Raises BadSettings that names the file."""
    return ServerTls(files).context


def _counted(on_revoked: Callable[[], object]) -> type[ssl.SSLObject]:
    class Counted(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except ssl.SSLCertVerificationError as error:
                if error.verify_code == _CERT_REVOKED:
                    on_revoked()
                raise

    return Counted


def _stamp_of(files: Sequence[Path | None]) -> tuple[int, ...]:
    """Differs when a file was replaced, or is no longer there."""
    stamp = []
    for file in files:
        try:
            found = None if file is None else file.stat()
        except OSError:
            found = None
        stamp += [0, 0] if found is None else [found.st_mtime_ns, found.st_ino]
    return tuple(stamp)


CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20:@SECLEVEL=2"
"""Of TLS 1.2: those with forward secrecy that are authenticated encryption. A Python's own choice differs: Debian's has
all of OpenSSL's, an RSA or shared key for the exchange among them."""


def _load(files: TlsFiles) -> tuple[ssl.SSLContext, bytes]:
    """A context, and the certificate in it, PEM. Raises BadSettings."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    try:
        certificate = files.cert.read_bytes()
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
    return context, certificate


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

    def __init__(self, files: ClientFiles, *, field: str = "ca_file") -> None:
        """field: the setting that the authorities' file is of."""
        self._files = files
        self.context = client_context(files.ca_file, files.client_cert, files.client_key, field=field)
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


def client_context(
    ca_file: Path | None, cert: Path | None = None, key: Path | None = None, *, field: str = "ca_file"
) -> ssl.SSLContext:
    """A client's: the system's authorities or only `ca_file`, and its own certificate. Raises BadSettings, which names
    the setting `field`."""
    try:
        context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise BadSettings(f"{field}: {ca_file} cannot be used: {error}", field=field) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert is not None:
        try:
            context.load_cert_chain(cert, key)
        except (OSError, ssl.SSLError) as error:
            message = f"client_cert: {cert} and {key} cannot be used: {error}"
            raise BadSettings(message, field="client_cert") from error
    return context
