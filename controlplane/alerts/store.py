"""Rules, alerts, destinations, deliveries and silences in the database, inside the caller's transaction."""

from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from controlplane.alerts.notify import outbox
from controlplane.alerts.tables import (
    AlertRow,
    AlertRuleRow,
    DeliveryRow,
    DestinationRow,
    DetectorStateRow,
    SilenceRow,
)
from controlplane.alerts.view import alert_view, rule_view
from controlplane.contract.bodies.alerts import Alert, AlertRule, AlertRuleCreate, AlertState, DeliveryState
from controlplane.contract.errors import NotFound

OPEN_STATES = (AlertState.PENDING.value, AlertState.FIRING.value)


# -- rules -------------------------------------------------------------------------------------------------------------


def rules(
    session: Session, *, before_id: int | None = None, limit: int = 10_000, enabled_only: bool = False
) -> list[AlertRule]:
    """Newest first."""
    query = select(AlertRuleRow).order_by(col(AlertRuleRow.id).desc()).limit(limit)
    if before_id is not None:
        query = query.where(col(AlertRuleRow.id) < before_id)
    if enabled_only:
        query = query.where(col(AlertRuleRow.enabled).is_(True))
    return [rule_view(row) for row in session.exec(query)]


def create_rule(session: Session, wanted: AlertRuleCreate, now: datetime) -> AlertRule:
    row = AlertRuleRow(**_rule_fields(wanted), created_at=now)
    session.add(row)
    session.flush()
    return rule_view(row)


def update_rule(
    session: Session, rule_id: int, wanted: AlertRuleCreate, now: datetime, external_url: str = ""
) -> AlertRule:
    """Replace a rule. A changed condition or pool starts afresh: its evidence is forgotten, its open alerts end."""
    row = _rule_row(session, rule_id)
    fields = _rule_fields(wanted)
    afresh = (row.condition, row.pool) != (fields["condition"], fields["pool"]) or not wanted.enabled
    row.sqlmodel_update(fields)
    row.version += 1
    session.add(row)
    if afresh:
        _end_rule(session, rule_id, now, "its rule was changed", external_url)
    else:
        for state in session.exec(select(DetectorStateRow).where(DetectorStateRow.rule_id == rule_id)):
            state.version = row.version
            session.add(state)
    return rule_view(row)


def delete_rule(session: Session, rule_id: int, now: datetime, external_url: str = "") -> AlertRule:
    """Remove a rule; its open alerts are resolved, and those that were told of hear it."""
    row = _rule_row(session, rule_id)
    _end_rule(session, rule_id, now, "its rule was deleted", external_url)
    session.delete(row)
    return rule_view(row)


def _end_rule(session: Session, rule_id: int, now: datetime, why: str, external_url: str) -> None:
    for state in session.exec(select(DetectorStateRow).where(DetectorStateRow.rule_id == rule_id)):
        session.delete(state)
    open_alerts = select(AlertRow).where(AlertRow.rule_id == rule_id, col(AlertRow.state).in_(OPEN_STATES))
    for alert in session.exec(open_alerts):
        told = alert.state == AlertState.FIRING.value
        if not told:
            session.delete(alert)
            continue
        alert.state, alert.resolved_at = AlertState.RESOLVED.value, now
        alert.evidence = {**alert.evidence, "resolved_because": why}
        session.add(alert)
        outbox.enqueue_resolved(session, alert_view(alert), now, external_url)


def _rule_row(session: Session, rule_id: int) -> AlertRuleRow:
    row = session.get(AlertRuleRow, rule_id)
    if row is None:
        raise NotFound(f"no alert rule {rule_id}", field="rule_id")
    return row


def _rule_fields(wanted: AlertRuleCreate) -> dict[str, Any]:
    fields = wanted.model_dump(mode="json", exclude={"severity"})
    return {**fields, "severity": wanted.severity.value}


# -- alerts ------------------------------------------------------------------------------------------------------------


def alerts(session: Session, *, before_id: int | None, limit: int, state: AlertState | None = None) -> list[Alert]:
    """Newest first."""
    query = select(AlertRow).order_by(col(AlertRow.id).desc()).limit(limit)
    if before_id is not None:
        query = query.where(col(AlertRow.id) < before_id)
    if state is not None:
        query = query.where(AlertRow.state == state.value)
    return [alert_view(row) for row in session.exec(query)]


def alert(session: Session, alert_id: int) -> Alert:
    row = session.get(AlertRow, alert_id)
    if row is None:
        raise NotFound(f"no alert {alert_id}", field="alert_id")
    return alert_view(row)


# -- destinations, deliveries, silences --------------------------------------------------------------------------------


def destination_row(session: Session, destination_id: int) -> DestinationRow:
    row = session.get(DestinationRow, destination_id)
    if row is None:
        raise NotFound(f"no destination {destination_id}", field="destination_id")
    return row


def delete_destination(session: Session, destination_id: int) -> str:
    """Remove a destination and give up what still waits for it; returns its name."""
    row = destination_row(session, destination_id)
    waiting = select(DeliveryRow).where(
        DeliveryRow.destination_id == destination_id, DeliveryRow.state == DeliveryState.WAITING.value
    )
    for delivery in session.exec(waiting):
        delivery.state, delivery.last_error = DeliveryState.GIVEN_UP.value, "the destination was removed"
        delivery.next_attempt_at = None
        session.add(delivery)
    session.delete(row)
    return row.name


def end_silence(session: Session, silence_id: int, now: datetime) -> SilenceRow:
    """End a silence now; one that has ended already stays as it was."""
    row = session.get(SilenceRow, silence_id)
    if row is None:
        raise NotFound(f"no silence {silence_id}", field="silence_id")
    if row.ended_early_at is None and row.ends_at > now:
        row.ended_early_at = now
        session.add(row)
    return row
