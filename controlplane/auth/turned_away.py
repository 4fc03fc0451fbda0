"""Who was refused: counted by reason, and told in the log with the address.

Guarantee: whoever asks however often, a reason has one line in `QUIET_S`; it says how many others there were.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

from starlette.requests import HTTPConnection

from controlplane.contract.errors import SignInRefused, TailwrightError, TokenExpired
from controlplane.db.request_parts import address_of

logger = logging.getLogger(__name__)

QUIET_S = 10.0


class Reason(StrEnum):
    """Why somebody was refused."""

    NO_TOKEN = "no_token"
    UNKNOWN_TOKEN = "unknown_token"  # Or one that was revoked.
    SIGN_IN = "sign_in"  # The issuer's answer was not what it must be.
    EXPIRED = "expired"  # Its time is over.
    FORBIDDEN = "forbidden"  # The token is known, and does not allow it.
    METHOD = "method"  # The address has no such method; whoever it was.


class TurnedAway:
    """Thread-safe. `counts`: by reason, since the start."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[Reason] = Counter()
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._told: dict[Reason, tuple[float, int]] = {}

    def note(self, connection: HTTPConnection, error: TailwrightError) -> None:
        """Count an answer that refuses somebody; any other is none of ours."""
        reason = _reason(connection, error)
        if reason is not None:
            self._count(connection, reason)

    def note_method(self, connection: HTTPConnection) -> None:
        """Count a method that the address has not."""
        self._count(connection, Reason.METHOD)

    def _count(self, connection: HTTPConnection, reason: Reason) -> None:
        with self._lock:
            self.counts[reason] += 1
            now, count = self._monotonic(), self.counts[reason]
            last_at, last_count = self._told.get(reason, (-QUIET_S, 0))
            if now - last_at < QUIET_S:
                return
            self._told[reason] = now, count
        address = address_of(connection)
        others = count - last_count - 1
        more = f"; {others} more since the line before" if others else ""
        logger.warning("refused (%s) %s: %r%s", reason.value, address, connection.scope["path"][:200], more)


def _reason(connection: HTTPConnection, error: TailwrightError) -> Reason | None:
    if error.status == 403:
        return Reason.FORBIDDEN
    if error.status != 401:
        return None
    if isinstance(error, TokenExpired):
        return Reason.EXPIRED
    if isinstance(error, SignInRefused):
        return Reason.SIGN_IN
    return Reason.UNKNOWN_TOKEN if connection.headers.get("Authorization") else Reason.NO_TOKEN
