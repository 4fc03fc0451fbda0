"""What has to be told to whom: rows written in the transaction that changes the alert (a transactional outbox).

Guarantee: an alert that is in the database as fired has its deliveries there too. "Resolved" goes to exactly the
destinations that were told of "firing", also during a silence: it closes what was opened and wakes nobody. One that is
about certain alerts `only` hears of no other.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from jinja2 import TemplateError
from sqlalchemy import insert
from sqlmodel import Session, col, select

from controlplane.alerts.channels import payload
from controlplane.alerts.channels.alert_template import rendered
from controlplane.alerts.channels.channel import Notification, Status
from controlplane.alerts.channels.registry import CHANNELS
from controlplane.alerts.matching.label_match import matches
from controlplane.alerts.tables import DeliveryRow, DestinationRow
from controlplane.contract.bodies.alerts import Alert, Silenced
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.channels.destinations import DeliveryState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class News:
    """What is to be told of an alert. key: where it is not the usual one of alert and status."""

    alert: Alert
    status: Status
    at: datetime
    external_url: str
    key: str | None = None
    by: str | None = None


def enqueue_firing(session: Session, alert: Alert, now: datetime, external_url: str, key: str | None = None) -> int:
    """One delivery for each enabled destination that is told of such alerts; returns how many. key: if it is not the
    first."""
    rows = session.exec(
        select(DestinationRow).where(col(DestinationRow.enabled).is_(True)).order_by(col(DestinationRow.id))
    )
    labels = payload.labels_of(alert)
    told = [row for row in rows if row.only is None or matches(Silenced.model_validate(row.only), labels)]
    return _enqueue(session, News(alert, Status.FIRING, now, external_url, key), told)


def is_told(session: Session, alert: Alert) -> bool:
    """Whether there is a delivery of this alert already."""
    return session.exec(select(DeliveryRow.id).where(DeliveryRow.alert_id == alert.id).limit(1)).first() is not None


def enqueue_resolved(session: Session, alert: Alert, now: datetime, external_url: str) -> int:
    """To each destination that was told of the alert, once."""
    return _enqueue(session, News(alert, Status.RESOLVED, now, external_url), _told(session, alert))


def enqueue_acknowledged(
    session: Session, alert: Alert, now: datetime, external_url: str, by: str, *, but: int | None = None
) -> int:
    """To each destination that was told of the alert and has a word for it. but: where it was acknowledged."""
    rows = [row for row in _told(session, alert) if row.id != but]
    return _enqueue(session, News(alert, Status.ACKNOWLEDGED, now, external_url, by=by), rows)


def _told(session: Session, alert: Alert) -> list[DestinationRow]:
    told = select(DeliveryRow.destination_id).where(DeliveryRow.alert_id == alert.id)
    return list(
        session.exec(select(DestinationRow).where(col(DestinationRow.id).in_(told)).order_by(col(DestinationRow.id)))
    )


def notification_of(news: News, destination: DestinationRow) -> Notification:
    """As this destination is told of it, in its own words where it has any."""
    usual = _in_usual_words(news, destination)
    return replace(
        usual,
        title=_worded(destination, destination.title_template, usual),
        text=_worded(destination, destination.text_template, usual),
    )


def _worded(destination: DestinationRow, template: str | None, notification: Notification) -> str | None:
    """None for the usual words, also where a template fails: an alert is told whatever its words do."""
    if template is None:
        return None
    try:
        return rendered(template, notification, CHANNELS[DestinationKind(destination.kind)].escape)
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        destination.template_failures += 1
        log.warning("the template of destination %s cannot be rendered: %s", destination.id, error)
        return None


def _in_usual_words(news: News, destination: DestinationRow) -> Notification:
    return Notification(
        news.alert,
        news.status,
        destination.name,
        news.external_url,
        news.at,
        recipients=tuple(destination.recipients),
        sender=destination.sender,
        acknowledges=destination.callback_secret is not None,
        by=news.by,
    )


def _enqueue(session: Session, news: News, destinations: Iterable[DestinationRow]) -> int:
    """How many. Written at once: a rack that falls silent is hundreds of alerts, each told to every destination."""
    key = news.key or payload.idempotency_key(news.alert, news.status.value)
    rows = [
        {
            "alert_id": news.alert.id,
            "destination_id": destination.id,
            "fingerprint": news.alert.fingerprint,
            "status": news.status.value,
            "state": DeliveryState.WAITING.value,
            "idempotency_key": key,
            "body": CHANNELS[DestinationKind(destination.kind)].render(notification_of(news, destination)),
            "attempts": 0,
            "created_at": news.at,
            "waits_since": news.at,
            "next_attempt_at": news.at,
        }
        for destination in destinations
        if news.status in CHANNELS[DestinationKind(destination.kind)].tells
    ]
    if rows:
        session.flush()
        session.execute(insert(DeliveryRow), rows)
    return len(rows)
