"""Retention of what names people: rows of who signs in no more, names and owners of tokens that have ended.

Guarantee: nobody who could still come in is touched, and none comes in by what is removed: of a token that has ended
its number, its hash and its end stay, so that it stays refused, in a restored backup as well. A person's number is not
given again. What is removed is counted, logged and in the ledger, by numbers alone; what the ledger itself says of
names stays until it is archived.
"""

import logging
from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry, Counter
from sqlalchemy import String, cast, delete, func, update
from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.auth import browser_sessions
from controlplane.auth.tables import BrowserSessionRow, PersonRow, TokenRow
from controlplane.db.database import Database

logger = logging.getLogger(__name__)

PERIOD_S = 3600.0
BATCH = 500
"""Rows in one transaction: nobody waits long for it."""
NAMELESS = "token "
"""What a token without a name of its own is called; its number follows."""


class OldRows:
    """Removes what is older than `kept`: since a person's last sign-in, since a token's end."""

    def __init__(self, database: Database, kept: timedelta, registry: CollectorRegistry) -> None:
        self._database, self._kept = database, kept
        said = "People and names of tokens that were removed because they were older than personal_data_days."
        self._removed = Counter("tailwright_personal_data_removed", said, ["what"], registry=registry)
        for what in ("person", "token"):
            self._removed.labels(what)

    def tick(self, now: datetime) -> None:
        """Remove all that is due, a batch a transaction; and sessions whose time is over."""
        with self._database.session() as session:
            browser_sessions.forget_ended(session, now)
        for what, remove in (("person", _remove_people), ("token", _take_names)):
            while True:
                with self._database.session() as session:
                    removed = remove(session, now - self._kept, now)
                self._removed.labels(what).inc(len(removed))
                if removed:
                    logger.info("personal data removed: %s %s", what, ", ".join(map(str, removed)))
                if len(removed) < BATCH:
                    break


def _remove_people(session: Session, before: datetime, now: datetime) -> list[int]:
    """The rows of those who last signed in before then; their numbers."""
    query = select(PersonRow.id).where(col(PersonRow.signed_in_at) < before).order_by(col(PersonRow.id)).limit(BATCH)
    numbers = [number for number in session.exec(query.with_for_update()) if number is not None]
    session.execute(delete(BrowserSessionRow).where(col(BrowserSessionRow.person_id).in_(numbers)))
    session.execute(delete(PersonRow).where(col(PersonRow.id).in_(numbers)))
    for number in numbers:
        message = f"what is kept of person {number}, who has not signed in for long, was removed"
        ledger.append(session, now, ledger.SERVICE, "person.removed", f"person/{number}", message)
    return numbers


def _take_names(session: Session, before: datetime, now: datetime) -> list[int]:
    """The names, owners and last uses of tokens that ended before then; the tokens' numbers."""
    nameless = NAMELESS + cast(col(TokenRow.id), String)
    ended = func.coalesce(col(TokenRow.revoked_at), col(TokenRow.expires_at))
    says_something = (
        (col(TokenRow.name) != nameless) | col(TokenRow.owner).is_not(None) | col(TokenRow.last_used_at).is_not(None)
    )
    query = select(TokenRow.id).where(ended < before, says_something).order_by(col(TokenRow.id)).limit(BATCH)
    numbers = [number for number in session.exec(query.with_for_update()) if number is not None]
    chosen = col(TokenRow.id).in_(numbers)
    session.execute(update(TokenRow).where(chosen).values(name=nameless, owner=None, last_used_at=None))
    if numbers:
        message = f"names and owners of {len(numbers)} tokens that ended long ago were removed"
        ledger.append(session, now, ledger.SERVICE, "token.names_removed", "tokens", message, tokens=numbers)
    return numbers
