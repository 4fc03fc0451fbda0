"""Signing webhooks, and checking the signature: for the sender and for receivers alike.

`Tailwright-Signature: t=UNIX,v1=HEX`, where HEX is HMAC-SHA256 (RFC 2104) of "UNIX.body" under the destination's
secret. The time is signed too, so that a captured request cannot be replayed for longer than the receiver's age limit.
"""

import hashlib
import hmac

HEADER = "Tailwright-Signature"
MAX_AGE_S = 300


def _mac(secret: str, unix_s: int, body: bytes) -> str:
    return hmac.new(secret.encode(), f"{unix_s}.".encode() + body, hashlib.sha256).hexdigest()


def sign(secret: str, body: bytes, unix_s: int) -> str:
    """The header's value."""
    return f"t={unix_s},v1={_mac(secret, unix_s, body)}"


def verify(secret: str, body: bytes, header: str, now_unix_s: float, *, max_age_s: float = MAX_AGE_S) -> bool:
    """True when the header was made with this secret over this body, at most `max_age_s` from now (either way).

    Takes the same time whatever is wrong with the digits. A malformed header is false, never an exception.
    """
    fields: dict[str, str] = dict.fromkeys(("t", "v1"), "")
    for part in header.split(","):
        name, _, value = part.strip().partition("=")
        fields[name] = value
    stamp = fields["t"]
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        return False
    expected = _mac(secret, int(stamp), body)
    genuine = hmac.compare_digest(expected.encode(), fields["v1"].encode())
    return genuine and abs(now_unix_s - int(stamp)) <= max_age_s
