"""Who really sent a callback: Slack's signing secret (v0) and PagerDuty's webhook signature (v1). Pure.

Each takes the same time whatever is wrong with the digits; a malformed header is false, never an exception.
"""

import hashlib
import hmac

SLACK_WINDOW_S = 300.0
"""Slack's own recommendation: an older request is a replay."""
PAGERDUTY_WINDOW_S = 3600.0
"""PagerDuty signs no time; what happened longer ago is not taken, for it tries a webhook again for a while."""
MOST_SIGNATURES = 10


def slack_signed(secret: str, body: bytes, stamp: str, header: str) -> bool:
    """`X-Slack-Signature: v0=HEX` over `v0:STAMP:BODY`; when that was is another question: `slack_off_s`."""
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        return False
    expected = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"v0={expected}".encode(), header.strip().encode())


def slack_off_s(stamp: str, now_unix_s: float) -> float:
    """How far from now it was signed, either way, seconds. stamp: of what `slack_signed` took."""
    return abs(now_unix_s - int(stamp))


def pagerduty_signed(secret: str, body: bytes, header: str) -> bool:
    """`X-PagerDuty-Signature: v1=HEX[,v1=HEX]` over the body: one of them counts, for secrets change."""
    expected = f"v1={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}".encode()
    found = [hmac.compare_digest(expected, one.strip().encode()) for one in header.split(",")[:MOST_SIGNATURES]]
    return any(found)
