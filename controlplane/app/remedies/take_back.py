"""Whether a revision that is the cause is taken back, and how (pure).

A take-back is a rollout like any other, with a canary and a judge, of the whole revision that was in production before
the rollout that brought the bad one. None is made of a revision that is not in production, beside another rollout, or
back to what a take-back has just removed.
"""

import json
import shlex
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from controlplane.app.remedies.cause import Cause
from controlplane.app.remedies.choice import Choice, CreateRollout, StartRollout
from controlplane.app.remedies.standing import Standing
from controlplane.contract.bodies.alerts import Alert, AlertRule, Remedy, StageShift
from controlplane.contract.bodies.remedies import HOW, RemedyAction, RemedyPolicy, RemedyState, RemedyStep
from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.metrics import BY_SHORT, DECODE, PREFILL, TTFT, MetricKind
from controlplane.rollouts.store import Outline

SURE_SCORE = 0.9
"""By itself only a change close to the onset is taken back; one that lies further back waits for a person."""
JUDGED_WELL = (Verdict.BETTER, Verdict.NOT_WORSE)
LONGEST_REASON = 500
SERVICE = (PREFILL.short, DECODE.short)
"""Stages in which an engine works on the request itself."""
WAITS = "saturation"
"""The kind of alert that is about waiting, which users feel before their first token."""
GREW = 1.25
"""A stage got slower when its mean is so many times what it was."""


class Study(Enum):
    """What becomes of the rule's study beside the take-back."""

    AFTER = auto()  # It follows, from the revision that is put back.
    LATER = auto()  # It is for people to start, once the take-back has been started and has ended.
    INSTEAD = auto()  # There is no way back: a better configuration is all that is left.
    NONE = auto()  # The cause is being dealt with, or has gone.


@dataclass(frozen=True)
class TakeBack:
    choice: Choice
    study: Study
    back_to: int | None = None


def take_back(alert: Alert, rule: AlertRule, cause: Cause, seen: Standing, now: datetime) -> TakeBack:
    """The choice for a cause that is a revision."""
    assert cause.revision is not None
    reason, study, rollout_id = _hindrance(cause.revision, seen)
    if reason is not None:
        return _declined(cause, now, reason, study, seen, rollout_id=rollout_id)
    assert seen.brought_by is not None and seen.brought_by.previous_revision is not None
    back_to = seen.brought_by.previous_revision
    waits = _waits_for_a_person(cause, seen.brought_by)
    spec = _spec(alert, rule, cause, seen.pool, back_to, start=waits is None)
    why = f"{cause.message}; revision {back_to} was in production before"
    if waits is not None:
        why += f"; {waits}, so a person decides"
    step = RemedyStep(
        time=now,
        action=RemedyAction.ROLL_BACK,
        state=RemedyState.STARTED if spec.start else RemedyState.OFFERED,
        cause=cause.kind,
        why=why,
        revision=cause.revision,
        back_to=back_to,
    )
    if rule.remedy is None:
        offered = step.model_copy(update={"why": f"{why}{HOW}{command(spec)}"})
        return TakeBack(Choice(offered), Study.LATER, back_to)
    earlier = next(iter(seen.take_backs), None)
    if earlier is not None and earlier.phase is RolloutPhase.PROPOSED:
        linked = step.model_copy(update={"rollout_id": earlier.id})
        if spec.start:
            return TakeBack(Choice(linked, StartRollout(earlier.id)), Study.AFTER, back_to)
        return TakeBack(Choice(linked), Study.LATER, back_to)
    refused = _refused(earlier, rule.remedy, now)
    if refused is not None:
        until, reason, study = refused
        return _declined(cause, now, reason, study, seen, until=until)
    return TakeBack(Choice(step, CreateRollout(spec)), Study.AFTER if spec.start else Study.LATER, back_to)


def command(spec: RolloutCreate) -> str:
    """How a person starts this rollout, in a shell and over HTTP."""
    words = ["tailwright", "rollout", "start", "--pool", spec.pool, "--revision", str(spec.revision)]
    words += ["--takes-back", str(spec.takes_back)]
    body: dict[str, Any] = {"pool": spec.pool, "revision": spec.revision, "takes_back": spec.takes_back}
    if "metrics" in spec.model_fields_set:
        words += ["--metrics", ",".join(spec.metrics)]
        body["metrics"] = spec.metrics
    words += ["--reason", spec.reason.partition(":")[0]]
    return f"{shlex.join(words)} (POST /api/v1/rollouts {json.dumps(body, ensure_ascii=False)})"


def _waits_for_a_person(cause: Cause, brought: Outline) -> str | None:
    """Why this revision is not taken back automatically, whatever the policy."""
    if cause.score < SURE_SCORE:
        return "the change lies further back than the onset"
    if brought.spec.study_id is not None and brought.spec.study_step is None and brought.verdict in JUDGED_WELL:
        # What a study gives up for its objective was given up on purpose.
        return f"it won study {brought.spec.study_id} and was judged {brought.verdict.value.replace('_', ' ')}"
    return None


def _spec(alert: Alert, rule: AlertRule, cause: Cause, pool: str, back_to: int, *, start: bool) -> RolloutCreate:
    remedy = rule.remedy or Remedy()
    reason = f"alert {alert.id} ({rule.name}): takes back revision {cause.revision}: {cause.message}"
    fixed = {
        "pool": pool,
        "revision": back_to,
        "takes_back": cause.revision,
        "reason": reason[:LONGEST_REASON],
        "start": start and remedy.policy is RemedyPolicy.AUTOMATIC,
    }
    return RolloutCreate.model_validate({**_judged_by(alert), **remedy.rollout, **fixed})


def _judged_by(alert: Alert) -> dict[str, Any]:
    """By what the alert is about alone: a bad revision may be good for something else (a budget of few tokens makes
    steps short), and that is no reason to keep it. Of its stages those that got slower and are no waiting count, too:
    where requests queue, waiting scatters so much that the judge takes long to tell what the service shows at once."""
    metric = TTFT if alert.labels.get("kind") == WAITS else BY_SHORT.get(alert.labels.get("metric", ""))
    if metric is None or metric.kind is not MetricKind.HISTOGRAM:
        return {}
    shifts = [] if alert.diagnosis is None else alert.diagnosis.stages
    served = [
        shift.stage for shift in shifts if shift.stage in SERVICE and shift.stage != metric.short and _grew(shift)
    ]
    return {"metrics": [metric.short, *served]}


def _grew(shift: StageShift) -> bool:
    before, during = shift.before_mean_s, shift.during_mean_s
    return before is not None and during is not None and during >= GREW * before > 0


def _hindrance(revision: int, seen: Standing) -> tuple[str | None, Study, int | None]:
    """Why the revision cannot be taken back now, if so; what that means for a study; and the rollout that is at it."""
    running, brought = seen.under_way, seen.brought_by
    if running is not None:
        return _beside(revision, running)
    if seen.revision != revision:
        runs = "no revision yet" if seen.revision is None else f"revision {seen.revision}"
        return f"pool {seen.pool} runs {runs}, not revision {revision}: nothing to take back", Study.NONE, None
    if brought is None or brought.previous_revision is None:
        return f"nothing was in production in pool {seen.pool} before revision {revision}", Study.INSTEAD, None
    if brought.spec.takes_back is not None and brought.spec.takes_back == brought.previous_revision:
        why = (
            f"rollout {brought.id} brought revision {revision} to take back revision {brought.previous_revision}: "
            "going back again would bring that one"
        )
        return why, Study.INSTEAD, None
    return None, Study.NONE, None


def _beside(revision: int, running: Outline) -> tuple[str, Study, int | None]:
    """Beside a rollout that is under way no other can begin."""
    name = f"rollout {running.id}"
    if running.spec.takes_back == revision:
        return f"{name} takes revision {revision} back already", Study.AFTER, running.id
    if running.spec.revision != revision:
        why = f"{name} of revision {running.spec.revision} is under way in the pool"
    elif running.phase in (RolloutPhase.CANARY, RolloutPhase.JUDGING):
        why = f"revision {revision} is a canary under judgement: the judge of {name} decides"
    elif running.phase is RolloutPhase.ROLLING_BACK:
        why = f"{name} is being rolled back already"
    else:
        stop = f"tailwright rollout cancel {running.id}"
        why = f"{name} is still giving revision {revision} to the pool; to stop it: {stop}"
    return why, Study.NONE, None


def _refused(earlier: Outline | None, remedy: Remedy, now: datetime) -> tuple[datetime, str, Study] | None:
    """A take-back of this very stay of the revision that ended without success is not tried again at once."""
    if earlier is None or earlier.ended_at is None or earlier.phase is RolloutPhase.PROMOTED:
        return None
    until = earlier.ended_at + timedelta(seconds=remedy.cooldown_s)
    if now >= until:
        return None
    study = Study.NONE if earlier.phase is RolloutPhase.CANCELLED else Study.INSTEAD
    return until, f"take-back rollout {earlier.id} ended {earlier.phase.value.replace('_', ' ')}", study


def _declined(
    cause: Cause,
    now: datetime,
    why: str,
    study: Study,
    seen: Standing,
    *,
    until: datetime | None = None,
    rollout_id: int | None = None,
) -> TakeBack:
    back_to = None if seen.brought_by is None else seen.brought_by.previous_revision
    step = RemedyStep(
        time=now,
        action=RemedyAction.ROLL_BACK,
        state=RemedyState.DECLINED,
        cause=cause.kind,
        why=why,
        until=until,
        revision=cause.revision,
        rollout_id=rollout_id,
    )
    return TakeBack(Choice(step), study, back_to)
