"""One secret as text that may be stored: AES-256-GCM (NIST SP 800-38D) with a random nonce of 96 bits. Pure.

Guarantee: what is decrypted was encrypted with the same key for the same place (table, column, row): text that was
changed, or copied to another place, is refused. The place is the associated data.

The text is `v1.KEY.DATA`: the key's id, and nonce, ciphertext and tag in base64url.
"""

import hashlib
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from controlplane.contract.errors import Unavailable

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
_FORM: Final = re.compile(r"v1\.([0-9a-f]{16})\.([A-Za-z0-9_-]{38,}={0,2})")


class Undecryptable(Unavailable):
    """A stored secret cannot be read: its key is not there, or it is not what was stored at its place."""

    code = "undecryptable"


class Encrypted(str):
    """Text of the form above. Raises ValueError for any other: nothing is stored in clear by mistake."""

    key_id: str
    data: bytes

    def __new__(cls, text: str) -> "Encrypted":
        form = _FORM.fullmatch(text)
        if form is None:
            raise ValueError("this is no encrypted text")
        made = super().__new__(cls, text)
        made.key_id, made.data = form[1], urlsafe_b64decode(form[2])
        return made


@dataclass(frozen=True)
class Place:
    """Where a secret is stored. row: its primary key."""

    table: str
    column: str
    row: int | str

    @property
    def associated_data(self) -> bytes:
        return json.dumps(["tailwright", self.table, self.column, str(self.row)]).encode()

    def __str__(self) -> str:
        return f"{self.table}.{self.column} of {self.row}"


@dataclass(frozen=True)
class Key:
    """32 random bytes. Its id is of its hash, so that no two differ under one id."""

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, got {len(self.secret)}")

    @cached_property
    def id(self) -> str:
        """16 hexadecimal digits, which tell nothing of the key."""
        return hashlib.sha256(b"tailwright key id\n" + self.secret).hexdigest()[:16]

    def encrypt(self, place: Place, text: str, nonce: bytes) -> Encrypted:
        """nonce: 12 random bytes, never used twice with this key."""
        data = nonce + AESGCM(self.secret).encrypt(nonce, text.encode(), place.associated_data)
        return Encrypted(f"v1.{self.id}.{urlsafe_b64encode(data).decode()}")

    def decrypt(self, place: Place, stored: Encrypted) -> str:
        """Raises `Undecryptable`."""
        nonce, data = stored.data[:NONCE_BYTES], stored.data[NONCE_BYTES:]
        try:
            return AESGCM(self.secret).decrypt(nonce, data, place.associated_data).decode()
        except InvalidTag:
            raise Undecryptable(f"{place}: what is stored there was not stored by this service: set it anew") from None
