"""Which lists of revoked certificates a server takes, and what the fleet's own CA puts into its list."""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.errors import BadSettings, NotFound
from controlplane.serving.authority import Authority
from controlplane.serving.revocation_list import CaCertificate, RevocationList, read, replacement

NOW = datetime.now(UTC).replace(microsecond=0)
NAME = ((("commonName", "Tailwright fleet CA"),),)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path / "tls")
    made.init(NOW)
    made.issue_node("gpu-1", NOW)
    made.issue_node("gpu-2", NOW)
    return made


def ca_of(authority: Authority) -> CaCertificate:
    return CaCertificate(NAME, certificate(authority, "ca").public_bytes(Encoding.DER))


def certificate(authority: Authority, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((authority.folder / f"{name}.pem").read_bytes())


def list_of(authority: Authority) -> RevocationList:
    return read(authority.folder / "crl.pem", [ca_of(authority)])


def shown(authority: Authority, name: str) -> dict[str, object]:
    """What `ssl` says of a certificate."""
    return {"issuer": NAME, "serialNumber": f"{certificate(authority, name).serial_number:X}"}


def test_a_fleet_begins_with_an_empty_list(authority: Authority) -> None:
    assert list_of(authority).revoked == frozenset()
    assert authority.list_ends_at() == NOW + timedelta(days=90)


def test_who_is_revoked_is_in_the_list_with_the_reason_and_nobody_else(authority: Authority) -> None:
    serials = authority.revoke("gpu-1", NOW, x509.ReasonFlags.key_compromise)
    assert serials == [certificate(authority, "gpu-1").serial_number]
    found = list_of(authority)
    assert found.names(shown(authority, "gpu-1")) and not found.names(shown(authority, "gpu-2"))
    assert not found.names(None) and not found.names({})
    other = {**shown(authority, "gpu-1"), "issuer": ((("commonName", "another CA"),),)}
    assert not found.names(other), "serial numbers are an authority's own"
    (entry,) = x509.load_pem_x509_crl((authority.folder / "crl.pem").read_bytes())
    assert entry.extensions.get_extension_for_class(x509.CRLReason).value.reason == x509.ReasonFlags.key_compromise


def test_revoking_again_changes_nothing(authority: Authority) -> None:
    authority.revoke("gpu-1", NOW)
    before = (authority.folder / "crl.pem").read_bytes()
    assert authority.revoke("gpu-1", NOW + timedelta(days=1)) == []
    assert (authority.folder / "crl.pem").read_bytes() == before


def test_a_certificate_from_before_the_renewal_is_revoked_too(authority: Authority) -> None:
    old = certificate(authority, "gpu-1").serial_number
    authority.renew(NOW, within_days=91)
    assert set(authority.revoke("gpu-1", NOW)) == {old, certificate(authority, "gpu-1").serial_number}


def test_what_is_revoked_is_not_renewed_and_may_be_issued_anew(authority: Authority) -> None:
    authority.revoke("gpu-1", NOW)
    assert authority.renew(NOW, within_days=91) == ["gpu-2"]
    authority.issue_node("gpu-1", NOW)
    assert not list_of(authority).names(shown(authority, "gpu-1"))


def test_the_list_is_renewed_with_what_it_holds(authority: Authority) -> None:
    authority.revoke("gpu-1", NOW)
    assert not authority.renew_list(NOW)
    later = NOW + timedelta(days=70)
    assert authority.renew_list(later)
    assert list_of(authority).names(shown(authority, "gpu-1")) and list_of(authority).ends_at > later
    (authority.folder / "crl.pem").unlink()
    with pytest.raises(NotFound, match="tailwright tls renew"):
        authority.list_ends_at()
    assert authority.renew_list(later) and list_of(authority).revoked == frozenset()


@pytest.mark.parametrize("name", ["ca", "crl"])
def test_the_ca_is_not_revoked_by_its_own_list(authority: Authority, name: str) -> None:
    with pytest.raises(BadSettings, match="name"):
        authority.revoke(name, NOW)
    with pytest.raises(NotFound, match="no such certificate"):
        authority.revoke("gpu-9", NOW)


def test_only_a_list_that_each_authority_has_signed_is_taken(authority: Authority, tmp_path: Path) -> None:
    foreign = Authority(tmp_path / "foreign")
    foreign.init(NOW)  # Of the same name.
    file = authority.folder / "crl.pem"
    both = tmp_path / "both.pem"
    both.write_bytes(file.read_bytes() + (foreign.folder / "crl.pem").read_bytes())
    assert len(read(both, [ca_of(authority), ca_of(foreign)]).updated_at) == 1  # Both have one name.
    with pytest.raises(BadSettings, match="no list that CN=Tailwright fleet CA of tls_client_ca has signed"):
        read(file, [ca_of(authority), ca_of(foreign)])
    with pytest.raises(BadSettings, match="tls_client_ca has no authority"):
        read(file, [])
    for content in (b"not a list", b"", file.read_bytes()[:-60] + b"\n-----END X509 CRL-----\n"):
        both.write_bytes(content)
        with pytest.raises(BadSettings, match="tls_client_crl"):
            read(both, [ca_of(authority)])
    with pytest.raises(BadSettings, match=r"none\.pem cannot be read"):
        read(tmp_path / "none.pem", [ca_of(authority)])


def test_neither_an_older_list_nor_one_that_has_ended_takes_its_place(authority: Authority) -> None:
    file = authority.folder / "crl.pem"
    first = list_of(authority)
    authority.revoke("gpu-1", NOW + timedelta(hours=1))
    second = list_of(authority)
    assert replacement(first, second, file, NOW) is second and replacement(second, second, file, NOW) is second
    with pytest.raises(BadSettings, match="older than the one in use"):
        replacement(second, first, file, NOW)
    with pytest.raises(BadSettings, match="ended at"):
        replacement(first, second, file, NOW + timedelta(days=91))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["issue", "renew", "revoke", "list"]), st.sampled_from("ab")), max_size=8))
def test_what_was_revoked_once_stays_so_whatever_happens(deeds: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder) / "tls")
        authority.init(NOW)
        issued: dict[str, set[int]] = {"a": set(), "b": set()}
        revoked: set[int] = set()
        for deed, name in deeds:
            current = certificate(authority, name).serial_number if issued[name] else None
            if deed == "issue" and (current is None or current in revoked):
                authority.issue_node(name, NOW)
            elif deed == "renew":
                authority.renew(NOW, within_days=91)
            elif deed == "revoke" and issued[name]:
                assert set(authority.revoke(name, NOW)) == issued[name] - revoked
                revoked |= issued[name]
            elif deed == "list":
                authority.renew_list(NOW, within_days=91)
            for each in ("a", "b"):
                if (authority.folder / f"{each}.pem").exists():
                    issued[each].add(certificate(authority, each).serial_number)
            assert {serial for _, serial in list_of(authority).revoked} == revoked
