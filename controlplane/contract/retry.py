"""Retry-After (RFC 9110, 10.2.3): when to send again, told as seconds or as a date; here in seconds from now.

Guarantee: no header makes it raise. One that is not understood counts as none, and nothing is longer than `longest_s`.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_S = 3600.0
_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?")  # The RFC has whole seconds; some senders tell parts of one.


def retry_after_s(header: str | None, now: datetime, longest_s: float = LONGEST_S) -> float | None:
    """None where the header is absent or not understood."""
    text = (header or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), longest_s)
    try:
        until = parsedate_to_datetime(text)
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        return min(max((until - now).total_seconds(), 0.0), longest_s)
    except (ValueError, OverflowError):
        return None  # No date, or one that no calendar has.
