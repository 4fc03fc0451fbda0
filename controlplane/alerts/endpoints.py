"""Alert rules, alerts, destinations, deliveries and silences over HTTP."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from controlplane.alerts import store
from controlplane.alerts.channels.payload import labels_of
from controlplane.alerts.checks import (
    check_destination,
    check_inhibit_rule,
    check_rule,
    check_silence,
    check_silenced,
    check_templates,
)
from controlplane.alerts.dry_run.dry_run_desk import DryRunDesk
from controlplane.alerts.lives.preview import previewed
from controlplane.alerts.lives.tried_destination import try_destination
from controlplane.alerts.matching.label_match import matches
from controlplane.alerts.notify.attempts import Attempts
from controlplane.alerts.rules import inhibit_rows
from controlplane.alerts.rules.inhibition import holding_now
from controlplane.alerts.rules.silence import seen_at
from controlplane.alerts.symptoms.runbooks import symptom_view
from controlplane.alerts.symptoms.symptom_catalogue import catalogue
from controlplane.auth import Admin, Operator, Reader
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.bodies.alerts import (
    Alert,
    AlertRule,
    AlertRuleCreate,
    AlertState,
    DryRun,
    DryRunCreate,
    InhibitRule,
    InhibitRuleCreate,
    Remedy,
    Silence,
    SilenceCreate,
    Silenced,
    SymptomList,
)
from controlplane.contract.bodies.pages import Page
from controlplane.contract.channels.destinations import (
    DeadLettersReplay,
    DeadLettersReplayed,
    Delivery,
    DeliveryState,
    Destination,
    DestinationCreate,
    DestinationPreview,
    DestinationPreviewed,
    DestinationReplace,
)
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import NotFound, Overloaded
from controlplane.db import SessionDep
from controlplane.db.ids import PathId, QueryId
from controlplane.db.paging import Cursor, Limit, page_of
from controlplane.outgoing import AddressPolicy

router = APIRouter(prefix="/api/v1", tags=["alerts"])

CALLBACKS_PER_MINUTE = 120
"""Of one address: acknowledgements that come by callback."""


@dataclass(frozen=True, kw_only=True)
class AlertParts(AuthParts):
    """What these routes are served with.

    public_url: the base of links that go out. check_remedy: raises `BadRequest`; studies lie beside alerts. outgoing:
    where webhooks may be sent.
    """

    public_url: str
    outgoing: AddressPolicy
    callback_attempts: Attempts = field(default_factory=lambda: Attempts(CALLBACKS_PER_MINUTE))
    check_remedy: Callable[[Remedy], None]
    dry_runs: DryRunDesk


Alerts = Annotated[AlertParts, Depends(AlertParts.given)]


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
    return store.create_rule(session, wanted, service.clock(), actor=principal.actor)


@router.put("/alert-rules/{rule_id}")
def update_rule(
    rule_id: PathId, wanted: AlertRuleCreate, session: SessionDep, principal: Operator, service: Alerts
) -> AlertRule:
    """Replace a rule. A changed condition or pool forgets the evidence gathered and ends the rule's open alerts."""
    _check(service, wanted)
    return store.update_rule(session, rule_id, wanted, service.clock(), service.public_url, actor=principal.actor)


@router.delete("/alert-rules/{rule_id}", status_code=204)
def delete_rule(rule_id: PathId, session: SessionDep, principal: Operator, service: Alerts) -> None:
    """Remove a rule; its open alerts are resolved."""
    store.delete_rule(session, rule_id, service.clock(), service.public_url, actor=principal.actor)


@router.post("/alert-rules:dry-run", responses=answers(Overloaded))
def dry_run_rule(wanted: DryRunCreate, _: Operator, service: Alerts) -> DryRun:
    """When a rule would have fired over the past, by its own judges on what telemetry keeps of it; nothing is kept."""
    _check(service, wanted.rule)
    return service.dry_runs.run(wanted, service.clock())


@router.get("/symptoms")
def list_symptoms(_: Reader) -> SymptomList:
    """The catalogue of symptoms: what rules of the kind `symptom` can watch for, and the runbook of each."""
    return SymptomList(items=[symptom_view(one) for one in catalogue().values()])


# -- alerts ------------------------------------------------------------------------------------------------------------


@router.get("/alerts")
def list_alerts(
    session: SessionDep,
    _: Reader,
    service: Alerts,
    limit: Limit = 100,
    cursor: Cursor = None,
    state: Annotated[AlertState | None, Query(description="only alerts in this state")] = None,
) -> Page[Alert]:
    """Alerts, newest first."""
    found = store.alerts(session, before_id=cursor, limit=limit + 1, state=state)
    now = service.clock()
    silences = holding_now(session, now)
    return page_of([seen_at(one, silences, now) for one in found], limit)


@router.get("/alerts/{alert_id}")
def get_alert(alert_id: PathId, session: SessionDep, _: Reader, service: Alerts) -> Alert:
    """One alert with its evidence, its diagnosis, and what was done about it."""
    now = service.clock()
    return seen_at(store.alert(session, alert_id), holding_now(session, now), now)


# -- destinations and deliveries ---------------------------------------------------------------------------------------


@router.get("/destinations")
def list_destinations(
    session: SessionDep, _: Reader, service: Alerts, limit: Limit = 100, cursor: Cursor = None
) -> Page[Destination]:
    """Destinations with how they do, newest first. Of a URL scheme and host are shown, of a secret nothing."""
    return page_of(store.destinations(session, before_id=cursor, limit=limit + 1, now=service.clock()), limit)


@router.post("/destinations", status_code=201)
def create_destination(
    wanted: DestinationCreate, session: SessionDep, principal: Admin, service: Alerts
) -> Destination:
    """Make a destination that every alert which fires or resolves is told to. `kind` says what is there."""
    check_destination(wanted)
    return store.create_destination(session, wanted, service.keyring, actor=principal.actor, now=service.clock())


@router.put("/destinations/{destination_id}", responses=answers(NotFound))
def replace_destination(
    destination_id: PathId, wanted: DestinationReplace, session: SessionDep, principal: Admin, service: Alerts
) -> Destination:
    """Change a destination; what is secret is given anew, or kept as it is there. What waits for it goes to its new
    place, and is given up where that is of another kind."""
    whole = store.whole_destination(session, destination_id, wanted, service.keyring)
    check_destination(whole)
    return store.update_destination(
        session, destination_id, whole, service.keyring, actor=principal.actor, now=service.clock()
    )


@router.post("/destinations:preview", responses=answers(NotFound))
def preview_destination(
    wanted: DestinationPreview, session: SessionDep, _: Reader, service: Alerts
) -> DestinationPreviewed:
    """What a destination would be told with these templates, of an alert or of a made-up one. Nothing is sent."""
    check_templates(wanted)
    alert = None if wanted.alert_id is None else store.alert(session, wanted.alert_id)
    return previewed(wanted, alert, service.clock(), service.public_url)


@router.delete("/destinations/{destination_id}", status_code=204)
def delete_destination(destination_id: PathId, session: SessionDep, principal: Admin, service: Alerts) -> None:
    """Remove a destination; what still waits for it is given up."""
    store.delete_destination(session, destination_id, actor=principal.actor, now=service.clock())


@router.post("/destinations/{destination_id}/test")
def test_destination(destination_id: PathId, principal: Admin, service: Alerts) -> Delivery:
    """Send a test alert now, once, and say what came of it. The answer's ids are 0: nothing is kept."""
    return try_destination(
        service.database,
        service.keyring,
        destination_id,
        service.clock,
        service.public_url,
        service.outgoing,
        actor=principal.actor,
    )


@router.post("/destinations/{destination_id}/dead-letters:replay")
def replay_dead_letters(
    destination_id: PathId, wanted: DeadLettersReplay, session: SessionDep, principal: Operator, service: Alerts
) -> DeadLettersReplayed:
    """Send what was given up once more, as it was written then; it is tried for a day again."""
    return store.replay_dead(session, destination_id, wanted.ids, actor=principal.actor, now=service.clock())


@router.get("/deliveries")
def list_deliveries(
    session: SessionDep,
    _: Reader,
    limit: Limit = 100,
    cursor: Cursor = None,
    alert_id: QueryId = None,
    destination_id: QueryId = None,
    state: Annotated[DeliveryState | None, Query(description="only deliveries in this state")] = None,
) -> Page[Delivery]:
    """Deliveries, newest first; the dead letters are those with state `given_up`."""
    found = store.deliveries(
        session, before_id=cursor, limit=limit + 1, alert_id=alert_id, destination_id=destination_id, state=state
    )
    return page_of(found, limit)


# -- silences ----------------------------------------------------------------------------------------------------------


@router.get("/silences")
def list_silences(session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None) -> Page[Silence]:
    """Silences, newest first, the ended ones too."""
    return page_of(store.silences(session, before_id=cursor, limit=limit + 1), limit)


@router.post("/silences", status_code=201)
def create_silence(wanted: SilenceCreate, session: SessionDep, principal: Operator, service: Alerts) -> Silence:
    """Hold back alerts that have all of these labels (also `rule` and `severity`). What has fired stays told."""
    now = service.clock()
    check_silence(wanted, now)
    return store.create_silence(session, wanted, actor=principal.actor, now=now)


@router.post("/silences:preview")
def preview_silence(wanted: Silenced, session: SessionDep, _: Reader) -> Page[Alert]:
    """The open alerts that a silence of these labels would hold back; nothing is made."""
    check_silenced(wanted)
    held = [alert for alert in store.open_alerts(session) if matches(wanted, labels_of(alert))]
    return Page(items=held)


@router.delete("/silences/{silence_id}", status_code=204)
def end_silence(silence_id: PathId, session: SessionDep, principal: Operator, service: Alerts) -> None:
    """End a silence early. Alerts it held back that still fire are delivered then."""
    store.end_silence(session, silence_id, actor=principal.actor, now=service.clock())


# -- inhibit rules -----------------------------------------------------------------------------------------------------


@router.get("/inhibit-rules")
def list_inhibit_rules(session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None) -> Page[InhibitRule]:
    """Inhibit rules, newest first."""
    return page_of(inhibit_rows.inhibit_rules(session, before_id=cursor, limit=limit + 1), limit)


@router.post("/inhibit-rules", status_code=201)
def create_inhibit_rule(
    wanted: InhibitRuleCreate, session: SessionDep, principal: Operator, service: Alerts
) -> InhibitRule:
    """Hold back alerts of `target` while one of `source` fires and both agree in the labels `equal`. What is held back
    stands in the list as silenced, and is delivered when its source has ended. No two hold each other back."""
    check_inhibit_rule(wanted)
    return inhibit_rows.create_inhibit_rule(session, wanted, actor=principal.actor, now=service.clock())


@router.put("/inhibit-rules/{rule_id}")
def update_inhibit_rule(
    rule_id: PathId, wanted: InhibitRuleCreate, session: SessionDep, principal: Operator, service: Alerts
) -> InhibitRule:
    """Replace an inhibit rule. Alerts that the old one held back, that still fire, are delivered then."""
    check_inhibit_rule(wanted)
    return inhibit_rows.update_inhibit_rule(session, rule_id, wanted, actor=principal.actor, now=service.clock())


@router.delete("/inhibit-rules/{rule_id}", status_code=204)
def delete_inhibit_rule(rule_id: PathId, session: SessionDep, principal: Operator, service: Alerts) -> None:
    """Remove an inhibit rule. Alerts it held back that still fire are delivered then."""
    inhibit_rows.delete_inhibit_rule(session, rule_id, actor=principal.actor, now=service.clock())
