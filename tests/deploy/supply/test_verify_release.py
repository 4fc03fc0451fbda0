"""A release is what was signed, or it is told which file is not: by our code, and by openssl and sha256sum alone."""

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from controlplane.contract.errors import BadSettings
from deploy.supply import release_signing, verify_release, wheel

SUMS, SIGNATURE = release_signing.SUMS, release_signing.SIGNATURE


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    file = tmp_path_factory.mktemp("key") / "release"
    release_signing.new_key(file)
    return file


@pytest.fixture
def folder(tmp_path, key):
    """A signed release of two files."""
    place = tmp_path / "dist"
    place.mkdir()
    files = [place / "tailwright-1-py3-none-any.whl", place / "tailwright-1.cdx.json"]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * 100)
    release_signing.sign(release_signing.write_sums(place, files), release_signing.read_key(key))
    return place


def check(key, folder):
    return verify_release.main([f"{key}.pub", str(folder)])


def openssl(key, folder):
    """As docs/security.md says it to people without this code."""
    named = ["-pubin", "-inkey", f"{key}.pub", "-rawin", "-in", SUMS, "-sigfile", SIGNATURE]
    signed = subprocess.run(["openssl", "pkeyutl", "-verify", *named], cwd=folder, capture_output=True, check=False)
    summed = subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=folder, capture_output=True, check=False)
    return signed.returncode, summed.returncode


def test_what_was_signed_is_good(key, folder, capsys):
    assert check(key, folder) == 0
    assert capsys.readouterr().out == "ok   tailwright-1-py3-none-any.whl\nok   tailwright-1.cdx.json\n"
    assert openssl(key, folder) == (0, 0)


@pytest.mark.parametrize("place", [0, 50, 99])
@pytest.mark.parametrize("name", ["tailwright-1-py3-none-any.whl", "tailwright-1.cdx.json"])
def test_a_changed_byte_is_found(key, folder, name, place, capsys):
    bytes_ = bytearray((folder / name).read_bytes())
    bytes_[place] ^= 1
    (folder / name).write_bytes(bytes_)
    assert check(key, folder) == 1
    assert capsys.readouterr().err == f"BAD  {folder / name} is not the file that was signed\n"
    assert openssl(key, folder) == (0, 1)


@pytest.mark.parametrize("name", [SUMS, SIGNATURE])
def test_changed_sums_or_signature_are_found(key, folder, name, capsys):
    (folder / name).write_bytes((folder / name).read_bytes()[:-1] + b"!")
    assert check(key, folder) == 1
    assert f"{SIGNATURE} is no signature of {SUMS} by this key" in capsys.readouterr().err
    assert openssl(key, folder)[0] == 1


def test_another_key_has_not_signed_it(folder, tmp_path, capsys):
    other = tmp_path / "other"
    release_signing.new_key(other)
    assert check(other, folder) == 1
    assert "by this key" in capsys.readouterr().err
    assert openssl(other, folder)[0] == 1


def test_files_cannot_change_places(key, folder, capsys):
    """A signed older release under a newer name, say."""
    one, two = sorted(folder.glob("tailwright*"))
    spare = one.with_name("spare")
    one.rename(spare)
    two.rename(one)
    spare.rename(two)
    assert check(key, folder) == 1


@pytest.mark.parametrize("gone", [SUMS, SIGNATURE, "tailwright-1.cdx.json"])
def test_what_lacks_is_said(key, folder, gone, capsys):
    (folder / gone).unlink()
    assert check(key, folder) == 1
    assert capsys.readouterr().err == f"BAD  {folder / gone} cannot be read: No such file or directory\n"


@pytest.mark.parametrize("text", ["", "abc  file\n", f"{'0' * 64}  ../file\n"])
def test_signed_sums_of_nothing_or_of_elsewhere_are_no_release(key, folder, text):
    (folder / SUMS).write_text(text)
    release_signing.sign(folder / SUMS, release_signing.read_key(key))
    assert check(key, folder) == 1


def test_new_sums_leave_no_old_signature(key, folder):
    release_signing.write_sums(folder, [folder / "tailwright-1.cdx.json"])
    assert not (folder / SIGNATURE).exists()


def test_a_new_key_replaces_none(key, capsys):
    before = key.read_bytes()
    assert release_signing.main([str(key)]) == 1
    assert "is there already" in capsys.readouterr().err
    assert key.read_bytes() == before and key.stat().st_mode & 0o777 == 0o600


def test_a_key_that_cannot_sign_is_named(tmp_path):
    file = tmp_path / "key"
    with pytest.raises(BadSettings, match=r"is not there; `python -m deploy.supply.release_signing"):
        release_signing.read_key(file)
    file.write_text("not a key")
    file.chmod(0o600)
    with pytest.raises(BadSettings, match="holds no key in PEM"):
        release_signing.read_key(file)
    other = generate_private_key(SECP256R1())
    file.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(BadSettings, match="another kind than Ed25519"):
        release_signing.read_key(file)
    public = Path(f"{file}.pub")
    public.write_bytes(other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(verify_release.NotAsSigned, match="another kind than Ed25519"):
        verify_release.public_key(public)


def test_changes_that_are_not_committed_are_not_signed(key, monkeypatch, capsys):
    monkeypatch.setattr(wheel, "git", lambda *arguments: " M README.md\n")
    monkeypatch.setenv(release_signing.VARIABLE, str(key))
    assert wheel.main() == 1
    assert "commit them, then sign" in capsys.readouterr().err


def test_a_lacking_key_builds_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(wheel, "git", lambda *arguments: "")
    monkeypatch.setenv(release_signing.VARIABLE, str(tmp_path / "none"))
    assert wheel.main() == 1
    assert "is not there" in capsys.readouterr().err
