"""What is decrypted was encrypted with the same key, for the same place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.keys.encryption import Encrypted, Key, Place, Undecryptable

KEYS = st.binary(min_size=32, max_size=32).map(Key)
NONCES = st.binary(min_size=12, max_size=12)
PLACES = st.builds(Place, st.sampled_from(["a", "b"]), st.sampled_from(["c", "d"]), st.integers(1, 9) | st.text())
TEXTS = st.text(st.characters(codec="utf-8"))


@given(KEYS, PLACES, TEXTS, NONCES)
def test_it_comes_back_at_its_place(key: Key, place: Place, text: str, nonce: bytes) -> None:
    stored = Encrypted(str(key.encrypt(place, text, nonce)))
    assert stored.key_id == key.id and key.decrypt(place, stored) == text
    assert len(text) < 8 or text not in stored


@given(KEYS, KEYS, PLACES, PLACES, TEXTS, NONCES)
def test_another_key_or_place_is_refused(one: Key, other: Key, here: Place, there: Place, text: str, n: bytes) -> None:
    stored = one.encrypt(here, text, n)
    if there.associated_data != here.associated_data:
        with pytest.raises(Undecryptable, match="was not stored by this service"):
            one.decrypt(there, stored)
    if other != one:
        assert other.id != one.id
        with pytest.raises(Undecryptable):
            other.decrypt(here, stored)


@given(KEYS, TEXTS, NONCES, st.data())
def test_a_changed_character_is_refused(key: Key, text: str, nonce: bytes, data: st.DataObject) -> None:
    place = Place("t", "c", 1)
    stored = str(key.encrypt(place, text, nonce))
    at = data.draw(st.integers(0, len(stored) - 1))
    changed = stored[:at] + data.draw(st.sampled_from("Aaz09-.=")) + stored[at + 1 :]
    try:
        found = Encrypted(changed)
    except ValueError:
        return
    if found.key_id == key.id and found.data != Encrypted(stored).data:
        with pytest.raises(Undecryptable):
            key.decrypt(place, found)


@pytest.mark.parametrize("text", ["", "https://e.org/hook", "v1.0123456789abcdef.", "v2.0123456789abcdef." + "A" * 40])
def test_text_in_clear_is_no_encrypted_text(text: str) -> None:
    with pytest.raises(ValueError, match="no encrypted text"):
        Encrypted(text)


def test_a_key_has_32_bytes_and_does_not_show_them() -> None:
    with pytest.raises(ValueError, match="32 bytes, got 31"):
        Key(bytes(31))
    key = Key(b"\x07" * 32)
    assert "07" not in repr(key) and "\\x07" not in repr(key) and len(key.id) == 16
