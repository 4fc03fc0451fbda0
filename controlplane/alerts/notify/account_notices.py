"""People are told of changes to what signs them in: of each such entry of the ledger, once.

Guarantee: an entry's letters and the note that it was told are one transaction, so none is told twice or left out,
also with several replicas and across restarts. They go by the outbox, as alerts do: tried again, given up, replayed.

Told are the destinations whose `only` names the label `notice` (`{"notice": "account"}`), of kinds that take messages
and open no incident; and whoever answers for the token or is the person, where that is an e-mail address, by the first
e-mail destination that is enabled.
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import insert, update
from sqlmodel import Session, col, select

from controlplane.alerts.channels.channel import Notification, Status
from controlplane.alerts.channels.mail import is_mailbox
from controlplane.alerts.channels.registry import CHANNELS
from controlplane.alerts.matching.label_match import matches
from controlplane.alerts.tables import AccountNoticesRow, DeliveryRow, DestinationRow
from controlplane.auth.tables import PersonRow, TokenRow
from controlplane.contract.bodies.alerts import Alert, AlertState, Severity, Silenced
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.channels.destinations import DeliveryState
from controlplane.db.database import Database
from controlplane.ledger.tables import LedgerHeadRow, LedgerRow

PERIOD_S = 5.0
BATCH = 100
"""Entries told in one transaction."""
LABEL, ACCOUNT = "notice", "account"
TITLES = {
    "token.created": "A token was made",
    "token.revoked": "A token was revoked",
    "token.ends_soon": "A token ends soon",
    "session.ended": "A session was ended",
    "person.shut_out": "Somebody was shut out",
    "sign_in.changed": "How people sign in has changed",
}
"""What is told, by the ledger's kind of it, with its title."""
MESSAGES = frozenset(
    {DestinationKind.WEBHOOK, DestinationKind.SLACK, DestinationKind.SLACK_APP, DestinationKind.TEAMS}
) | {DestinationKind.EMAIL}
"""The others open something over there, which nobody would close."""


class AccountNotices:
    """external_url: where people reach the dashboard."""

    def __init__(self, database: Database, external_url: str) -> None:
        self._database = database
        self._external_url = external_url

    def tick(self, now: datetime) -> None:
        """Write letters of what the ledger has got since the last time. What is older than the first is not told."""
        while self._behind():
            with self._database.session() as session:
                self._tell(session, now)

    def _behind(self) -> bool:
        with self._database.read_session() as session:
            told = session.exec(select(AccountNoticesRow.entry)).first()
            return told is None or told < _head(session)

    def _tell(self, session: Session, now: datetime) -> None:
        row, head = session.get(AccountNoticesRow, 1), _head(session)
        if row is None:
            session.add(AccountNoticesRow(id=1, entry=head))
            return
        newer = select(LedgerRow).where(col(LedgerRow.id) > row.entry, col(LedgerRow.id) <= head)
        chosen = newer.where(col(LedgerRow.kind).in_(TITLES)).order_by(col(LedgerRow.id)).limit(BATCH)
        entries = list(session.exec(chosen))
        upto = head if len(entries) < BATCH else entries[-1].id
        # Of two replicas that are here at once one finds the row as it was.
        mine = update(AccountNoticesRow).where(col(AccountNoticesRow.entry) == row.entry).values(entry=upto)
        if session.execute(mine).rowcount == 0:  # type: ignore[attr-defined]
            return
        letters = [letter for entry in entries for letter in self._letters(session, entry, now)]
        if letters:
            session.execute(insert(DeliveryRow), letters)

    def _letters(self, session: Session, entry: LedgerRow, now: datetime) -> Iterator[dict[str, object]]:
        """Of one entry to each who is told of it, as rows of the outbox."""
        owner = _owner(session, entry.subject)
        labels = {LABEL: ACCOUNT, "event": entry.kind, "subject": entry.subject}
        rows = list(
            session.exec(
                select(DestinationRow).where(col(DestinationRow.enabled).is_(True)).order_by(col(DestinationRow.id))
            )
        )
        for row in rows:
            if _wants(row, labels):
                yield self._letter(entry, row, tuple(row.recipients), owner, now)
        by_mail = next((row for row in rows if row.kind == DestinationKind.EMAIL.value), None)
        if owner is None or by_mail is None or not is_mailbox(owner):
            return
        if not (_wants(by_mail, labels) and owner in by_mail.recipients):
            yield self._letter(entry, by_mail, (owner,), owner, now)

    def _letter(
        self, entry: LedgerRow, row: DestinationRow, recipients: tuple[str, ...], owner: str | None, now: datetime
    ) -> dict[str, object]:
        channel = CHANNELS[DestinationKind(row.kind)]
        # Each letter stands for itself: none waits for another's, or is overtaken by it.
        labels = {LABEL: ACCOUNT, "event": entry.kind, "subject": entry.subject}
        own = hashlib.sha256(f"{entry.hash} {row.id} {' '.join(recipients)}".encode()).hexdigest()[:16]
        text = _text(entry, owner)
        alert = Alert(
            id=0,
            fingerprint=own,
            rule_id=0,
            rule=TITLES[entry.kind],
            link=f"{self._external_url}/ledger?subject={entry.subject}",
            state=AlertState.FIRING,
            severity=Severity.TICKET,
            labels=labels,
            summary=entry.message,
            started_at=entry.time,
            fired_at=entry.time,
        )
        told = Notification(
            alert,
            Status.FIRING,
            row.name,
            self._external_url,
            entry.time,
            title=f"Tailwright: {TITLES[entry.kind]}",
            text=channel.escape(text),
            recipients=recipients,
            sender=row.sender,
        )
        return {
            "alert_id": 0,
            "destination_id": row.id,
            "fingerprint": own,
            "status": Status.FIRING.value,
            "state": DeliveryState.WAITING.value,
            "idempotency_key": f"{own}:notice",
            "body": channel.render(told),
            "attempts": 0,
            "created_at": now,
            "waits_since": now,
            "next_attempt_at": now,
        }


def _head(session: Session) -> int:
    return session.exec(select(LedgerHeadRow.entry)).one()


def _wants(row: DestinationRow, labels: dict[str, str]) -> bool:
    """Whether it has asked for notices: who asks for everything has asked for alerts."""
    only = None if row.only is None else Silenced.model_validate(row.only)
    if only is None or DestinationKind(row.kind) not in MESSAGES:
        return False
    return LABEL in {**only.matchers, **only.patterns} and matches(only, labels)


def _owner(session: Session, subject: str) -> str | None:
    """Who answers for a token, or the person, by the name that the ledger shows."""
    what, _, number = subject.partition("/")
    if what == "token":
        token = session.get(TokenRow, int(number))
        return None if token is None else token.owner
    if what == "person":
        person = session.get(PersonRow, int(number))
        return None if person is None else person.name
    return None


def _text(entry: LedgerRow, owner: str | None) -> str:
    lines = [
        f"{entry.message[:1].upper()}{entry.message[1:]}.",
        f"When: {entry.time:%Y-%m-%d %H:%M} UTC, by {entry.actor} ({entry.subject}, entry {entry.id} of the ledger)",
    ]
    if owner is not None:
        lines.append(f"Whose: {owner}")
    lines.append("If you know nothing of it, ask an administrator of Tailwright to look.")
    return "\n".join(lines)
