"""Incidents, their notes and routes in the database, inside the caller's transaction.

Guarantee: each change of an incident and its entry in the ledger are in one transaction; who changes two incidents
locks them in the order of their numbers.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, update
from sqlalchemy import select as sql_select
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from controlplane import ledger
from controlplane.alerts.rules.inhibition import holding_now
from controlplane.alerts.rules.silence import seen_at
from controlplane.alerts.tables import AlertRow, DeliveryRow, DestinationRow
from controlplane.alerts.view import alert_view
from controlplane.contract.bodies.alerts import OURS, Alert, AlertState
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.channels.destinations import DeliveryState
from controlplane.contract.errors import BadRequest, Conflict
from controlplane.contract.on_call.incidents import (
    Incident,
    IncidentAlert,
    IncidentDetail,
    IncidentNote,
    IncidentSplit,
    IncidentState,
    Route,
    RouteCreate,
)
from controlplane.db.rows import existing, moved, newest
from controlplane.incidents import machine
from controlplane.incidents.confirmed_cause import confirmed
from controlplane.incidents.machine import Signal
from controlplane.incidents.ranked_causes import ranked_causes, told_attribution
from controlplane.incidents.same_cause import Sign, Told, leading, sign_of, sign_told, worst
from controlplane.incidents.tables import IncidentAlertRow, IncidentNoteRow, IncidentRow, RouteRow
from controlplane.incidents.timeline import Telling, timeline
from controlplane.incidents.view import Tally, incident_view, note_view, numbers, route_view
from controlplane.ledger.tables import LedgerRow

OPEN_STATES = (IncidentState.OPEN.value, IncidentState.ACKNOWLEDGED.value)
MOST_ENTRIES = 1_000
"""Of the ledger, in one timeline."""


# -- reading -----------------------------------------------------------------------------------------------------------


def incidents(
    session: Session,
    *,
    before_id: int | None,
    limit: int,
    now: datetime,
    state: IncidentState | None = None,
    pool: str | None = None,
    is_open: bool = False,
    alert_id: int | None = None,
) -> list[Incident]:
    """Newest first."""
    query = newest(IncidentRow, before_id, limit)
    if alert_id is not None:
        query = query.where(IncidentRow.id == incident_of(session, alert_id))
    if state is not None:
        query = query.where(IncidentRow.state == state.value)
    if is_open:
        query = query.where(col(IncidentRow.state).in_(OPEN_STATES))
    if pool is not None:
        query = query.where(IncidentRow.pool == pool)
    rows = list(session.exec(query))
    tallies = _tallies(session, numbers(rows), now)
    return [incident_view(row, tallies[row.id or 0]) for row in rows]


def incident(session: Session, incident_id: int, now: datetime) -> Incident:
    row = _existing(session, incident_id)
    return incident_view(row, _tally([one.alert for one in _members(session, incident_id, now)]))


def detail(session: Session, incident_id: int, now: datetime) -> IncidentDetail:
    """With its alerts, the one that tells most first, and its timeline."""
    members = _members(session, incident_id, now)
    shown = incident_view(_existing(session, incident_id), _tally([one.alert for one in members]))
    alerts = [one.alert for one in members]
    if alerts:
        lead = leading([sign_of(one) for one in alerts]).alert_id
        members.sort(key=lambda one: (one.alert.id != lead, one.alert.started_at, one.alert.id))
    notes = _notes(session, incident_id)
    causes = ranked_causes(one.alert for one in members)
    entries = _entries(session, incident_id, alerts)
    stages = [one.alert.diagnosis.stage for one in members if one.alert.diagnosis and one.alert.diagnosis.stage]
    return IncidentDetail(
        **shown.model_dump(),
        stage=stages[0] if stages else None,
        causes=causes,
        attribution=told_attribution(one.alert for one in members),
        confirmed_cause=confirmed(incident_id, entries),
        members=members,
        notes=notes,
        timeline=timeline(alerts, _tellings(session, alerts), notes, entries),
    )


def members_of(session: Session, incident_ids: Sequence[int]) -> dict[int, list[Alert]]:
    """The alerts that are still kept, by incident."""
    query = select(IncidentAlertRow.incident_id, AlertRow).join(
        AlertRow, col(AlertRow.id) == col(IncidentAlertRow.alert_id)
    )
    found: dict[int, list[Alert]] = {number: [] for number in incident_ids}
    for number, row in session.exec(query.where(col(IncidentAlertRow.incident_id).in_(incident_ids))):
        found[number].append(alert_view(row))
    return found


def signs_of(session: Session, incident_ids: Sequence[int]) -> dict[int, list[Sign]]:
    """Of the alerts that are still kept what tells their cause, by incident."""
    row = AlertRow
    told = (row.id, row.fingerprint, row.source, row.rule, row.severity, row.summary)
    columns = map(col, (*told, row.started_at, row.resolved_at, row.labels, row.diagnosis))
    query = sql_select(col(IncidentAlertRow.incident_id), *columns).join(
        IncidentAlertRow, col(row.id) == col(IncidentAlertRow.alert_id)
    )
    found: dict[int, list[Sign]] = {number: [] for number in incident_ids}
    for number, *values in session.execute(query.where(col(IncidentAlertRow.incident_id).in_(incident_ids))):
        found[number].append(sign_told(Told(*values[: len(told)]), *values[len(told) :]))
    return found


def incident_of(session: Session, alert_id: int) -> int | None:
    """The incident that an alert is of; None until it has fired."""
    row = session.get(IncidentAlertRow, alert_id)
    return None if row is None else row.incident_id


def locked(session: Session, incident_id: int) -> None:
    """Nobody else changes it before the transaction has ended. Raises `NotFound`."""
    _existing(session, incident_id, lock=True)


def _existing(session: Session, incident_id: int, *, lock: bool = False) -> IncidentRow:
    return existing(session, IncidentRow, incident_id, "incident", field="incident_id", lock=lock)


def _tallies(session: Session, incident_ids: Sequence[int], now: datetime) -> dict[int, Tally]:
    """By incident. Where nothing holds alerts back they are counted by the database: an incident may have thousands."""
    held = holding_now(session, now)
    if held:
        members = members_of(session, incident_ids)
        return {number: _tally([seen_at(alert, held, now) for alert in members[number]]) for number in incident_ids}
    number, source, state = col(IncidentAlertRow.incident_id), col(AlertRow.source), col(AlertRow.state)
    query = sql_select(number, source, state, func.count()).join(
        AlertRow, col(AlertRow.id) == IncidentAlertRow.alert_id
    )
    counts: dict[int, Counter[tuple[str, bool]]] = {one: Counter() for one in incident_ids}
    for one, name, now_is, count in session.execute(
        query.where(number.in_(incident_ids)).group_by(number, source, state)
    ):
        counts[one][name, now_is == AlertState.FIRING.value] += count
    return {one: _counted(found) for one, found in counts.items()}


def _counted(found: Counter[tuple[str, bool]]) -> Tally:
    """found: how many there are, by source and whether they fire."""
    firing = sum(count for (_, fires), count in found.items() if fires)
    return Tally(found.total(), firing, sources=_in_order(source for source, _ in found))


def _tally(alerts: Sequence[Alert]) -> Tally:
    firing = [alert for alert in alerts if alert.state is AlertState.FIRING]
    return Tally(
        len(alerts), len(firing), sum(alert.silenced for alert in firing), _in_order(one.source for one in alerts)
    )


def _in_order(sources: Iterable[str]) -> tuple[str, ...]:
    """Each once, ours first."""
    return tuple(sorted(set(sources), key=lambda source: (source != OURS, source)))


def _members(session: Session, incident_id: int, now: datetime) -> list[IncidentAlert]:
    """Its alerts as they are shown at `now`: silenced where something holds their news back."""
    held = holding_now(session, now)
    query = select(IncidentAlertRow, AlertRow).join(AlertRow, col(AlertRow.id) == col(IncidentAlertRow.alert_id))
    return [
        IncidentAlert(alert=seen_at(alert_view(row), held, now), joined_at=link.joined_at, why=link.why)
        for link, row in session.exec(query.where(IncidentAlertRow.incident_id == incident_id))
    ]


def _notes(session: Session, incident_id: int) -> list[IncidentNote]:
    query = select(IncidentNoteRow).where(IncidentNoteRow.incident_id == incident_id)
    return [note_view(row) for row in session.exec(query.order_by(col(IncidentNoteRow.id)))]


def _tellings(session: Session, alerts: Sequence[Alert]) -> list[Telling]:
    """What was told, and what could not be told."""
    names = {row.id: row.name for row in session.exec(select(DestinationRow))}
    query = select(DeliveryRow).where(col(DeliveryRow.alert_id).in_([alert.id for alert in alerts]))
    found = []
    for row in session.exec(query.where(DeliveryRow.state != DeliveryState.WAITING.value)):
        receiver = names.get(row.destination_id, f"destination {row.destination_id}, since removed,")
        error = None if row.state == DeliveryState.DELIVERED.value else row.last_error or "no answer"
        found.append(Telling(row.delivered_at or row.created_at, row.alert_id, receiver, row.status, error))
    return found


def _entries(session: Session, incident_id: int, alerts: Sequence[Alert]) -> list[LedgerEntry]:
    """Of the incident, of those merged into it, and of the rollouts and studies that have to do with it."""
    merged = session.exec(select(IncidentRow.id).where(IncidentRow.merged_into == incident_id))
    subjects = {f"incident/{number}" for number in (incident_id, *merged)}
    for alert in alerts:
        causes = [] if alert.diagnosis is None else alert.diagnosis.causes[:1]
        rollouts = [step.rollout_id for step in alert.remedies] + [cause.get("rollout_id") for cause in causes]
        studies = [step.study_id for step in alert.remedies]
        subjects |= {f"rollout/{number}" for number in rollouts if number is not None}
        subjects |= {f"study/{number}" for number in studies if number is not None}
    query = select(LedgerRow).where(col(LedgerRow.subject).in_(sorted(subjects))).order_by(col(LedgerRow.id))
    return [LedgerEntry.model_validate(row, from_attributes=True) for row in session.exec(query.limit(MOST_ENTRIES))]


# -- what people do ----------------------------------------------------------------------------------------------------


def acknowledge(session: Session, incident_id: int, *, actor: str, now: datetime, comment: str = "") -> bool:
    """Somebody looks at it: the first who says so stays named. False where somebody did already."""
    row = _existing(session, incident_id, lock=True)
    after = machine.after(IncidentState(row.state), Signal.ACKNOWLEDGE)
    if comment:
        add_note(session, incident_id, comment, actor=actor, now=now)
    if row.acknowledged_at is not None:
        return False
    row.state, row.acknowledged_at, row.acknowledged_by = after.value, now, str(actor)
    session.add(row)
    _tell(session, now, actor, "acknowledged", incident_id, f"{actor} looks at it")
    return True


def add_note(
    session: Session, incident_id: int, text: str, *, actor: str, now: datetime, key: str | None = None
) -> IncidentNote:
    """A second time with the same key, the note that is there."""
    _existing(session, incident_id, lock=True)
    if key is not None:
        same = select(IncidentNoteRow).where(IncidentNoteRow.incident_id == incident_id, IncidentNoteRow.key == key)
        if (old := session.exec(same).first()) is not None:
            if old.text != text:
                raise Conflict("Idempotency-Key: was used for another note", field="Idempotency-Key")
            return note_view(old)
    row = IncidentNoteRow(incident_id=incident_id, time=now, author=str(actor), text=text, key=key)
    session.add(row)
    session.flush()
    _tell(session, now, actor, "noted", incident_id, f"note {row.id}", note=text)
    return note_view(row)


def merge(session: Session, into: int, other: int, *, actor: str, now: datetime) -> None:
    """`into` takes the other's alerts and notes. A second time: nothing more happens."""
    if into == other:
        raise BadRequest(f"incident_id: incident {into} cannot be merged into itself", field="incident_id")
    rows = {number: _existing(session, number, lock=True) for number in sorted((into, other))}
    taker, given = rows[into], rows[other]
    if given.merged_into == into:
        return
    if taker.state not in OPEN_STATES:
        raise Conflict(f"incident {into} is {taker.state}; merge into one that is open", field="incident_id")
    given.state = machine.after(IncidentState(given.state), Signal.MERGE).value
    given.merged_into, given.resolved_at, given.resolved_by = into, given.resolved_at or now, str(actor)
    session.add(given)
    why = f"incident {other} was merged into this one by {actor}"
    session.execute(
        update(IncidentAlertRow).where(col(IncidentAlertRow.incident_id) == other).values(incident_id=into, why=why)
    )
    session.execute(update(IncidentNoteRow).where(col(IncidentNoteRow.incident_id) == other).values(incident_id=into))
    session.execute(update(IncidentRow).where(col(IncidentRow.merged_into) == other).values(merged_into=into))
    restate(session, taker, now)
    _tell(session, now, actor, "merged", into, f"incident {other} was taken in", other=other)
    _tell(session, now, actor, "merged", other, f"it went into incident {into}", other=into)


def split(session: Session, incident_id: int, wanted: IncidentSplit, *, actor: str, now: datetime) -> int:
    """The number of the incident that has these alerts now. A second time: the same one."""
    row = _existing(session, incident_id, lock=True)
    asked = sorted(set(wanted.alert_ids))
    links = {link.alert_id: link for link in session.exec(_links(asked))}
    missing = [number for number in asked if number not in links]
    homes = {link.incident_id for link in links.values()}
    if not missing and len(homes) == 1 and (home := homes.pop()) != incident_id and _was_split(session, home, row):
        return home
    strange = [number for number in asked if number in missing or links[number].incident_id != incident_id]
    if strange:
        raise BadRequest(f"alert_ids: alert {strange[0]} is not of incident {incident_id}", field="alert_ids")
    left = set(session.exec(select(IncidentAlertRow.alert_id).where(IncidentAlertRow.incident_id == incident_id)))
    if not left - set(asked):
        raise BadRequest("alert_ids: leave the incident one alert at least", field="alert_ids")
    if row.state not in OPEN_STATES:
        raise Conflict(f"incident {incident_id} is {row.state}; split one that is open", field="incident_id")
    made = IncidentRow(
        **row.model_dump(exclude={"id", "reopened", "state", "acknowledged_at", "acknowledged_by", "opened_at"}),
        state=IncidentState.OPEN.value,
        opened_at=now,
    )
    session.add(made)
    session.flush()
    assert made.id is not None
    why = f"it was split off incident {incident_id} by {actor}" + (f": {wanted.reason}" if wanted.reason else "")
    session.execute(
        update(IncidentAlertRow).where(col(IncidentAlertRow.alert_id).in_(asked)).values(incident_id=made.id, why=why)
    )
    for one in (row, made):
        restate(session, one, now)
    words = ", ".join(str(number) for number in asked)
    reason = {"reason": wanted.reason} if wanted.reason else {}
    _tell(session, now, actor, "split", incident_id, f"alerts {words} became incident {made.id}", **reason)
    _tell(session, now, actor, "split", made.id, f"it was split off incident {incident_id}", source=incident_id)
    return made.id


def resolve(session: Session, incident_id: int, reason: str, *, actor: str, now: datetime) -> None:
    """Close it, whatever its alerts do. One that is over already stays as it was."""
    row = _existing(session, incident_id, lock=True)
    after = machine.after(IncidentState(row.state), Signal.CLOSE)
    if row.state != after.value:
        end(session, row, actor=actor, now=now, reason=reason)


def _links(alert_ids: Sequence[int]) -> SelectOfScalar[IncidentAlertRow]:
    return select(IncidentAlertRow).where(col(IncidentAlertRow.alert_id).in_(alert_ids))


def _was_split(session: Session, home: int, row: IncidentRow) -> bool:
    """Whether that incident was split off this one."""
    told = select(LedgerRow).where(LedgerRow.subject == f"incident/{home}", LedgerRow.kind == "incident.split")
    return any(entry.evidence.get("source") == row.id for entry in session.exec(told))


# -- what the service does ---------------------------------------------------------------------------------------------


def open_incident(session: Session, alert: Alert, route: Route | None, key: dict[str, str], now: datetime) -> int:
    """A new incident of this alert."""
    row = IncidentRow(
        state=IncidentState.OPEN.value,
        severity=alert.severity.value,
        title=alert.summary,
        pool=alert.labels.get("pool", ""),
        owner=None if route is None else route.owner,
        route=None if route is None else route.name,
        route_id=None if route is None else route.id,
        group_key=key,
        onset_at=alert.started_at,
        opened_at=now,
    )
    session.add(row)
    session.flush()
    assert row.id is not None
    session.add(IncidentAlertRow(alert_id=alert.id, incident_id=row.id, joined_at=now, why="it is the first"))
    _tell(session, now, ledger.SERVICE, "opened", row.id, alert.summary, alert=alert.id, owner=row.owner)
    return row.id


def join(session: Session, incident_id: int, alert: Alert, why: str, now: datetime) -> None:
    """One more alert of it. One that was resolved is open again."""
    row = _existing(session, incident_id, lock=True)
    after = machine.after(IncidentState(row.state), Signal.FIRE)
    session.add(IncidentAlertRow(alert_id=alert.id, incident_id=incident_id, joined_at=now, why=why))
    _tell(session, now, ledger.SERVICE, "joined", incident_id, f"alert {alert.id}, {alert.rule}: {why}")
    if row.resolved_at is not None:
        row.resolved_at = row.resolved_by = row.acknowledged_at = row.acknowledged_by = None
        row.reopened += 1
        _tell(session, now, ledger.SERVICE, "reopened", incident_id, f"alert {alert.id} fired again")
    row.state, row.quiet_since = after.value, None
    session.add(row)


def restate(session: Session, row: IncidentRow, now: datetime, signs: Sequence[Sign] | None = None) -> None:
    """What its alerts make of it: severity, title, onset, and since when it is quiet. Of alerts that are no longer kept
    it says what it said."""
    assert row.id is not None
    session.flush()
    signs = signs_of(session, [row.id])[row.id] if signs is None else signs
    row.sqlmodel_update(restated(row, signs, now))
    session.add(row)


def restated(row: IncidentRow, signs: Sequence[Sign], now: datetime) -> dict[str, Any]:
    """The columns that its alerts decide, as they make them now."""
    if not signs:
        return {"quiet_since": row.quiet_since or now}
    firing = [sign for sign in signs if sign.ended is None]
    lead = leading(firing or signs)
    ends = [sign.ended for sign in signs if sign.ended is not None]
    return {
        "severity": worst(sign.severity for sign in signs).value,
        "title": lead.title,
        "pool": lead.pool,
        "onset_at": min(sign.started for sign in signs),
        "quiet_since": machine.quiet_from(len(firing), ends, row.quiet_since),
    }


def end(session: Session, row: IncidentRow, *, actor: str, now: datetime, reason: str) -> None:
    assert row.id is not None
    signal = Signal.SETTLE if actor == ledger.SERVICE else Signal.CLOSE
    row.state = machine.after(IncidentState(row.state), signal).value
    row.resolved_at, row.resolved_by = now, str(actor)
    session.add(row)
    _tell(session, now, actor, "resolved", row.id, f"resolved: {reason}")


def forget(session: Session, before: datetime) -> int:
    """Remove what ended before then, with its notes; how many. The ledger keeps what it says of them."""
    over = select(IncidentRow.id).where(
        col(IncidentRow.state).not_in(OPEN_STATES), col(IncidentRow.resolved_at) < before
    )
    found = list(session.exec(over.limit(500)))
    session.execute(delete(IncidentAlertRow).where(col(IncidentAlertRow.incident_id).in_(found)))
    session.execute(delete(IncidentNoteRow).where(col(IncidentNoteRow.incident_id).in_(found)))
    session.execute(delete(IncidentRow).where(col(IncidentRow.id).in_(found)))
    return len(found)


def not_taken_in(session: Session, now: datetime, within: timedelta) -> list[Alert]:
    """Alerts that have fired and are of no incident yet, in the order in which they fired."""
    taken = select(IncidentAlertRow.alert_id)
    query = select(AlertRow).where(
        col(AlertRow.fired_at).is_not(None),
        col(AlertRow.id).not_in(taken),
        (col(AlertRow.state) == AlertState.FIRING.value) | (col(AlertRow.fired_at) >= now - within),
    )
    return [alert_view(row) for row in session.exec(query.order_by(col(AlertRow.fired_at), col(AlertRow.id)))]


def _tell(
    session: Session, now: datetime, actor: str, deed: str, incident_id: int, message: str, **evidence: object
) -> None:
    ledger.append(session, now, actor, f"incident.{deed}", f"incident/{incident_id}", message, **evidence)


# -- routes ------------------------------------------------------------------------------------------------------------


def routes(session: Session, *, before_id: int | None = None, limit: int = 1_000) -> list[Route]:
    """Newest first."""
    return [route_view(row) for row in session.exec(newest(RouteRow, before_id, limit))]


def create_route(
    session: Session, wanted: RouteCreate, *, actor: str, now: datetime, origin: str | None = None
) -> Route:
    """origin: the file that makes it."""
    row = RouteRow(**_route_fields(wanted), created_at=now, origin=origin)
    session.add(row)
    session.flush()
    said = wanted.model_dump(mode="json")
    ledger.append(session, now, actor, "route.created", f"route/{row.id}", f"route {row.name!r}", route=said)
    return route_view(row)


def update_route(
    session: Session, route_id: int, wanted: RouteCreate, *, actor: str, now: datetime, origin: str | None = None
) -> Route:
    """Replace a route; incidents that are open keep their owner."""
    row = existing(session, RouteRow, route_id, "route", field="route_id", lock=True)
    row.sqlmodel_update({**_route_fields(wanted), "origin": moved(row.origin, origin)})
    session.add(row)
    said = wanted.model_dump(mode="json")
    ledger.append(session, now, actor, "route.updated", f"route/{row.id}", f"route {row.name!r} changed", route=said)
    return route_view(row)


def _route_fields(wanted: RouteCreate) -> dict[str, Any]:
    return wanted.model_dump(include=set(RouteCreate.model_fields))


def delete_route(session: Session, route_id: int, *, actor: str, now: datetime) -> None:
    row = existing(session, RouteRow, route_id, "route", field="route_id")
    session.delete(row)
    ledger.append(session, now, actor, "route.deleted", f"route/{route_id}", f"route {row.name!r} deleted")
