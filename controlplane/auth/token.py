"""Making and hashing tokens (pure but for the system's randomness).

A token is 32 random bytes, so a plain hash (SHA-256) at rest is enough: there is no dictionary to try
(OWASP's slow hashes are for passwords people choose).
"""

import secrets

from controlplane.db import marked_hash

PREFIX = "tailwright_"


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """What is stored of a new one."""
    return marked_hash.marked(token.encode())


def digests(token: str) -> list[str]:
    """What may be stored of one: a hash by each algorithm."""
    return marked_hash.all_marked(token.encode())
