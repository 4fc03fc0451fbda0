"""Tokens in HTTP requests: `Authorization: Bearer TOKEN` (RFC 6750, section 2.1)."""

from collections.abc import Iterable


def bearer_token(authorization: str) -> str | None:
    """The token of such a header's value; None when it is none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def bearer_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The token among ASGI's raw headers (names in lower case); empty where there is none."""
    value = next((value for name, value in headers if name == b"authorization"), b"")
    return (bearer_token(value.decode("latin-1")) or "").encode("latin-1")
