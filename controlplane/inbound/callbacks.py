"""A genuine callback acknowledges, and does nothing else: the alert's incident, in the ledger, and elsewhere.

Guarantees: only an alert that was told to this destination can be acknowledged from there; a callback is taken once,
however often it is sent.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete
from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.alerts.tables import AlertRow, DeliveryRow, DestinationRow
from controlplane.contract.errors import Conflict, NotFound
from controlplane.inbound.callback_bodies import Acknowledged
from controlplane.inbound.callback_signatures import PAGERDUTY_WINDOW_S
from controlplane.inbound.tables import CallbackRow
from controlplane.incidents import store as incidents
from controlplane.incidents.acknowledging import Said
from controlplane.incidents.acknowledging import acknowledge as acknowledge_incident

REMEMBERED = timedelta(seconds=2 * PAGERDUTY_WINDOW_S)


@dataclass(frozen=True)
class From:
    """Which destination a callback came from. tells_again: its people should read there that it was taken."""

    destination_id: int
    name: str
    tells_again: bool


def is_new(session: Session, signed: bytes, now: datetime) -> bool:
    """Whether this was never taken; it is remembered from now on, and what is too old to be taken is forgotten."""
    session.execute(delete(CallbackRow).where(col(CallbackRow.taken_at) < now - REMEMBERED))
    digest = hashlib.sha256(signed).hexdigest()
    if session.get(CallbackRow, digest) is not None:
        return False
    session.add(CallbackRow(digest=digest, taken_at=now))
    session.flush()
    return True


def source_of(session: Session, destination_id: int) -> From:
    row = session.get_one(DestinationRow, destination_id)
    return From(destination_id, row.name, row.kind.startswith("slack"))


def acknowledge(session: Session, said: Acknowledged, source: From, now: datetime, external_url: str) -> None:
    """Raises `NotFound` for an alert it was not told of, `Conflict` for one that is in no incident yet."""
    row = _told(session, said, source.destination_id)
    assert row.id is not None
    number = incidents.incident_of(session, row.id)
    if number is None:
        raise Conflict("the alert is not in an incident yet: try again in some seconds", field="alert")
    actor = f"{said.by} by {source.name}"
    at = None if source.tells_again else Said(row.id, source.destination_id)
    if acknowledge_incident(session, number, actor=actor, now=now, public_url=external_url, said=at):
        message = f"{said.by} looks at it, says {source.name}"
        ledger.append(session, now, actor, "alert.acknowledged", f"alert/{row.id}", message, incident=number)


def _told(session: Session, said: Acknowledged, destination_id: int) -> AlertRow:
    told = select(DeliveryRow.alert_id).where(DeliveryRow.destination_id == destination_id)
    query = select(AlertRow).where(col(AlertRow.id).in_(told)).order_by(col(AlertRow.id).desc()).limit(1)
    if said.alert_id is not None:
        query = query.where(AlertRow.id == said.alert_id)
    else:
        query = query.where(AlertRow.fingerprint == (said.fingerprint or ""))
    found = session.exec(query).first()
    if found is None:
        raise NotFound("this destination was told of no such alert", field="alert")
    return found
