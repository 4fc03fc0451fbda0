"""A fleet's own certificate authority: a CA, certificates for servers and nodes, their renewal and their revocation
(X.509, RFC 5280).

Guarantee: keys are of mode 600 and never overwritten by accident; a certificate names what it is for (DNS names and
addresses of a server; a node's name as its common name and as a URI) and how it may be used; what is renewed replaces
its file atomically, so that a server that reads it meanwhile sees the old or the new. What is revoked under a name is
every certificate that this folder has issued under it, those before the last renewal too, and it stays in the list.
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
CRL = "crl"
CA_DAYS, LEAF_DAYS, CRL_DAYS = 3650, 90, 90
RENEW_DAYS = 30
"""A certificate, or the list of what is revoked, with less than this left is renewed."""
BACKDATED = timedelta(minutes=5)
"""Clocks of a fleet differ."""


@dataclass(frozen=True)
class Authority:
    """The folder `folder` holds ca.pem, ca.key and a NAME.pem and NAME.key for each certificate; crl.pem, the list of
    what is revoked; and issued.txt, with a line "SERIAL END NAME" for each certificate that was ever issued."""

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
        self._write_list((), now)

    def issue_server(self, name: str, hosts: Sequence[str], now: datetime) -> None:
        """A certificate for a server that is reached by these host names and addresses."""
        if not hosts:
            raise BadSettings("host: name at least one host name or address that clients reach it by", field="host")
        self._issue(name, [_host(host) for host in hosts], ExtendedKeyUsageOID.SERVER_AUTH, now)

    def issue_node(self, node: str, now: datetime) -> None:
        """A client certificate that says which node its agent speaks for."""
        self._issue(node, [x509.UniformResourceIdentifier(NODE_URI + node)], ExtendedKeyUsageOID.CLIENT_AUTH, now)

    def renew(self, now: datetime, *, within_days: float = RENEW_DAYS) -> list[str]:
        """Issue again, each with a new key, what ends within that time; returns their names. Neither the CA is renewed
        nor what is revoked."""
        renewed = []
        for path in sorted(self.folder.glob("*.pem")):
            name = path.stem
            if name in (CA, CRL):
                continue
            old = x509.load_pem_x509_certificate(path.read_bytes())
            if old.not_valid_after_utc - now > timedelta(days=within_days) or self._is_revoked(old.serial_number):
                continue
            names = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            usage = old.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            self._issue(name, list(names), next(iter(usage)), now, replace=True)
            renewed.append(name)
        return renewed

    def renew_list(self, now: datetime, *, within_days: float = RENEW_DAYS) -> bool:
        """Sign the list of what is revoked again where it ends within that time, or there is none yet."""
        old = self._list()
        if old is not None and _ends(old) - now > timedelta(days=within_days):
            return False
        self._write_list((), now)
        return True

    def revoke(self, name: str, now: datetime, reason: x509.ReasonFlags = x509.ReasonFlags.unspecified) -> list[int]:
        """Put every certificate of that name that has not ended into the list; returns the serial numbers that are new
        in it. A name whose certificates are all in it changes nothing.

        Raises NotFound where the name never had one, BadSettings for the CA.
        """
        if name in (CA, CRL):
            raise BadSettings(f"name: {name!r} is no server's and no node's", field="name")
        issued = self._issued(name)
        if not issued:
            raise NotFound(f"{self._cert(name)}: there is no such certificate", field="name")
        fresh = [serial for serial, end in issued.items() if end > now and not self._is_revoked(serial)]
        if fresh:
            entries = []
            for serial in fresh:
                entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
                if reason != x509.ReasonFlags.unspecified:  # RFC 5280, 5.3.1: left out rather than written.
                    entry = entry.add_extension(x509.CRLReason(reason), critical=False)
                entries.append(entry.build())
            self._write_list(entries, now)
        return fresh

    def list_ends_at(self) -> datetime:
        """When the list of what is revoked has to be renewed. Raises NotFound."""
        found = self._list()
        if found is None:
            raise NotFound(f"{self._cert(CRL)}: there is no list; `tailwright tls renew` makes it", field="dir")
        return _ends(found)

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
        if name in (CA, CRL) or not name or "/" in name or name.startswith(".") or any(map(str.isspace, name)):
            raise BadSettings(f"name: {name!r} cannot be a certificate's file name here", field="name")
        if self._cert(name).exists() and not replace:
            old = x509.load_pem_x509_certificate(self._cert(name).read_bytes())
            if not self._is_revoked(old.serial_number):
                raise Conflict(f"{self._cert(name)} is there already: `tailwright tls renew` replaces it", field="name")
        ca, ca_key = self._ca()
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
        made = builder.sign(ca_key, hashes.SHA256())
        self._note(name, made)  # First: what is not noted could not be revoked.
        self._write(name, made, key)

    def _ca(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        try:
            ca = x509.load_pem_x509_certificate(self._cert(CA).read_bytes())
            key = serialization.load_pem_private_key(self._key(CA).read_bytes(), None)
        except (OSError, ValueError) as error:
            raise BadSettings(f"dir: {self.folder} holds no CA that can be read: {error}", field="dir") from error
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return ca, key

    def _note(self, name: str, certificate: x509.Certificate) -> None:
        path = self.folder / "issued.txt"
        before = path.read_text() if path.exists() else ""
        line = f"{certificate.serial_number:x} {certificate.not_valid_after_utc.isoformat()} {name}\n"
        _replace(path, (before + line).encode(), 0o644)

    def _issued(self, name: str) -> dict[int, datetime]:
        """The serial numbers of the certificates of that name, and when each ends."""
        found = {}
        path = self.folder / "issued.txt"
        for line in path.read_text().splitlines() if path.exists() else ():
            serial, end, of = line.split(" ", 2)
            if of == name:
                found[int(serial, 16)] = datetime.fromisoformat(end)
        return found

    def _list(self) -> x509.CertificateRevocationList | None:
        path = self._cert(CRL)
        try:
            return x509.load_pem_x509_crl(path.read_bytes()) if path.exists() else None
        except ValueError as error:
            raise BadSettings(f"dir: {path} cannot be read: {error}", field="dir") from error

    def _is_revoked(self, serial: int) -> bool:
        found = self._list()
        return found is not None and found.get_revoked_certificate_by_serial_number(serial) is not None

    def _write_list(self, more: Sequence[x509.RevokedCertificate], now: datetime) -> None:
        """The list with what it had and more, signed anew."""
        ca, ca_key = self._ca()
        old = self._list()
        number = 1
        builder = x509.CertificateRevocationListBuilder().issuer_name(ca.subject)
        if old is not None:
            number += old.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
            for entry in old:
                builder = builder.add_revoked_certificate(entry)
        for entry in more:
            builder = builder.add_revoked_certificate(entry)
        ends = min(now + timedelta(days=CRL_DAYS), ca.not_valid_after_utc)
        builder = builder.last_update(now - BACKDATED).next_update(ends)
        builder = builder.add_extension(x509.CRLNumber(number), critical=False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
        made = builder.add_extension(identifier, critical=False).sign(ca_key, hashes.SHA256())
        _replace(self._cert(CRL), made.public_bytes(serialization.Encoding.PEM), 0o644)

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


def _ends(revoked: x509.CertificateRevocationList) -> datetime:
    assert revoked.next_update_utc is not None  # We wrote it.
    return revoked.next_update_utc


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
