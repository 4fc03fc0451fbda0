"""What the service starts by itself when an alert rule with a remedy fires: a tuning study for the pool.

Guarantee: one study at a time for a pool, and none within the rule's cooldown; the deed and its ledger entry are in the
transaction of the alert itself.
"""

from datetime import datetime, timedelta

from sqlmodel import Session

from controlplane import ledger
from controlplane.contract.alerts import Alert, AlertRule, Remedy
from controlplane.contract.errors import BadRequest, TrimtabError
from controlplane.contract.remedies import RemedyAction, RemedyState, RemedyStep
from controlplane.fleet import registry
from controlplane.studies import store as studies
from controlplane.studies.validation import check_spec, check_study

ACTOR = "trimtab"
STARTED = "alert.remedy_started"
DECLINED = "alert.remedy_declined"


def check_remedy(remedy: Remedy) -> None:
    """Raises `BadRequest` for a study that could never be started. Its pool's nodes may come later."""
    try:
        check_spec(remedy.study)
    except BadRequest as error:
        place = "remedy.study."
        raise type(error)(place + error.message, field=place + error.detail["field"]) from None


def choose_remedy(session: Session, alert: Alert, rule: AlertRule, now: datetime) -> list[RemedyStep]:
    """What is done about an alert that fires or has got worse: the rule's study, once."""
    if rule.remedy is None or alert.study_id is not None:
        return []
    study_id = start_remedy(session, alert, rule, now)
    if study_id is None:
        return []
    why = f"rule {rule.name!r} asks for it"
    cause = str(alert.diagnosis.causes[0]["cause"]) if alert.diagnosis and alert.diagnosis.causes else "unknown"
    step = RemedyStep(
        time=now, action=RemedyAction.STUDY, state=RemedyState.STARTED, cause=cause, why=why, study_id=study_id
    )
    return [step]


def start_remedy(session: Session, alert: Alert, rule: AlertRule, now: datetime) -> int | None:
    """Create the rule's study for this alert; returns its id, or None when there is nothing to start."""
    if rule.remedy is None:
        return None
    spec = rule.remedy.study
    reason = _reason_to_wait(session, rule, now)
    if reason is None:
        try:
            check_study(spec, registry.nodes(session, pool=spec.pool))
        except TrimtabError as error:
            # The rule was made under other bounds: the alert itself must still go out.
            reason = f"its study is not valid: {error.message}"
    if reason is not None:
        _record(session, now, DECLINED, rule, alert, f"alert {alert.id}: no study started, {reason}")
        return None
    spec = spec.model_copy(update={"reason": spec.reason or f"alert {alert.id}: {alert.summary}"})
    study = studies.create(session, spec, actor=ACTOR, now=now, alert_id=alert.id)
    message = f"alert {alert.id} ({rule.name}) started study {study.id} for pool {spec.pool}"
    _record(session, now, STARTED, rule, alert, message, study=study.id)
    return study.id


def _reason_to_wait(session: Session, rule: AlertRule, now: datetime) -> str | None:
    assert rule.remedy is not None
    active = studies.active(session, rule.remedy.study.pool)
    if active is not None:
        return f"study {active.id} of the pool is {active.state.value}"
    last = ledger.entries(session, before_id=None, limit=1, kind=STARTED, subject=f"alert-rule/{rule.id}")
    cooldown = timedelta(seconds=rule.remedy.cooldown_s)
    if last and now - last[0].time < cooldown:
        return f"the last was started at {last[0].time.isoformat()}, the cooldown is {rule.remedy.cooldown_s:g} s"
    return None


def _record(
    session: Session, now: datetime, kind: str, rule: AlertRule, alert: Alert, message: str, **evidence: int
) -> None:
    ledger.append(
        session,
        now=now,
        actor=ACTOR,
        kind=kind,
        subject=f"alert-rule/{rule.id}",
        message=message,
        alert=alert.id,
        **evidence,
    )
