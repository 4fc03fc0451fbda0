"""Alert rules, alerts, destinations, deliveries and silences over HTTP."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

import httpx
from fastapi import APIRouter, Depends, Query
from sqlmodel import Session, SQLModel, col, select

from controlplane import ledger
from controlplane.alerts import store
from controlplane.alerts.lives.fingerprint import fingerprint
from controlplane.alerts.notify.delivery import DEADLINE_S, send_test
from controlplane.alerts.rules.checks import check_destination, check_rule, check_silence
from controlplane.alerts.tables import DeliveryRow, DestinationRow, SilenceRow
from controlplane.alerts.view import delivery_view, destination_view, silence_view
from controlplane.auth import Admin, Operator, Reader
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.bodies.alerts import (
    Alert,
    AlertRule,
    AlertRuleCreate,
    AlertState,
    Delivery,
    DeliveryState,
    Destination,
    DestinationCreate,
    Remedy,
    Severity,
    Silence,
    SilenceCreate,
)
from controlplane.contract.bodies.pages import Page
from controlplane.db import SessionDep
from controlplane.db.ids import PathId, QueryId
from controlplane.db.paging import Cursor, Limit, page_of
from controlplane.outgoing import new_client

Row = TypeVar("Row", bound=SQLModel)

router = APIRouter(prefix="/api/v1", tags=["alerts"])


@dataclass(frozen=True, kw_only=True)
class AlertParts(AuthParts):
    """What these routes are served with.

    public_url: the base of links that go out. check_remedy: raises `BadRequest`; studies lie beside alerts.
    """

    public_url: str
    check_remedy: Callable[[Remedy], None]


Alerts = Annotated[AlertParts, Depends(AlertParts.given)]


def _note(
    session: Session, service: AlertParts, actor: str, kind: str, subject: str, message: str, **more: Any
) -> None:
    now = service.clock()
    ledger.append(session, now=now, actor=actor, kind=kind, subject=subject, message=message, **more)


# -- rules -------------------------------------------------------------------------------------------------------------


def _check(service: AlertParts, wanted: AlertRuleCreate) -> None:
    """Raises `BadRequest`. What a remedy may be is for the application to say: studies lie beside alerts."""
    check_rule(wanted)
    if wanted.remedy is not None:
        service.check_remedy(wanted.remedy)


@router.get("/alert-rules")
def list_rules(session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None) -> Page[AlertRule]:
    """Alert rules, newest first; the default ones too."""
    return page_of(store.rules(session, before_id=cursor, limit=limit + 1), limit)


@router.post("/alert-rules", status_code=201)
def create_rule(wanted: AlertRuleCreate, session: SessionDep, principal: Operator, service: Alerts) -> AlertRule:
    """Make a rule; it is judged from the next round on (every few seconds)."""
    _check(service, wanted)
    rule = store.create_rule(session, wanted, service.clock())
    subject = f"alert-rule/{rule.id}"
    message = f"alert rule {rule.name!r} ({rule.condition.kind})"
    _note(session, service, principal.name, "alert_rule.created", subject, message, rule=wanted.model_dump(mode="json"))
    return rule


@router.put("/alert-rules/{rule_id}")
def update_rule(
    rule_id: PathId, wanted: AlertRuleCreate, session: SessionDep, principal: Operator, service: Alerts
) -> AlertRule:
    """Replace a rule. A changed condition or pool forgets the evidence gathered and ends the rule's open alerts."""
    _check(service, wanted)
    rule = store.update_rule(session, rule_id, wanted, service.clock(), service.public_url)
    subject, message = f"alert-rule/{rule_id}", f"alert rule {rule.name!r} changed"
    _note(session, service, principal.name, "alert_rule.updated", subject, message, rule=wanted.model_dump(mode="json"))
    return rule


@router.delete("/alert-rules/{rule_id}", status_code=204)
def delete_rule(rule_id: PathId, session: SessionDep, principal: Operator, service: Alerts) -> None:
    """Remove a rule; its open alerts are resolved."""
    rule = store.delete_rule(session, rule_id, service.clock(), service.public_url)
    subject = f"alert-rule/{rule_id}"
    _note(session, service, principal.name, "alert_rule.deleted", subject, f"alert rule {rule.name!r} deleted")


# -- alerts ------------------------------------------------------------------------------------------------------------


@router.get("/alerts")
def list_alerts(
    session: SessionDep,
    _: Reader,
    limit: Limit = 100,
    cursor: Cursor = None,
    state: Annotated[AlertState | None, Query(description="only alerts in this state")] = None,
) -> Page[Alert]:
    """Alerts, newest first."""
    return page_of(store.alerts(session, before_id=cursor, limit=limit + 1, state=state), limit)


@router.get("/alerts/{alert_id}")
def get_alert(alert_id: PathId, session: SessionDep, _: Reader) -> Alert:
    """One alert with its evidence, its diagnosis, and what was done about it."""
    return store.alert(session, alert_id)


# -- destinations and deliveries ---------------------------------------------------------------------------------------


@router.get("/destinations")
def list_destinations(session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None) -> Page[Destination]:
    """Destinations, newest first. Secrets are never shown."""
    rows = _newest(session, DestinationRow, cursor, limit)
    return page_of([destination_view(row) for row in rows], limit)


@router.post("/destinations", status_code=201)
def create_destination(
    wanted: DestinationCreate, session: SessionDep, principal: Admin, service: Alerts
) -> Destination:
    """Make a webhook that every alert which fires or resolves is sent to, in the form of Alertmanager's version 4."""
    check_destination(wanted)
    row = DestinationRow(**wanted.model_dump(), created_at=service.clock())
    session.add(row)
    session.flush()
    message = f"destination {row.name!r} at {_host(row.url)}"
    _note(session, service, principal.name, "destination.created", f"destination/{row.id}", message)
    return destination_view(row)


@router.delete("/destinations/{destination_id}", status_code=204)
def delete_destination(destination_id: PathId, session: SessionDep, principal: Admin, service: Alerts) -> None:
    """Remove a destination; what still waits for it is given up."""
    name = store.delete_destination(session, destination_id)
    subject = f"destination/{destination_id}"
    _note(session, service, principal.name, "destination.deleted", subject, f"destination {name!r} deleted")


@router.post("/destinations/{destination_id}/test")
def test_destination(destination_id: PathId, principal: Admin, service: Alerts) -> Delivery:
    """Send a signed test alert now, once, and say what came of it. The answer's ids are 0: nothing is kept."""
    # No SessionDep here: a transaction must not be open while somebody else's server thinks about its answer.
    now = service.clock()
    with service.database.read_session() as session:
        destination = store.destination_row(session, destination_id)
        session.expunge(destination)
    with new_client(DEADLINE_S) as http:
        attempt = send_test(http, destination, _test_alert(now), now, service.public_url)
    answered_at = service.clock()
    state = DeliveryState.DELIVERED if attempt.error is None else DeliveryState.GIVEN_UP
    with service.database.session() as session:
        message = f"test of destination {destination.name!r}: {attempt.error or 'delivered'}"
        subject = f"destination/{destination_id}"
        _note(session, service, principal.name, "destination.tested", subject, message)
    return Delivery(
        id=0,
        alert_id=0,
        destination_id=destination_id,
        state=state,
        status=AlertState.FIRING.value,
        attempts=1,
        last_error=attempt.error,
        delivered_at=answered_at if attempt.error is None else None,
    )


@router.get("/deliveries")
def list_deliveries(
    session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None, alert_id: QueryId = None
) -> Page[Delivery]:
    """Deliveries, newest first."""
    query = select(DeliveryRow).order_by(col(DeliveryRow.id).desc()).limit(limit + 1)
    if cursor is not None:
        query = query.where(col(DeliveryRow.id) < cursor)
    if alert_id is not None:
        query = query.where(DeliveryRow.alert_id == alert_id)
    return page_of([delivery_view(row) for row in session.exec(query)], limit)


# -- silences ----------------------------------------------------------------------------------------------------------


@router.get("/silences")
def list_silences(session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None) -> Page[Silence]:
    """Silences, newest first, the ended ones too."""
    return page_of([silence_view(row) for row in _newest(session, SilenceRow, cursor, limit)], limit)


@router.post("/silences", status_code=201)
def create_silence(wanted: SilenceCreate, session: SessionDep, principal: Operator, service: Alerts) -> Silence:
    """Hold back alerts whose labels (also `rule` and `severity`) equal all matchers. What has fired stays told."""
    now = service.clock()
    check_silence(wanted, now)
    row = SilenceRow(**wanted.model_dump(), created_by=principal.name, starts_at=now)
    session.add(row)
    session.flush()
    words = ", ".join(f"{name}={value}" for name, value in sorted(wanted.matchers.items()))
    message = f"silence of {words} until {wanted.ends_at.isoformat()}"
    _note(session, service, principal.name, "silence.created", f"silence/{row.id}", message, comment=wanted.comment)
    return silence_view(row)


@router.delete("/silences/{silence_id}", status_code=204)
def end_silence(silence_id: PathId, session: SessionDep, principal: Operator, service: Alerts) -> None:
    """End a silence early. Alerts it held back that still fire are delivered then."""
    store.end_silence(session, silence_id, service.clock())
    subject = f"silence/{silence_id}"
    _note(session, service, principal.name, "silence.ended", subject, f"silence {silence_id} ended early")


def _newest(session: Session, table: type[Row], before_id: int | None, limit: int) -> list[Row]:
    identity = col(table.id)  # type: ignore[attr-defined]
    query = select(table).order_by(identity.desc()).limit(limit + 1)
    if before_id is not None:
        query = query.where(identity < before_id)
    return list(session.exec(query))


def _host(url: str) -> str:
    """The URL without path and query, which often hold a secret of their own."""
    try:
        return httpx.URL(url).host
    except httpx.InvalidURL:
        return "?"


def _test_alert(now: datetime) -> Alert:
    labels = {"kind": "test"}
    return Alert(
        id=0,
        fingerprint=fingerprint(0, labels),
        rule_id=0,
        rule="tailwright test",
        state=AlertState.FIRING,
        severity=Severity.TICKET,
        labels=labels,
        summary="This is a test of the webhook; nothing is wrong.",
        started_at=now,
        fired_at=now,
    )
