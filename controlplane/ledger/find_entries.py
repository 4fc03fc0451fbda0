"""Finds entries of the ledger by who, what, to what, when and a text in them, a page at a time.

Guarantee: a page looks at `LOOKED_AT` entries at most for a text, for which there is no index; the next page goes on
where it ended, whether or not it found anything.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, or_
from sqlmodel import Session, col, select

from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.pages import Page
from controlplane.db.rows import newest
from controlplane.ledger import sealing
from controlplane.ledger.store import of_kind
from controlplane.ledger.tables import LedgerRow

LOOKED_AT = 20_000


@dataclass(frozen=True)
class Wanted:
    """What entries must be, all of it; None: whatever it is. `kind` as in `store.entries`; `text` stands in the
    message, the subject, the actor or the kind, in whatever case. `start` is within the span, `end` is not.
    """

    kind: str | None = None
    actor: str | None = None
    subject: str | None = None
    text: str | None = None
    start: datetime | None = None
    end: datetime | None = None


def search(session: Session, wanted: Wanted, *, before_id: int | None, limit: int) -> Page[LedgerEntry]:
    """At most `limit`, newest first. `next` of a page is the `before_id` of the one that follows."""
    query, floor = newest(LedgerRow, before_id, limit + 1).where(*_conditions(wanted)), 0
    if wanted.text:
        above = before_id or sealing.head(session.connection()).id + 1
        floor = max(0, above - LOOKED_AT)
        query = query.where(col(LedgerRow.id) >= floor, _holds(wanted.text))
    found = [LedgerEntry.model_validate(row, from_attributes=True) for row in session.exec(query)]
    shown = found[:limit]
    if len(found) > limit:
        return Page(items=shown, next=str(shown[-1].id))
    return Page(items=shown, next=str(floor) if _any_below(session, floor, wanted.start) else None)


def of_person(session: Session, person_id: int, name: str, *, before_id: int | None, limit: int) -> Page[LedgerEntry]:
    """What a person did, or what was done to them, newest first, as in `search`. name: the present one."""
    subject = f"person/{person_id}"
    named = select(LedgerRow.actor).where(LedgerRow.subject == subject, LedgerRow.kind == "person.signed_in")
    names = {name, *session.exec(named.distinct())}
    did = col(LedgerRow.actor).in_(names) & (col(LedgerRow.evidence)["person_id"].as_integer() == person_id)
    query = newest(LedgerRow, before_id, limit + 1).where(did | (col(LedgerRow.subject) == subject))
    found = [LedgerEntry.model_validate(row, from_attributes=True) for row in session.exec(query)]
    return Page(items=found[:limit], next=str(found[limit - 1].id) if len(found) > limit else None)


def _conditions(wanted: Wanted) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.kind is not None:
        found.append(of_kind(wanted.kind))
    if wanted.actor is not None:
        found.append(col(LedgerRow.actor) == wanted.actor)
    if wanted.subject is not None:
        found.append(col(LedgerRow.subject) == wanted.subject)
    if wanted.start is not None:
        found.append(col(LedgerRow.time) >= wanted.start)
    if wanted.end is not None:
        found.append(col(LedgerRow.time) < wanted.end)
    return found


def _holds(text: str) -> ColumnElement[bool]:
    looked_in = (LedgerRow.message, LedgerRow.subject, LedgerRow.actor, LedgerRow.kind)
    return or_(*(col(column).icontains(text, autoescape=True) for column in looked_in))


def _any_below(session: Session, floor: int, start: datetime | None) -> bool:
    """Whether there are entries that no page has looked at yet."""
    query = select(LedgerRow.id).where(col(LedgerRow.id) < floor).limit(1)
    if start is not None:
        query = query.where(col(LedgerRow.time) >= start)
    return session.exec(query).first() is not None
