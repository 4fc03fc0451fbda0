"""Who was refused, and whose input was: counted by reason, and told in the log (`watch/security_log.py`)."""

import threading
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from starlette.requests import HTTPConnection

from controlplane.auth.watch.security_log import SecurityLog
from controlplane.contract.errors import SignInRefused, TailwrightError, TokenExpired

INPUT = frozenset({400, 413, 415})
"""Answers to what was sent, whoever sent it."""


class Reason(StrEnum):
    """Why somebody was refused."""

    NO_TOKEN = "no_token"
    UNKNOWN_TOKEN = "unknown_token"  # Or one that was revoked, or a session that has ended.
    SIGN_IN = "sign_in"  # The issuer's answer was not what it must be.
    EXPIRED = "expired"  # Its time is over.
    FORBIDDEN = "forbidden"  # The token is known, and does not allow it.
    METHOD = "method"  # The address has no such method; whoever it was.


class TurnedAway:
    """Thread-safe. `counts`: by reason, since the start."""

    def __init__(self, log: SecurityLog | None = None) -> None:
        self.counts: Counter[Reason] = Counter()
        self._log = log or SecurityLog()
        self._lock = threading.Lock()

    def note(self, connection: HTTPConnection, error: TailwrightError) -> None:
        """An answer that refuses somebody is counted and told, one that refuses input is told; any other is none of
        ours."""
        reason = _reason(connection, error)
        if reason is not None:
            self._add(reason)
        self.tell(connection, error)

    def tell(self, connection: HTTPConnection, error: TailwrightError) -> None:
        """As `note`, of a page of the dashboard: what the API has refused it is counted there."""
        reason = _reason(connection, error)
        if reason is not None:
            self._log.refused(reason.value, connection)
        elif error.status in INPUT:
            self.note_input(connection, [str(error.detail.get("field", ""))])

    def note_method(self, connection: HTTPConnection) -> None:
        """Count a method that the address has not."""
        self._add(Reason.METHOD)
        self._log.refused(Reason.METHOD.value, connection)

    def note_input(self, connection: HTTPConnection, fields: Sequence[str]) -> None:
        """These fields of what was sent were refused."""
        self._log.bad_input(fields, connection)

    def note_session(self) -> None:
        """A page of the dashboard asked with a session that has ended."""
        self._add(Reason.UNKNOWN_TOKEN)
        self._log.refused_at_the_door(Reason.UNKNOWN_TOKEN.value, "dashboard")

    def _add(self, reason: Reason) -> None:
        with self._lock:
            self.counts[reason] += 1


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
