"""Acknowledging an incident, here or by a channel's callback: all who were told of its alerts hear who looks at it.

Guarantee: it is told once, in the transaction that acknowledges, and never back to where it was said.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlmodel import Session

from controlplane.alerts.notify import outbox
from controlplane.contract.bodies.alerts import AlertState
from controlplane.incidents import store


@dataclass(frozen=True)
class Said:
    """Where a callback came from: this destination knows of this alert already."""

    alert_id: int
    destination_id: int


def acknowledge(
    session: Session,
    incident_id: int,
    *,
    actor: str,
    now: datetime,
    public_url: str,
    comment: str = "",
    said: Said | None = None,
) -> bool:
    """Whether it is news. public_url: the base of links that go out."""
    if not store.acknowledge(session, incident_id, actor=actor, now=now, comment=comment):
        return False
    for alert in (member.alert for member in store.detail(session, incident_id, now).members):
        if alert.state is AlertState.FIRING:
            but = said.destination_id if said is not None and said.alert_id == alert.id else None
            outbox.enqueue_acknowledged(session, alert, now, public_url, actor, but=but)
    return True
