"""Certificate revocation lists (CRL, RFC 5280 section 5) that a server goes by: which certificates no longer count.

Guarantee: only a list that an authority has signed is taken, one of each authority, and none that is older than the
list in use. A list whose time is over still says whom it says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from controlplane.contract.errors import BadSettings

FIELD = "tls_client_crl"
_END = b"-----END X509 CRL-----"

Issuer = Any
"""Nested tuples: an authority's name as `ssl` gives it (`getpeercert()["issuer"]`)."""


@dataclass(frozen=True)
class CaCertificate:
    """Who vouches for clients: its name as `ssl` gives it, and its certificate in DER."""

    name: Issuer
    der: bytes


@dataclass(frozen=True)
class RevocationList:
    """`revoked`: authority and serial number; `ends_at`: when the first of the lists should have been renewed."""

    revoked: frozenset[tuple[Issuer, int]]
    updated_at: Mapping[Issuer, datetime]
    ends_at: datetime

    def names(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a checked certificate (`SSLSocket.getpeercert`) is in it."""
        if not certificate:
            return False
        return (certificate["issuer"], int(certificate["serialNumber"], 16)) in self.revoked


def read(file: Path, authorities: Sequence[CaCertificate]) -> RevocationList:
    """The lists in a PEM file. Raises BadSettings where it cannot be read, or one is nobody's or lacking."""
    try:
        pieces = file.read_bytes().split(_END)[:-1]
        lists = [x509.load_pem_x509_crl(piece + _END) for piece in pieces]
    except (OSError, ValueError) as error:
        raise BadSettings(f"{FIELD}: {file} cannot be read: {error}", field=FIELD) from error
    revoked: set[tuple[Issuer, int]] = set()
    updated_at: dict[Issuer, datetime] = {}
    ends: list[datetime] = []
    for authority in authorities:
        ca = x509.load_der_x509_certificate(authority.der)
        own = [one for one in lists if _is_signed(one, ca)]
        if not own:
            who = ca.subject.rfc4514_string()
            raise BadSettings(f"{FIELD}: {file} has no list that {who} of tls_client_ca has signed", field=FIELD)
        newest = max(own, key=lambda one: one.last_update_utc)
        if newest.next_update_utc is None:
            raise BadSettings(f"{FIELD}: a list in {file} does not say when it ends", field=FIELD)
        revoked.update((authority.name, entry.serial_number) for entry in newest)
        updated_at[authority.name] = newest.last_update_utc
        ends.append(newest.next_update_utc)
    if not ends:
        raise BadSettings(f"{FIELD}: tls_client_ca has no authority whose list {file} could be", field=FIELD)
    return RevocationList(frozenset(revoked), updated_at, min(ends))


def replacement(before: RevocationList, after: RevocationList, file: Path, now: datetime) -> RevocationList:
    """The list that takes the place of the one before. Raises BadSettings where its time is over, or it is older."""
    if after.ends_at <= now:
        raise BadSettings(f"{FIELD}: the list in {file} ended at {after.ends_at:%Y-%m-%d %H:%M} UTC", field=FIELD)
    for name, updated_at in after.updated_at.items():
        if name in before.updated_at and updated_at < before.updated_at[name]:
            raise BadSettings(f"{FIELD}: the list in {file} is older than the one in use", field=FIELD)
    return after


def _is_signed(found: x509.CertificateRevocationList, ca: x509.Certificate) -> bool:
    if found.issuer != ca.subject:
        return False
    try:
        return found.is_signature_valid(ca.public_key())  # type: ignore[arg-type]  # A key of another kind: TypeError.
    except (TypeError, UnsupportedAlgorithm):
        return False
