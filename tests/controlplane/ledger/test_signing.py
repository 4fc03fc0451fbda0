"""A signed head: by this key, of this head."""

from pathlib import Path

from controlplane.ledger.chain import Head
from controlplane.ledger.signing import FILENAME, is_signed, key_of, signed

HEAD = Head(3, "a" * 64)


def test_the_key_is_made_once_and_its_owner_s_alone(tmp_path: Path) -> None:
    key = key_of(tmp_path)
    assert len(key) == 32 and key_of(tmp_path) == key
    assert (tmp_path / FILENAME).stat().st_mode & 0o777 == 0o600


def test_a_signature_is_of_one_head_by_one_key() -> None:
    told = signed(HEAD, b"key")
    assert (told.id, told.hash) == (HEAD.id, HEAD.hash)
    assert is_signed(told, b"key") and not is_signed(told, b"other key")
    for changed in ({"id": 4}, {"hash": "b" * 64}, {"signature": ""}):
        assert not is_signed(told.model_copy(update=changed), b"key")
