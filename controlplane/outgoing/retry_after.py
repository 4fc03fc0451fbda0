"""The Retry-After header (RFC 9110, section 10.2.3) in seconds."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_S = 3600.0


def retry_after_s(header: str | None, now: datetime) -> float | None:
    """At most `LONGEST_S`; None when absent or not understood."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_S)
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), LONGEST_S)
