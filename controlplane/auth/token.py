"""Making and hashing tokens (pure but for the system's randomness).

A token is 32 random bytes, so a plain SHA-256 at rest is enough: there is no dictionary to try
(OWASP's slow hashes are for passwords people choose).
"""

import hashlib
import secrets

PREFIX = "tailwright_"


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """What is stored: SHA-256, hexadecimal."""
    return hashlib.sha256(token.encode()).hexdigest()
