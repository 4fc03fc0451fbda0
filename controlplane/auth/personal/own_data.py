"""What is kept of one person, to be given out or removed.

What is given out is all that names the person: the row, the open sessions, and each entry of the ledger of what the
person did or what was done to them. What is removed is the row and the sessions; the ledger's entries stay until they
are archived, for its chain has no holes.
"""

from datetime import datetime

from sqlalchemy import delete
from sqlmodel import Session, col

from controlplane import ledger
from controlplane.auth import browser_sessions, known_people
from controlplane.auth.principal import Principal
from controlplane.auth.tables import BrowserSessionRow, PersonRow
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.people import PersonalData
from controlplane.contract.errors import NotFound
from controlplane.db.rows import existing
from controlplane.keys import Keyring
from controlplane.ledger.find_entries import of_person


def check_may_see(principal: Principal, person_id: int) -> None:
    """Raises `NotFound` for who is neither an admin nor this person."""
    if principal.scope is not Scope.ADMIN and principal.person_id != person_id:
        raise NotFound(f"no person {person_id}", field="person_id")


def data_of(
    session: Session, keyring: Keyring, person_id: int, now: datetime, *, before_id: int | None, limit: int
) -> PersonalData:
    """With the newest `limit` of the ledger's entries, or of those before `before_id`. Raises `NotFound`,
    `Undecryptable`."""
    row = existing(session, PersonRow, person_id, "person", field="person_id")
    own = Principal(row.name, Scope.READ, None, person_id=person_id)
    entries = of_person(session, person_id, row.name, before_id=before_id, limit=limit)
    return PersonalData(
        person=known_people.view(session, keyring, row, now),
        sessions=browser_sessions.listing(session, keyring, now, before_id=None, limit=1_000, of=own, asks=None),
        entries=entries.items,
        next=entries.next,
    )


def forget(session: Session, person_id: int, *, actor: str, now: datetime) -> None:
    """Remove the row, and end the sessions. Who signs in again is another number. Raises `NotFound`."""
    row = existing(session, PersonRow, person_id, "person", field="person_id")
    session.execute(delete(BrowserSessionRow).where(col(BrowserSessionRow.person_id) == person_id))
    session.delete(row)
    message = f"what is kept of person {person_id} was removed"
    ledger.append(session, now, actor, "person.removed", f"person/{person_id}", message)
