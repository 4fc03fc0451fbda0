"""Rules, alerts, destinations, deliveries and silences in the database, inside the caller's transaction."""

from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.alerts.notify import destination_fields, letters, outbox
from controlplane.alerts.notify.destination_view import destination_view
from controlplane.alerts.notify.kept_secrets import with_kept
from controlplane.alerts.symptoms.usual_severity import with_severity
from controlplane.alerts.tables import (
    AlertRow,
    AlertRuleRow,
    DeliveryRow,
    DestinationRow,
    DetectorStateRow,
    SilenceRow,
)
from controlplane.alerts.view import alert_view, delivery_view, rule_view, silence_view
from controlplane.contract.bodies.alerts import (
    OURS,
    Alert,
    AlertRule,
    AlertRuleCreate,
    AlertState,
    Silence,
    SilenceCreate,
)
from controlplane.contract.bodies.remedies import RemedyStep
from controlplane.contract.channels.destinations import (
    DeadLettersReplayed,
    Delivery,
    DeliveryState,
    Destination,
    DestinationCreate,
    DestinationReplace,
)
from controlplane.db.rows import existing, moved, newest
from controlplane.keys import Keyring

OPEN_STATES = (AlertState.PENDING.value, AlertState.FIRING.value)


# -- rules -------------------------------------------------------------------------------------------------------------


def rules(
    session: Session, *, before_id: int | None = None, limit: int = 10_000, enabled_only: bool = False
) -> list[AlertRule]:
    """Newest first."""
    query = newest(AlertRuleRow, before_id, limit)
    if enabled_only:
        query = query.where(col(AlertRuleRow.enabled).is_(True))
    return [rule_view(row) for row in session.exec(query)]


def create_rule(
    session: Session,
    wanted: AlertRuleCreate,
    now: datetime,
    *,
    actor: str = ledger.SERVICE,
    origin: str | None = None,
) -> AlertRule:
    """origin: the file that makes it."""
    wanted = with_severity(wanted)
    rule = add_rule(session, wanted, now, origin)
    message, said = f"alert rule {rule.name!r} ({rule.condition.kind})", wanted.model_dump(mode="json")
    ledger.append(session, now, actor, "alert_rule.created", f"alert-rule/{rule.id}", message, rule=said)
    return rule


def add_rule(session: Session, wanted: AlertRuleCreate, now: datetime, origin: str | None = None) -> AlertRule:
    """As `create_rule`, without a word in the ledger: that is for who adds several at once."""
    row = AlertRuleRow(**_rule_fields(with_severity(wanted)), created_at=now, origin=origin)
    session.add(row)
    session.flush()
    return rule_view(row)


def update_rule(
    session: Session,
    rule_id: int,
    wanted: AlertRuleCreate,
    now: datetime,
    external_url: str,
    *,
    actor: str,
    origin: str | None = None,
) -> AlertRule:
    """Replace a rule. A changed condition or pool starts afresh: its evidence is forgotten, its open alerts end.

    origin: the file that says so; one that a file made is that one's from now on.
    """
    wanted, row = with_severity(wanted), existing(session, AlertRuleRow, rule_id, "alert rule", field="rule_id")
    fields = _rule_fields(wanted)
    afresh = (row.condition, row.pool) != (fields["condition"], fields["pool"]) or not wanted.enabled
    row.sqlmodel_update(fields)
    row.version += 1
    row.origin = moved(row.origin, origin)
    session.add(row)
    if afresh:
        _end_rule(session, rule_id, now, "its rule was changed", external_url)
    else:
        for state in session.exec(select(DetectorStateRow).where(DetectorStateRow.rule_id == rule_id)):
            state.version = row.version
            session.add(state)
    message, said = f"alert rule {row.name!r} changed", wanted.model_dump(mode="json")
    ledger.append(session, now, actor, "alert_rule.updated", f"alert-rule/{rule_id}", message, rule=said)
    return rule_view(row)


def delete_rule(
    session: Session, rule_id: int, now: datetime, external_url: str = "", *, actor: str = ledger.SERVICE
) -> None:
    """Remove a rule; its open alerts are resolved, and those that were told of hear it."""
    row = existing(session, AlertRuleRow, rule_id, "alert rule", field="rule_id")
    _end_rule(session, rule_id, now, "its rule was deleted", external_url)
    session.delete(row)
    message = f"alert rule {row.name!r} deleted"
    ledger.append(session, now, actor, "alert_rule.deleted", f"alert-rule/{rule_id}", message)


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


def _rule_fields(wanted: AlertRuleCreate) -> dict[str, Any]:
    return wanted.model_dump(mode="json", include=set(AlertRuleCreate.model_fields))


# -- alerts ------------------------------------------------------------------------------------------------------------


def alerts(session: Session, *, before_id: int | None, limit: int, state: AlertState | None = None) -> list[Alert]:
    """Our own, newest first; those of other systems stand in their incidents."""
    query = newest(AlertRow, before_id, limit).where(AlertRow.source == OURS)
    if state is not None:
        query = query.where(AlertRow.state == state.value)
    return [alert_view(row) for row in session.exec(query)]


def open_alerts(session: Session) -> list[Alert]:
    """Our own, pending and firing, newest first."""
    query = (
        select(AlertRow)
        .where(AlertRow.source == OURS, col(AlertRow.state).in_(OPEN_STATES))
        .order_by(col(AlertRow.id).desc())
    )
    return [alert_view(row) for row in session.exec(query)]


def steps_of_firing(session: Session) -> dict[int, list[RemedyStep]]:
    """What was chosen for each of our own firing alerts that has anything, by the alert's id."""
    firing = (AlertRow.source == OURS, AlertRow.state == AlertState.FIRING.value)
    rows = session.exec(select(AlertRow.id, AlertRow.remedies).where(*firing).order_by(col(AlertRow.id)))
    return {alert_id or 0: [RemedyStep.model_validate(step) for step in steps] for alert_id, steps in rows if steps}


def alert(session: Session, alert_id: int) -> Alert:
    return alert_view(existing(session, AlertRow, alert_id, "alert", field="alert_id"))


# -- destinations and deliveries ---------------------------------------------------------------------------------------


def destinations(session: Session, *, before_id: int | None, limit: int, now: datetime) -> list[Destination]:
    """Newest first, with how they do."""
    rows = list(session.exec(newest(DestinationRow, before_id, limit)))
    counted = letters.counts(session, [row.id for row in rows if row.id is not None])
    return [destination_view(row, counted, now) for row in rows]


def create_destination(
    session: Session,
    wanted: DestinationCreate,
    keyring: Keyring,
    *,
    actor: str,
    now: datetime,
    origin: str | None = None,
) -> Destination:
    """origin: the file that makes it."""
    row = DestinationRow(name=wanted.name, shown="", created_at=now, origin=origin)
    session.add(row)
    session.flush()
    destination_fields.fill(session, row, wanted, keyring)
    session.add(row)
    message = f"destination {row.name!r} at {row.shown}"
    said = {"destination_kind": row.kind, "recipients": row.recipients} | ({"origin": origin} if origin else {})
    ledger.append(session, now, actor, "destination.created", f"destination/{row.id}", message, **said)
    return destination_view(row, {}, now)


def whole_destination(
    session: Session, destination_id: int, wanted: DestinationReplace, keyring: Keyring
) -> DestinationReplace:
    """What is wanted of one, with the secrets that it keeps. Raises `BadRequest` where it has none to keep."""
    row = existing(session, DestinationRow, destination_id, "destination", field="destination_id", lock=True)
    return with_kept(wanted, row.kind, row.shown, destination_fields.secrets_of(row, keyring))


def update_destination(
    session: Session,
    destination_id: int,
    wanted: DestinationCreate,
    keyring: Keyring,
    *,
    actor: str,
    now: datetime,
    origin: str | None = None,
) -> Destination:
    """Replace a destination. What waits for it is given up where it is of another kind now, which speaks otherwise; at
    another URL it is tried at once."""
    row = existing(session, DestinationRow, destination_id, "destination", field="destination_id", lock=True)
    if row.kind != wanted.kind.value:
        letters.give_up(session, destination_id, "the destination's kind was changed")
    destination_fields.fill(session, row, wanted, keyring)
    row.failures, row.rests_until, row.origin = 0, None, moved(row.origin, origin)
    session.add(row)
    message = f"destination {row.name!r} changed, at {row.shown}"
    said = {"destination_kind": row.kind, "recipients": row.recipients} | ({"origin": origin} if origin else {})
    ledger.append(session, now, actor, "destination.updated", f"destination/{row.id}", message, **said)
    return destination_view(row, {}, now)


def delete_destination(session: Session, destination_id: int, *, actor: str, now: datetime) -> None:
    """Remove a destination and give up what still waits for it."""
    row = existing(session, DestinationRow, destination_id, "destination", field="destination_id", lock=True)
    letters.give_up(session, destination_id, "the destination was removed")
    session.delete(row)
    message = f"destination {row.name!r} deleted"
    ledger.append(session, now, actor, "destination.deleted", f"destination/{row.id}", message)


def deliveries(
    session: Session,
    *,
    before_id: int | None,
    limit: int,
    alert_id: int | None = None,
    destination_id: int | None = None,
    state: DeliveryState | None = None,
) -> list[Delivery]:
    """Newest first."""
    query = newest(DeliveryRow, before_id, limit)
    if alert_id is not None:
        query = query.where(DeliveryRow.alert_id == alert_id)
    if destination_id is not None:
        query = query.where(DeliveryRow.destination_id == destination_id)
    if state is not None:
        query = query.where(DeliveryRow.state == state.value)
    return [delivery_view(row) for row in session.exec(query)]


def replay_dead(
    session: Session, destination_id: int, only: list[int] | None, *, actor: str, now: datetime
) -> DeadLettersReplayed:
    """Send dead letters once more. Raises `NotFound`."""
    row = existing(session, DestinationRow, destination_id, "destination", field="destination_id", lock=True)
    done = letters.replay(session, destination_id, only, now)
    row.failures, row.rests_until = 0, None
    session.add(row)
    message = f"{done.replayed} dead letters of destination {row.name!r} are sent once more"
    ledger.append(session, now, actor, "destination.replayed", f"destination/{row.id}", message, **done.model_dump())
    return done


# -- silences ----------------------------------------------------------------------------------------------------------


def silences(session: Session, *, before_id: int | None, limit: int) -> list[Silence]:
    """Newest first."""
    return [silence_view(row) for row in session.exec(newest(SilenceRow, before_id, limit))]


def silences_now(session: Session, now: datetime) -> list[Silence]:
    """Those that are not over; each says when it begins and ends."""
    lasting = (col(SilenceRow.ended_early_at).is_(None), SilenceRow.ends_at > now)
    rows = session.exec(select(SilenceRow).where(*lasting))
    return [silence_view(row) for row in rows]


def create_silence(
    session: Session, wanted: SilenceCreate, *, actor: str, now: datetime, origin: str | None = None
) -> Silence:
    """origin: the file that makes it."""
    said = wanted.model_dump(include=set(SilenceCreate.model_fields))
    row = SilenceRow(**said, created_by=actor, starts_at=now, origin=origin)
    session.add(row)
    session.flush()
    words = [f"{name}={value}" for name, value in sorted(wanted.matchers.items())]
    words += [f"{name}=~{text}" for name, text in sorted(wanted.patterns.items())]
    message = f"silence of {', '.join(words)} until {wanted.ends_at.isoformat()}"
    said = {"comment": wanted.comment} | ({"origin": origin} if origin else {})
    ledger.append(session, now, actor, "silence.created", f"silence/{row.id}", message, **said)
    return silence_view(row)


def change_silence(
    session: Session, silence_id: int, wanted: SilenceCreate, *, actor: str, now: datetime, origin: str | None = None
) -> None:
    """Another end, or another comment, of one that lasts."""
    row = existing(session, SilenceRow, silence_id, "silence", field="silence_id")
    row.ends_at, row.comment, row.origin = wanted.ends_at, wanted.comment, moved(row.origin, origin)
    session.add(row)
    message = f"silence {row.id} lasts until {wanted.ends_at.isoformat()}"
    said = {"comment": wanted.comment} | ({"origin": origin} if origin else {})
    ledger.append(session, now, actor, "silence.updated", f"silence/{row.id}", message, **said)


def end_silence(session: Session, silence_id: int, *, actor: str, now: datetime) -> None:
    """End a silence now; one that has ended already stays as it was."""
    row = existing(session, SilenceRow, silence_id, "silence", field="silence_id")
    if row.ended_early_at is None and row.ends_at > now:
        row.ended_early_at = now
        session.add(row)
    ledger.append(session, now, actor, "silence.ended", f"silence/{row.id}", f"silence {row.id} ended early")
