"""The ledger's head, signed: proof that this service told it, by a key that is not in the database.

The signature is an HMAC (SHA-256, as its mark says) with the key in the data directory: who can write to the database
alone cannot make a head that passes; who checks one needs the key.
"""

import os
import secrets
from pathlib import Path

from controlplane.contract.bodies.ledger import LedgerHead
from controlplane.contract.errors import BadSettings
from controlplane.db import marked_hash
from controlplane.ledger.chain import Head
from controlplane.serving import owned_files

FILENAME = "ledger-key"


def key_of(data_dir: Path) -> bytes:
    """The key in the data directory, made at first use (mode 600). Raises BadSettings."""
    path = data_dir / FILENAME
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _kept(path)
    key = secrets.token_bytes(32)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(key.hex() + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    return key


def _kept(path: Path) -> bytes:
    text = owned_files.read(path, "data_dir") or ""
    try:
        return bytes.fromhex(text)
    except ValueError:
        said = f"data_dir: {path} is no key of the ledger's, in hexadecimal: put back the one that was there"
        raise BadSettings(said, field="data_dir") from None


def signed(head: Head, key: bytes) -> LedgerHead:
    return LedgerHead(id=head.id, hash=head.hash, signature=marked_hash.signed(key, _head_text(head)))


def is_signed(told: LedgerHead, key: bytes) -> bool:
    """Whether the signature is of this head and by this key."""
    return marked_hash.is_signed(key, _head_text(Head(told.id, told.hash)), told.signature)


def anchor_signature(anchor: Head, key: bytes) -> str:
    """Of the last archived row: another than a head's, which everybody may read."""
    return marked_hash.signed(key, _anchor_text(anchor))


def is_anchor_signed(anchor: Head, signature: str, key: bytes) -> bool:
    """Whether the signature is of this last archived row and by this key."""
    return marked_hash.is_signed(key, _anchor_text(anchor), signature)


def _anchor_text(anchor: Head) -> bytes:
    return f"tailwright ledger archived {anchor.id} {anchor.hash}".encode()


def _head_text(head: Head) -> bytes:
    return f"tailwright ledger {head.id} {head.hash}".encode()
