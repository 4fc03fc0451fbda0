"""The seam between alerts and whoever is told of them: what a kind of destination must be able to do.

A channel is pure: it writes what is to be told, then the request that carries it, and reads the answer. Invariants,
which one suite holds every kind to (tests/controlplane/alerts/channels/test_conformance.py):

- `render` never has anything secret in it: its text is kept in the outbox, and is the same at each attempt;
- one alert has one name over there in all its letters, made of its fingerprint: what is told twice is there once, and
  "resolved" closes what "firing" has opened;
- a channel that has no word for a status (`tells`) gets no letter of it;
- whatever an alert says, the request is well-formed and not longer than the receiver takes;
- `answered` says `REFUSED` only where the receiver finds fault with the letter itself, so that another attempt is in
  vain: what may be mended over there is tried again.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.outgoing import Answer


class Status(StrEnum):
    """What of an alert is told."""

    FIRING = "firing"  # It has fired, or has changed since.
    ACKNOWLEDGED = "acknowledged"  # Somebody looks after it.
    RESOLVED = "resolved"  # It is over.


@dataclass(frozen=True)
class Notification:
    """What is to be told, and to whom.

    title, text: as the destination's templates wrote them, None for the usual words. by: who acknowledged.
    acknowledges: whether the receiver may acknowledge back.
    """

    alert: Alert
    status: Status
    receiver: str
    external_url: str
    at: datetime
    title: str | None = None
    text: str | None = None
    recipients: tuple[str, ...] = ()
    sender: str | None = None
    acknowledges: bool = False
    by: str | None = None

    @property
    def link(self) -> str:
        """A test's alert is made up (id 0) and has no page of its own: the list is where a real one would stand. A
        notice says itself where it leads."""
        if self.alert.id:
            return f"{self.external_url}/alerts/{self.alert.id}"
        return self.alert.link or f"{self.external_url}/alerts"


@dataclass(frozen=True)
class Letter:
    """What one attempt carries. `body` is what `render` wrote."""

    delivery_id: int
    kind: DestinationKind
    status: Status
    fingerprint: str
    body: str
    idempotency_key: str
    ledger_head: str | None = None


@dataclass(frozen=True)
class Address:
    """Where a letter goes, and what signs it or lets it in, in clear: for as long as one attempt takes."""

    url: str = field(repr=False)
    secret: str | None = field(default=None, repr=False)
    login: str | None = None


@dataclass(frozen=True)
class HttpRequest:
    """A POST."""

    url: str = field(repr=False)
    content: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class MailRequest:
    """One message for a mail server. scheme: smtp (STARTTLS), smtps, or smtp+plain."""

    scheme: str
    host: str
    port: int
    login: str | None
    password: str | None = field(repr=False)
    sender: str
    recipients: tuple[str, ...]
    message: bytes = field(repr=False)


class Outcome(StrEnum):
    """What an answer means for the letter."""

    SENT = "sent"
    RETRY = "retry"  # The receiver cannot take it now.
    REFUSED = "refused"  # The receiver will never take this letter.


@dataclass(frozen=True)
class Verdict:
    """error: what came of it in words; None where it was sent. No part of it is secret."""

    outcome: Outcome
    error: str | None = None


SENT = Verdict(Outcome.SENT)


class Channel(ABC):
    """One kind of destination. reads_bytes: of an answer's body, at most; refuses: statuses that find fault with the
    letter itself."""

    kind: ClassVar[DestinationKind]
    tells: ClassVar[frozenset[Status]] = frozenset({Status.FIRING, Status.RESOLVED})
    reads_bytes: ClassVar[int] = 0
    refuses: ClassVar[frozenset[int]] = frozenset()

    @abstractmethod
    def render(self, notification: Notification) -> str:
        """The letter's text, without anything secret."""

    @abstractmethod
    def request(self, letter: Letter, address: Address, now: datetime) -> HttpRequest | MailRequest:
        """The letter on its way. Raises ValueError where the address is none."""

    def answered(self, answer: Answer) -> Verdict:
        """What the receiver's answer means."""
        if answer.is_success:
            return SENT
        outcome = Outcome.REFUSED if answer.status in self.refuses else Outcome.RETRY
        return Verdict(outcome, f"answered {answer.status}")

    def escape(self, text: str) -> str:
        """What a template inserts, as the receiver's markup wants it."""
        return text


JSON_HEADERS = {"Content-Type": "application/json", "User-Agent": "tailwright"}
