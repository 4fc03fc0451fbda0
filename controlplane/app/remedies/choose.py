"""The remedy that fits the cause (pure): a change of configuration is taken back, load wants admission limits or
capacity, a disturbed node is drained, what others did is theirs to take back, and what is left is a matter of tuning.

Guarantee: what stands on the alert already is not chosen again.
"""

from collections.abc import Sequence
from datetime import datetime

from controlplane.app.remedies.cause import Cause
from controlplane.app.remedies.choice import Choice
from controlplane.app.remedies.standing import Standing
from controlplane.app.remedies.take_back import Study, take_back
from controlplane.app.remedies.tuning import offered, study_for
from controlplane.contract.bodies.alerts import Alert, AlertRule
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.bodies.remedies import RemedyAction, RemedyState, RemedyStep


def choose(alert: Alert, rule: AlertRule, cause: Cause, seen: Standing, now: datetime) -> list[Choice]:
    """What is new to be done, in order; empty where there is nothing, or nothing new."""
    if cause.kind == CauseKind.CONFIG_CHANGE and cause.revision is not None:
        chosen = _configuration(alert, rule, cause, seen, now)
    elif cause.kind in (CauseKind.LOAD, CauseKind.TENANT_MIX):
        chosen = [Choice(_admission(cause, now))]
    elif cause.kind in (CauseKind.HOST, CauseKind.ONE_NODE) and cause.node is not None:
        chosen = [Choice(_drain(cause, now))]
    elif cause.kind == CauseKind.CHANGE_EVENT:
        chosen = []
    else:
        chosen = _study(alert, rule, cause, seen, now)
    return [choice for choice in chosen if is_news(choice, alert.remedies)]


def is_news(choice: Choice, steps: Sequence[RemedyStep]) -> bool:
    """False where the newest step of the same action says the same, or is of the very rollout or study.

    Of two declined steps the reason counts too: another reason is news.
    """
    last = next((step for step in reversed(steps) if step.action is choice.step.action), None)
    if last is None:
        return True
    same = _what(choice.step) == _what(last)
    known = {last.rollout_id, last.study_id} - {None} & {choice.step.rollout_id, choice.step.study_id}
    return not same and (choice.deed is not None or not known)


def _what(step: RemedyStep) -> tuple[object, ...]:
    why = step.why if step.state is RemedyState.DECLINED else None
    return (step.state, step.cause, step.revision, step.back_to, step.node, step.rollout_id, step.study_id, why)


def _configuration(alert: Alert, rule: AlertRule, cause: Cause, seen: Standing, now: datetime) -> list[Choice]:
    first = take_back(alert, rule, cause, seen, now)
    if rule.remedy is None or rule.remedy.study is None or first.study is Study.NONE:
        return [first.choice]
    if first.study is Study.INSTEAD:
        return [first.choice, *_study(alert, rule, cause, seen, now)]
    if first.study is Study.LATER:
        return [first.choice, offered(cause, now, first.back_to)]
    waits = ", once the take-back has ended and the pool is back"
    study = study_for(alert, rule.remedy, cause, seen, now, start=first.back_to, after=waits)
    assert study is not None
    return [first.choice, Choice(study.step, study.deed, after_the_last=True)]


def _study(alert: Alert, rule: AlertRule, cause: Cause, seen: Standing, now: datetime) -> list[Choice]:
    if rule.remedy is None:
        return []
    study = study_for(alert, rule.remedy, cause, seen, now, start=seen.revision)
    return [] if study is None else [study]


def _admission(cause: Cause, now: datetime) -> RemedyStep:
    why = (
        f"{cause.message}: let in less (admission limits, a queue that sheds) or add nodes; tuning creates no capacity"
    )
    return RemedyStep(time=now, action=RemedyAction.ADMISSION, state=RemedyState.OFFERED, cause=cause.kind, why=why)


def _drain(cause: Cause, now: datetime) -> RemedyStep:
    why = f"{cause.message}: take node {cause.node} out of the traffic until it is quiet; no configuration mends a host"
    return RemedyStep(
        time=now, action=RemedyAction.DRAIN, state=RemedyState.OFFERED, cause=cause.kind, why=why, node=cause.node
    )
