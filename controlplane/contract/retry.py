"""When to send again: as Retry-After says (RFC 9110, 10.2.3; seconds, or a date), or after pauses that double.

Guarantee: no header makes it raise. One that is not understood counts as none, and nothing is longer than `longest_s`.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_S = 3600.0
LONGEST_PAUSE_S = 300.0
_NOT_ABOUT_THE_BODY = frozenset({401, 403, 404, 405, 407, 408, 421, 425, 429})
_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?")  # The RFC has whole seconds; some senders tell parts of one.


def refuses_body(status: int) -> bool:
    """Does this status find fault with the body itself, so that sending it again is in vain?"""
    return 400 <= status < 500 and status not in _NOT_ABOUT_THE_BODY


def doubling_s(failures: int, first_s: float = 1.0, longest_s: float = LONGEST_PAUSE_S) -> float:
    """The pause after so many failures in a row, without jitter."""
    return min(first_s * 2.0 ** min(failures - 1, 30), longest_s)


def retry_after_s(header: str | None, now: datetime, longest_s: float = LONGEST_S) -> float | None:
    """Seconds from now; None where the header is absent or not understood."""
    text = (header or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), longest_s)
    try:
        until = parsedate_to_datetime(text)
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        return min(max((until - now).total_seconds(), 0.0), longest_s)
    except (ValueError, OverflowError):
        return None  # No date, or one that no calendar has.
