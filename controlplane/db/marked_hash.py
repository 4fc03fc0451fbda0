"""Hashes as the database keeps them: `sha256.` and the digest, so that each says by which algorithm it was made.

Guarantee: what was hashed by any algorithm of `ALGORITHMS` is found and checked by that one, whichever is `NEW`: to
exchange it is to name another. One that is trusted no longer is taken out; what it has hashed then matches nothing.
"""

import hashlib
import hmac
from typing import Any

ALGORITHMS: dict[str, Any] = {"sha256": hashlib.sha256, "sha3-256": hashlib.sha3_256}
NEW = "sha256"
"""What is hashed from now on is by this one."""


def marked(data: bytes) -> str:
    """The hash to keep."""
    return _by(NEW, data)


def all_marked(data: bytes) -> list[str]:
    """Under which hashes this may be kept: by every algorithm, the newest first."""
    return [_by(name, data) for name in sorted(ALGORITHMS, key=lambda name: name != NEW)]


def matches(data: bytes, kept: str) -> bool:
    """Whether a hash that was kept is of this. False where its mark is of no algorithm that is known."""
    return _is(kept, data)


def signed(key: bytes, data: bytes) -> str:
    """A signature by a key (HMAC), marked in the same way."""
    return _by(NEW, data, key)


def is_signed(key: bytes, data: bytes, kept: str) -> bool:
    """Whether a signature is of this and by this key. False where its mark is of no algorithm that is known."""
    return _is(kept, data, key)


def _is(kept: str, data: bytes, key: bytes | None = None) -> bool:
    mark, _, _ = kept.partition(".")
    return mark in ALGORITHMS and hmac.compare_digest(_by(mark, data, key).encode(), kept.encode())


def _by(name: str, data: bytes, key: bytes | None = None) -> str:
    made = ALGORITHMS[name](data) if key is None else hmac.new(key, data, ALGORITHMS[name])
    return f"{name}.{made.hexdigest()}"
