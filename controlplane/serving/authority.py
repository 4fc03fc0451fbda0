"""A fleet's own certificate authority: a CA, certificates for servers and nodes, and their renewal (X.509, RFC 5280).

Guarantee: keys are of mode 600 and never overwritten by accident; a certificate names what it is for (DNS names and
addresses of a server; a node's name as its common name and as a URI) and how it may be used; what is renewed replaces
its file atomically, so that a server that reads it meanwhile sees the old or the new.
"""

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controlplane.contract.errors import BadSettings, Conflict, NotFound
from controlplane.serving.tls import NODE_URI

CA = "ca"
CA_DAYS, LEAF_DAYS = 3650, 90
RENEW_DAYS = 30
"""A certificate with less than this left is renewed."""
BACKDATED = timedelta(minutes=5)
"""Clocks of a fleet differ."""


@dataclass(frozen=True)
class Authority:
    """The folder `folder` holds ca.pem, ca.key and a NAME.pem and NAME.key for each certificate."""

    folder: Path

    def init(self, now: datetime, name: str = "Tailwright fleet CA") -> None:
        """Make the CA. Raises Conflict where there is one."""
        if self._cert(CA).exists() or self._key(CA).exists():
            raise Conflict(f"{self._cert(CA)} is there already: another CA would end all certificates", field="dir")
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key.public_key(), now, CA_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(is_ca=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        self._write(CA, builder.sign(key, hashes.SHA256()), key)

    def issue_server(self, name: str, hosts: Sequence[str], now: datetime) -> None:
        """A certificate for a server that is reached by these host names and addresses."""
        if not hosts:
            raise BadSettings("host: name at least one host name or address that clients reach it by", field="host")
        self._issue(name, [_host(host) for host in hosts], ExtendedKeyUsageOID.SERVER_AUTH, now)

    def issue_node(self, node: str, now: datetime) -> None:
        """A client certificate that says which node its agent speaks for."""
        self._issue(node, [x509.UniformResourceIdentifier(NODE_URI + node)], ExtendedKeyUsageOID.CLIENT_AUTH, now)

    def renew(self, now: datetime, *, within_days: float = RENEW_DAYS) -> list[str]:
        """Issue again, each with a new key, what ends within that time; returns their names. The CA is not renewed."""
        renewed = []
        for path in sorted(self.folder.glob("*.pem")):
            name = path.stem
            if name == CA:
                continue
            old = x509.load_pem_x509_certificate(path.read_bytes())
            if old.not_valid_after_utc - now > timedelta(days=within_days):
                continue
            names = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            usage = old.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            self._issue(name, list(names), next(iter(usage)), now, replace=True)
            renewed.append(name)
        return renewed

    def ends_at(self, name: str) -> datetime:
        """When a certificate ends. Raises NotFound."""
        try:
            return x509.load_pem_x509_certificate(self._cert(name).read_bytes()).not_valid_after_utc
        except FileNotFoundError as error:
            raise NotFound(f"{self._cert(name)}: there is no such certificate", field="name") from error

    def _issue(
        self,
        name: str,
        names: Sequence[x509.GeneralName],
        usage: x509.ObjectIdentifier,
        now: datetime,
        *,
        replace: bool = False,
    ) -> None:
        if name == CA or not name or "/" in name or name.startswith("."):
            raise BadSettings(f"name: {name!r} cannot be a certificate's file name here", field="name")
        if self._cert(name).exists() and not replace:
            raise Conflict(f"{self._cert(name)} is there already: `tailwright tls renew` replaces it", field="name")
        try:
            ca = x509.load_pem_x509_certificate(self._cert(CA).read_bytes())
            ca_key = serialization.load_pem_private_key(self._key(CA).read_bytes(), None)
        except (OSError, ValueError) as error:
            raise BadSettings(f"dir: {self.folder} holds no CA that can be read: {error}", field="dir") from error
        assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
        days = min(LEAF_DAYS, (ca.not_valid_after_utc - now).days)
        builder = _builder(subject, ca.subject, key.public_key(), now, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(is_ca=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        self._write(name, builder.sign(ca_key, hashes.SHA256()), key)

    def _cert(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def _key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        _replace(self._key(name), private, 0o600)
        _replace(self._cert(name), certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_ca,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _replace(path: Path, content: bytes, mode: int) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.unlink(missing_ok=True)
    with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
