"""The log of security: who was let in, who read what is sensitive, who was refused, and whose input was.

Lines are of `name=value`.

Guarantee: each decision is in a line or in the count of one. What is new is told at once: of who is let in, the holder,
its session and its address; of who is refused, that, the route and the reason; of input, its fields, never a value.
What comes again is a count: of who is let in and of reads once an hour, of refusals every ten seconds. No text
of a sender breaks a line.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import event
from sqlmodel import Session
from starlette.requests import HTTPConnection

from controlplane.auth.principal import Principal
from controlplane.auth.watch.repeats import Repeats
from controlplane.db.request_parts import address_of

logger = logging.getLogger(__name__)

PERIOD_S = 10.0
LET_IN_S = 3600.0
LET_IN_LIMIT, REFUSED_LIMIT, INPUT_LIMIT = 50_000, 4_096, 512
SEVERAL = "several"
"""Stands for what a sender may make up, a path or the names of fields, where more than the limit came in a period."""
FIELDS, FIELD_LENGTH = 8, 80
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SPEAKER = "tailwright_principal"


class Speaker(NamedTuple):
    """Who asks, as far as it is known. holder: `token/3` or `person/2`; session: 0 without one."""

    actor: str
    holder: str
    session: int
    address: str

    def __str__(self) -> str:
        session = f" session={self.session}" if self.session else ""
        return f"actor={self.actor!a} holder={self.holder}{session} address={self.address}"


class LetIn(NamedTuple):
    speaker: Speaker
    scope: str

    def __str__(self) -> str:
        return f"let in: {self.speaker} scope={self.scope}"


class Read(NamedTuple):
    """Sensitive data was asked for, and its route let in."""

    speaker: Speaker
    route: str

    def __str__(self) -> str:
        return f"read: {self.speaker} route={self.route!a}"


class TurnedDown(NamedTuple):
    """route: method and path, as the route is declared where there is one."""

    reason: str
    speaker: Speaker
    route: str

    def __str__(self) -> str:
        return f"refused: reason={self.reason} {self.speaker} route={self.route!a}"


class BadInput(NamedTuple):
    fields: str
    speaker: Speaker
    route: str

    def __str__(self) -> str:
        return f"input refused: fields={self.fields!a} {self.speaker} route={self.route!a}"


class SecurityLog:
    """Thread-safe. `tell_due` is called every `PERIOD_S`, `tell_all` at the end."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._let_in: Repeats[LetIn] = Repeats(_teller(logging.INFO), LET_IN_S, LET_IN_LIMIT, monotonic)
        self._read: Repeats[Read] = Repeats(_teller(logging.INFO), LET_IN_S, LET_IN_LIMIT, monotonic)
        self._refused: Repeats[TurnedDown] = Repeats(_teller(logging.WARNING), PERIOD_S, REFUSED_LIMIT, monotonic)
        self._input: Repeats[BadInput] = Repeats(_teller(logging.INFO), PERIOD_S, INPUT_LIMIT, monotonic)

    def let_in(self, principal: Principal, address: str) -> None:
        """A token or a session has proven whose it is."""
        self._let_in.note(LetIn(_speaker(principal, address), principal.scope.value))

    def read(self, principal: Principal | None, address: str, route: str) -> None:
        """Somebody reads what is sensitive (`sensitive_reads`). principal: None where it is not known."""
        speaker = Speaker("-", "-", 0, address) if principal is None else _speaker(principal, address)
        self._read.note(Read(speaker, route))

    def let_in_as(self, name: str, address: str) -> None:
        """Somebody has shown a secret that is no token, such as the one of /metrics."""
        self._let_in.note(LetIn(Speaker(name, "-", 0, address), "-"))

    def refused(self, reason: str, connection: HTTPConnection) -> None:
        """An answer that refuses somebody."""
        route = SEVERAL if self._refused.full else _route(connection.scope)
        self._refused.note(TurnedDown(reason, speaker_of(connection), route))

    def refused_at_the_door(self, reason: str, address: str) -> None:
        """A connection or a request that was refused before anybody looked at its address."""
        self._refused.note(TurnedDown(reason, Speaker("-", "-", 0, address), "-"))

    def bad_input(self, fields: Sequence[str], connection: HTTPConnection) -> None:
        """An answer that refuses what was sent. fields: their names."""
        shown = ", ".join(field[:FIELD_LENGTH] for field in fields[:FIELDS])
        more = f" and {len(fields) - FIELDS} more" if len(fields) > FIELDS else ""
        told = SEVERAL if self._input.full else shown + more
        route = SEVERAL if self._input.full else _route(connection.scope)
        self._input.note(BadInput(told, speaker_of(connection), route))

    def tell_due(self) -> None:
        for repeats in (self._let_in, self._read, self._refused, self._input):
            repeats.tell_due()

    def tell_all(self) -> None:
        for repeats in (self._let_in, self._read, self._refused, self._input):
            repeats.tell_all()


def remember_speaker(scope: Any, principal: Principal) -> None:
    """Say who asks, for the lines on what comes of this ASGI scope's request."""
    scope.setdefault("state", {})[_SPEAKER] = principal


def is_known(connection: HTTPConnection) -> bool:
    """Whether it is known who asks."""
    return _SPEAKER in connection.scope.get("state", {})


def speaker_of(connection: HTTPConnection) -> Speaker:
    """Who asks; `-` where nobody has proven who they are."""
    principal = connection.scope.get("state", {}).get(_SPEAKER)
    address = address_of(connection)
    return Speaker("-", "-", 0, address) if principal is None else _speaker(principal, address)


def session_begun(session: Session, speaker: Speaker) -> None:
    """The caller's transaction begins a browser's session: told once that is committed."""

    def committed(_: Session) -> None:
        logger.info("session begun: %s", speaker)

    event.listen(session, "after_commit", committed, once=True)


def _speaker(principal: Principal, address: str) -> Speaker:
    return Speaker(principal.name, principal.holder, principal.session_id or 0, address)


def _route(scope: Any) -> str:
    method = scope.get("method", "GET")  # A WebSocket begins with a GET.
    path = getattr(scope.get("route"), "path", None) or scope["path"][:200]
    return f"{method if method in METHODS else 'OTHER'} {path}"


def _teller(level: int) -> Callable[[object, int], None]:
    def tell(what: object, again: int) -> None:
        logger.log(level, "%s%s", what, f" again={again}" if again else "")

    return tell
