"""People whom the issuer has named, in the database, inside the caller's transaction.

Whom the issuer knows somebody by is encrypted, and found by a keyed hash; the name is in clear, as in the ledger
(decision 65).
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete
from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.auth import browser_sessions
from controlplane.auth.browser_address import SeenFrom
from controlplane.auth.store import person_key
from controlplane.auth.tables import BrowserSessionRow, PersonRow, SignInAttemptRow
from controlplane.contract.bodies.access import SessionStarted
from controlplane.contract.bodies.people import Person, Role
from controlplane.contract.errors import Forbidden, SignInRefused
from controlplane.db.rows import newest
from controlplane.keys import Keyring, Place
from controlplane.ledger import Actor
from controlplane.ledger.actor import is_reserved

LONGEST_NAME = 128
_MARK = "hmac-sha256."
_RANK = {role: rank for rank, role in enumerate((Role.VIEWER, Role.OPERATOR, Role.ADMIN))}


@dataclass(frozen=True)
class Somebody:
    """Who somebody is, as the issuer says: `issuer` and `subject` are the person, `name` is what the ledger shows."""

    issuer: str
    subject: str
    name: str


def somebody_of(claims: Mapping[str, Any]) -> Somebody:
    """Who the claims of an ID token name. Raises `SignInRefused` where they have no name that the ledger could show.

    An address that the issuer itself says nobody has verified is whatever its holder wrote: it is no name.
    """
    email = claims.get("email") if claims.get("email_verified", True) is True else None
    name = email or claims.get("preferred_username")
    if not isinstance(name, str) or not name.strip():
        raise SignInRefused(
            "id_token: it has neither a verified email nor preferred_username; the issuer has to name people",
            field="email",
        )
    name = name.strip()
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise SignInRefused(f"id_token: the name is no printable text of at most {LONGEST_NAME} characters")
    if is_reserved(name):
        raise Forbidden(f"{name!r} is the service's or an agent's own name in the ledger", field="name")
    return Somebody(str(claims["iss"]), str(claims["sub"]), name)


def signed_in(session: Session, keyring: Keyring, who: Somebody, role: Role, now: datetime) -> PersonRow:
    """The person's row, as of this sign-in. A role that was taken away counts for the sessions that are open, too; a
    greater one ends them: they were begun with less proof, and by somebody who could do less with them."""
    digest = _digest(session, keyring, who)
    row = _row_of(session, digest)
    if row is None:
        row = PersonRow(
            issuer=who.issuer,
            digest=digest,
            name=who.name,
            role=role.value,
            first_seen_at=now,
            signed_in_at=now,
        )
    elif _RANK[role] > _RANK[Role(row.role)]:
        session.execute(delete(BrowserSessionRow).where(col(BrowserSessionRow.person_id) == row.id))
    row.name, row.role, row.signed_in_at = who.name, role.value, now
    session.add(row)
    session.flush()
    assert row.id is not None
    if row.subject is None:
        row.subject = keyring.encrypt(session, _subject_place(row.id), who.subject)
        session.flush()
    actor = Actor(row.name, None, row.id)
    message = f"{row.name} signed in as {role.value}"
    ledger.append(session, now, actor, "person.signed_in", f"person/{row.id}", message, role=role.value)
    return row


def shut_out(session: Session, keyring: Keyring, who: Somebody, now: datetime) -> None:
    """Somebody whom no group lets in any more: what sessions there are end."""
    row = _row_of(session, _digest(session, keyring, who))
    if row is None:
        return
    ended = session.execute(delete(BrowserSessionRow).where(col(BrowserSessionRow.person_id) == row.id))
    message = f"{row.name} is in no group that counts any more; sessions ended: {ended.rowcount}"  # type: ignore[attr-defined]
    ledger.append(session, now, ledger.SERVICE, "person.shut_out", f"person/{row.id}", message)


def start_session(
    session: Session, who: Somebody, role: Role, attempt: SignInAttemptRow, now: datetime, seen: SeenFrom
) -> SessionStarted:
    """Use the attempt up and start a session. An attempt that was used before breaks the transaction
    (`IntegrityError`)."""
    session.execute(delete(SignInAttemptRow).where(col(SignInAttemptRow.expires_at) <= now))
    session.add(attempt)
    session.flush()
    person = signed_in(session, seen.keyring, who, role, now)
    return browser_sessions.begin(session, now, person_id=person.id, seen=seen)


def listing(session: Session, keyring: Keyring, now: datetime, *, before_id: int | None, limit: int) -> list[Person]:
    """Newest first. Raises `Undecryptable`."""
    return [view(session, keyring, row, now) for row in session.exec(newest(PersonRow, before_id, limit))]


def view(session: Session, keyring: Keyring, row: PersonRow, now: datetime) -> Person:
    """Raises `Undecryptable`."""
    assert row.id is not None and row.subject is not None
    return Person(
        id=row.id,
        name=row.name,
        issuer=row.issuer,
        subject=keyring.decrypt(_subject_place(row.id), row.subject),
        role=Role(row.role),
        first_seen_at=row.first_seen_at,
        signed_in_at=row.signed_in_at,
        open_sessions=browser_sessions.number_open(session, row.id, now),
    )


def _subject_place(person_id: int) -> Place:
    return Place("person", "subject", person_id)


def _digest(session: Session, keyring: Keyring, who: Somebody) -> str:
    """What a person is found by, with the mark of its algorithm: whoever reads the database cannot try subjects."""
    said = json.dumps([who.issuer, who.subject]).encode()
    return _MARK + hmac.new(bytes.fromhex(person_key(session, keyring)), said, hashlib.sha256).hexdigest()


def _row_of(session: Session, digest: str) -> PersonRow | None:
    return session.exec(select(PersonRow).where(PersonRow.digest == digest)).first()
