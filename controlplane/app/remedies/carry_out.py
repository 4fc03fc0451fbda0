"""Does what was chosen for an alert, and writes down each step in the ledger, inside the caller's transaction.

Guarantee: a deed that is refused (by another rollout, by a bound that has changed) leaves nothing behind and becomes a
declined step; the alert goes out all the same.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlmodel import Session

from controlplane import ledger
from controlplane.app.pool_limits import pool_limits
from controlplane.app.remedies.cause import slowdown
from controlplane.app.remedies.choice import Choice, CreateRollout, CreateStudy, StartRollout
from controlplane.app.remedies.standing import DECLINED, OFFERED, STARTED, Standing
from controlplane.contract.bodies.alerts import Alert, AlertRule
from controlplane.contract.bodies.remedies import RemedyState, RemedyStep
from controlplane.contract.errors import TailwrightError
from controlplane.rollouts import store as rollouts
from controlplane.rollouts.judging.judging_plan import with_limits
from controlplane.studies import store as studies
from controlplane.studies.checks import check_study

KINDS = {RemedyState.STARTED: STARTED, RemedyState.OFFERED: OFFERED, RemedyState.DECLINED: DECLINED}


def carry_out(
    session: Session, alert: Alert, rule: AlertRule, seen: Standing, choices: Sequence[Choice], now: datetime
) -> list[RemedyStep]:
    """The steps as they stand now, in the order of the choices."""
    steps: list[RemedyStep] = []
    for choice in choices:
        if choice.after_the_last and steps and _failed(steps[-1], choices[len(steps) - 1]):
            why = "it comes after the take-back, which could not be started"
            step = choice.step.model_copy(update={"state": RemedyState.DECLINED, "why": why})
        else:
            step = _done(session, alert, choice, now)
        steps.append(step)
        _record(session, alert, rule, seen, step, now)
    return steps


def _failed(step: RemedyStep, choice: Choice) -> bool:
    return step.state is RemedyState.DECLINED and choice.step.state is not RemedyState.DECLINED


def _done(session: Session, alert: Alert, choice: Choice, now: datetime) -> RemedyStep:
    """The step with what its deed has made."""
    step = choice.step
    try:
        with session.begin_nested():
            match choice.deed:
                case CreateRollout(spec):
                    judged = with_limits(spec, pool_limits(session, spec.pool))
                    made = rollouts.create(session, judged, actor=ledger.SERVICE, now=now)
                    step = step.model_copy(update={"rollout_id": made.id})
                case StartRollout(rollout_id):
                    rollouts.start(session, rollout_id, actor=ledger.SERVICE, now=now)
                case CreateStudy(spec, instead_of):
                    check_study(session, spec)
                    if instead_of is not None:
                        studies.cancel(session, instead_of, actor=ledger.SERVICE, now=now)
                    study = studies.create(session, spec, actor=ledger.SERVICE, now=now, alert_id=alert.id)
                    step = step.model_copy(update={"study_id": study.id})
    except TailwrightError as error:
        return choice.step.model_copy(update={"state": RemedyState.DECLINED, "why": f"{step.why}; {error.message}"})
    if step.state is RemedyState.OFFERED and step.rollout_id is not None:
        begin = (
            f"to begin it: tailwright rollout start {step.rollout_id} (POST /api/v1/rollouts/{step.rollout_id}/start)"
        )
        step = step.model_copy(update={"why": f"{step.why}; {begin}"})
    return step


def _record(session: Session, alert: Alert, rule: AlertRule, seen: Standing, step: RemedyStep, now: datetime) -> None:
    ledger.append(
        session,
        now=now,
        actor=ledger.SERVICE,
        kind=KINDS[step.state],
        subject=f"alert-rule/{rule.id}",
        message=f"alert {alert.id} ({rule.name}): {step.title}: {step.why}",
        alert=alert.id,
        pool=seen.pool,
        stage=None if alert.diagnosis is None else alert.diagnosis.stage,
        in_production=seen.revision,
        slowdown=slowdown(alert),
        **step.model_dump(mode="json", exclude={"time"}),
    )
