"""Whether the rule's study starts for a cause (pure).

One study of a pool at a time, and for the same cause (pool, stage, revision in production, kind) none within the rule's
cooldown unless the regression is clearly worse. A study that searches from a revision that has gone since is ended in
favour of one from what is in production, if the service began it.
"""

from datetime import datetime, timedelta

from controlplane.app.remedies.cause import Cause, slowdown
from controlplane.app.remedies.choice import Choice, CreateStudy
from controlplane.app.remedies.standing import Deed, Standing
from controlplane.contract.bodies.alerts import Alert, Remedy
from controlplane.contract.bodies.remedies import RemedyAction, RemedyState, RemedyStep

CLEARLY_WORSE = 1.5
"""A regression so many times as far above its threshold as the one before is not the same again."""


def study_for(
    alert: Alert, remedy: Remedy, cause: Cause, seen: Standing, now: datetime, *, start: int | None, after: str = ""
) -> Choice | None:
    """The choice, or None where the rule has no study. `start`: the revision from which it would search; `after`: what
    it waits for, in words."""
    spec = remedy.study
    if spec is None:
        return None
    searches = "" if start is None else f" from revision {start}"
    active, instead_of = seen.study, None
    why = f"{cause.message}; a study looks for a better configuration{searches}{after}"
    if active is not None:
        outdated = seen.study_revision is not None and start is not None and seen.study_revision != start
        its = f"study {active.id} of pool {spec.pool} is {active.state.value}"
        if not outdated:
            return _declined(cause, now, f"{its}{searches} and serves this alert too", study_id=active.id)
        gone = f"{its} from revision {seen.study_revision}, which is not in production any more"
        if active.alert_id is None:
            return _declined(cause, now, f"{gone}; {active.created_by} began it: cancel it to let another start")
        instead_of, why = active.id, f"{why}; {gone}, so it is ended"
    last = _last(seen, alert, cause)
    if last is not None and not _clearly_worse(alert, last):
        until = last.time + timedelta(seconds=remedy.cooldown_s)
        earlier = f"study {last.study_id} was started for the same cause at {last.time:%H:%M:%S} UTC"
        return _declined(cause, now, f"{earlier}; the cooldown is {remedy.cooldown_s:g} s", until=until)
    wanted = spec.model_copy(update={"reason": spec.reason or f"alert {alert.id}: {alert.summary}"})
    return Choice(_step(cause, now, RemedyState.STARTED, why), CreateStudy(wanted, instead_of))


def offered(cause: Cause, now: datetime, start: int | None) -> Choice:
    """The study that comes after a take-back which itself waits for a person."""
    why = f"a study comes after the take-back, from revision {start}: POST /api/v1/studies once that has ended"
    return Choice(_step(cause, now, RemedyState.OFFERED, why))


def _last(seen: Standing, alert: Alert, cause: Cause) -> Deed | None:
    """The newest study that was started for the same cause within the cooldown."""
    stage = (alert.diagnosis.stage if alert.diagnosis is not None else None) or ""
    wanted = (seen.pool, stage, seen.revision, cause.kind)
    same = (deed for deed in seen.deeds if (deed.pool, deed.stage, deed.revision, deed.cause) == wanted)
    return max(same, key=lambda deed: deed.time, default=None)


def _clearly_worse(alert: Alert, last: Deed) -> bool:
    now = slowdown(alert)
    return now is not None and last.slowdown is not None and now >= CLEARLY_WORSE * last.slowdown


def _declined(
    cause: Cause, now: datetime, why: str, *, until: datetime | None = None, study_id: int | None = None
) -> Choice:
    step = _step(cause, now, RemedyState.DECLINED, why)
    return Choice(step.model_copy(update={"until": until, "study_id": study_id}))


def _step(cause: Cause, now: datetime, state: RemedyState, why: str) -> RemedyStep:
    return RemedyStep(time=now, action=RemedyAction.STUDY, state=state, cause=cause.kind, why=why)
