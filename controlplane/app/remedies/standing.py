"""What stands when a remedy is to be chosen: the pool's revision, rollout and study, and what was started before.

Reads only, in the transaction in which the alert fires, which others wait for: a thousand nodes may fire at once, so
nothing is read that grows with the pool, and its rollouts only where the cause or a study asks for them. For many
alerts of a pool what they share is read once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlmodel import Session

from controlplane import ledger
from controlplane.app.remedies.cause import Cause
from controlplane.contract.bodies.alerts import Alert, Remedy
from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.contract.bodies.studies import Study, StudyState
from controlplane.fleet import store as fleet
from controlplane.rollouts import store as rollouts
from controlplane.rollouts.store import Outline
from controlplane.studies import store as studies

STARTED = "alert.remedy_started"
OFFERED = "alert.remedy_offered"
DECLINED = "alert.remedy_declined"

FURTHEST_BACK = 200
"""Of a pool's rollouts, and of remedies started, so many of the newest are looked at."""


@dataclass(frozen=True)
class Deed:
    """A study that a remedy started. `slowdown`: of what it answered, the observed quantile over its threshold."""

    time: datetime
    pool: str
    stage: str
    revision: int | None
    cause: str
    slowdown: float | None = None
    study_id: int | None = None


@dataclass(frozen=True)
class Standing:
    """`brought_by` is the rollout that brought the revision that is the cause; `take_backs` those that were to undo it
    since, the newest first; `study_revision` what was in production when the pool's study began."""

    pool: str
    revision: int | None = None
    under_way: Outline | None = None
    brought_by: Outline | None = None
    take_backs: tuple[Outline, ...] = ()
    study: Study | None = None
    study_revision: int | None = None
    deeds: tuple[Deed, ...] = ()


class Standings:
    """What stands at one moment, as one transaction sees it: as long as nothing is written, nothing is read twice."""

    def __init__(self, session: Session, now: datetime) -> None:
        self._session = session
        self._now = now
        self._pools: dict[str, _Pool] = {}
        self._rollouts: dict[str, Sequence[Outline]] = {}
        self._studies: dict[str, Study | None] = {}
        self._deeds: Sequence[Deed] | None = None

    def of(self, alert: Alert, remedy: Remedy | None, cause: Cause) -> Standing:
        """What stands in the pool of the alert, and of its rule's study where that names another."""
        wanted = None if remedy is None else remedy.study
        name = alert.labels.get("pool") or ("" if wanted is None else wanted.pool)
        pool = self._pool(name)
        brought = None if cause.revision is None else brought_by(self._newest(name), cause)
        study = None if wanted is None else self._study(wanted.pool)
        begun = study.started_at if study is not None and study.state is StudyState.RUNNING else None
        return Standing(
            pool=name,
            revision=pool.revision,
            under_way=pool.under_way,
            brought_by=brought,
            take_backs=() if brought is None else tuple(_take_backs(self._newest(name), brought)),
            study=study,
            study_revision=None if begun is None else revision_at(self._newest(name), begun, pool.revision),
            deeds=() if remedy is None else self._deeds_within(remedy.cooldown_s),
        )

    def _pool(self, name: str) -> "_Pool":
        if name not in self._pools:
            running = rollouts.outlines(self._session, name, limit=1, under_way=True)
            self._pools[name] = _Pool(fleet.pool_revision(self._session, name), next(iter(running), None))
        return self._pools[name]

    def _newest(self, pool: str) -> Sequence[Outline]:
        """The pool's rollouts, the newest first."""
        if pool not in self._rollouts:
            self._rollouts[pool] = rollouts.outlines(self._session, pool, limit=FURTHEST_BACK)
        return self._rollouts[pool]

    def _study(self, pool: str) -> Study | None:
        if pool not in self._studies:
            self._studies[pool] = studies.active(self._session, pool)
        return self._studies[pool]

    def _deeds_within(self, seconds: float) -> tuple[Deed, ...]:
        if self._deeds is None:
            self._deeds = _deeds(self._session)
        since = self._now - timedelta(seconds=seconds)
        return tuple(deed for deed in self._deeds if deed.time > since)


@dataclass(frozen=True)
class _Pool:
    revision: int | None
    under_way: Outline | None


def brought_by(newest: Sequence[Outline], cause: Cause) -> Outline | None:
    """The rollout that the diagnosis names, else the newest of the cause's revision that has begun."""
    if cause.revision is None:
        return None
    ours = [one for one in newest if one.spec.revision == cause.revision and one.started_at is not None]
    named = next((one for one in ours if one.id == cause.rollout_id), None)
    return named or next(iter(ours), None)


def revision_at(newest: Sequence[Outline], moment: datetime, current: int | None) -> int | None:
    """What was in production at a moment, by the pool's rollouts (newest first) and what is in production now."""
    found = current
    for rollout in newest:
        since = _in_force_since(rollout)
        if since is None:
            continue
        if since <= moment:
            return rollout.spec.revision
        found = rollout.previous_revision
    return found


def _in_force_since(rollout: Outline) -> datetime | None:
    """An emergency changes the pool's revision as it begins, a judged rollout as it ends."""
    if rollout.spec.emergency and rollout.phase in (RolloutPhase.PROMOTING, RolloutPhase.PROMOTED):
        return rollout.started_at
    return rollout.ended_at if rollout.phase is RolloutPhase.PROMOTED else None


def _take_backs(newest: Sequence[Outline], brought: Outline) -> list[Outline]:
    return [one for one in newest if one.spec.takes_back == brought.spec.revision and one.id > brought.id]


def _deeds(session: Session) -> list[Deed]:
    entries = ledger.entries(session, before_id=None, limit=FURTHEST_BACK, kind=STARTED)
    return [
        Deed(
            time=entry.time,
            pool=str(entry.evidence.get("pool", "")),
            stage=str(entry.evidence.get("stage") or ""),
            revision=entry.evidence.get("in_production"),
            cause=str(entry.evidence.get("cause", "")),
            slowdown=entry.evidence.get("slowdown"),
            study_id=entry.evidence.get("study_id"),
        )
        for entry in entries
        if entry.evidence.get("study_id") is not None
    ]
