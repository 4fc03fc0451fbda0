"""The ledger's head, signed: proof that this service told it, by a key that is not in the database.

The signature is HMAC-SHA256 with the key in the data directory: who can write to the database alone cannot make a head
that passes; who checks one needs the key.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from controlplane.contract.bodies.ledger import LedgerHead
from controlplane.ledger.chain import Head

FILENAME = "ledger-key"


def key_of(data_dir: Path) -> bytes:
    """The key in the data directory, made at first use (mode 600)."""
    path = data_dir / FILENAME
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return bytes.fromhex(path.read_text())
    key = secrets.token_bytes(32)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(key.hex() + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    return key


def signed(head: Head, key: bytes) -> LedgerHead:
    return LedgerHead(id=head.id, hash=head.hash, signature=_signature(head, key))


def is_signed(told: LedgerHead, key: bytes) -> bool:
    """Whether the signature is of this head and by this key."""
    return hmac.compare_digest(told.signature, _signature(Head(told.id, told.hash), key))


def _signature(head: Head, key: bytes) -> str:
    return hmac.new(key, f"tailwright ledger {head.id} {head.hash}".encode(), hashlib.sha256).hexdigest()
