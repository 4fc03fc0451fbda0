"""What stands when a remedy is to be chosen: the pool's revision, rollout and study, and what was started before.

Reads only, in the transaction in which the alert fires. For many alerts of a pool what they share is read once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlmodel import Session

from controlplane import ledger
from controlplane.app.remedies.cause import Cause
from controlplane.contract.bodies.alerts import Alert, Remedy
from controlplane.contract.bodies.rollouts import Rollout, RolloutPhase
from controlplane.contract.bodies.studies import Study, StudyState
from controlplane.fleet import store as fleet
from controlplane.rollouts import store as rollouts
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
    under_way: Rollout | None = None
    brought_by: Rollout | None = None
    take_backs: tuple[Rollout, ...] = ()
    study: Study | None = None
    study_revision: int | None = None
    deeds: tuple[Deed, ...] = ()


class Standings:
    """What stands at one moment, as one transaction sees it: as long as nothing is written, nothing is read twice."""

    def __init__(self, session: Session, now: datetime) -> None:
        self._session = session
        self._now = now
        self._pools: dict[str, _Pool] = {}
        self._studies: dict[str, Study | None] = {}
        self._deeds: Sequence[Deed] | None = None

    def of(self, alert: Alert, remedy: Remedy | None, cause: Cause) -> Standing:
        """What stands in the pool of the alert, and of its rule's study where that names another."""
        wanted = None if remedy is None else remedy.study
        name = alert.labels.get("pool") or ("" if wanted is None else wanted.pool)
        pool = self._pool(name)
        brought = brought_by(pool.newest, cause)
        study = None if wanted is None else self._study(wanted.pool)
        begun = study.started_at if study is not None and study.state is StudyState.RUNNING else None
        since = self._now - timedelta(seconds=0.0 if remedy is None else remedy.cooldown_s)
        return Standing(
            pool=name,
            revision=pool.revision,
            under_way=pool.under_way,
            brought_by=brought,
            take_backs=() if brought is None else tuple(_take_backs(pool.newest, brought)),
            study=study,
            study_revision=None if begun is None else revision_at(pool.newest, begun, pool.revision),
            deeds=tuple(deed for deed in self._all_deeds() if deed.time > since),
        )

    def _pool(self, name: str) -> "_Pool":
        if name not in self._pools:
            self._pools[name] = _Pool(
                fleet.pool_revision(self._session, name),
                rollouts.active(self._session, name),
                rollouts.listing(self._session, before_id=None, limit=FURTHEST_BACK, pool=name),
            )
        return self._pools[name]

    def _study(self, pool: str) -> Study | None:
        if pool not in self._studies:
            self._studies[pool] = studies.active(self._session, pool)
        return self._studies[pool]

    def _all_deeds(self) -> Sequence[Deed]:
        if self._deeds is None:
            self._deeds = _deeds(self._session)
        return self._deeds


@dataclass(frozen=True)
class _Pool:
    """`newest`: its rollouts, the newest first."""

    revision: int | None
    under_way: Rollout | None
    newest: Sequence[Rollout]


def brought_by(newest: Sequence[Rollout], cause: Cause) -> Rollout | None:
    """The rollout that the diagnosis names, else the newest of the cause's revision that has begun."""
    if cause.revision is None:
        return None
    ours = [one for one in newest if one.spec.revision == cause.revision and one.started_at is not None]
    named = next((one for one in ours if one.id == cause.rollout_id), None)
    return named or next(iter(ours), None)


def revision_at(newest: Sequence[Rollout], moment: datetime, current: int | None) -> int | None:
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


def _in_force_since(rollout: Rollout) -> datetime | None:
    """An emergency changes the pool's revision as it begins, a judged rollout as it ends."""
    if rollout.spec.emergency and rollout.phase in (RolloutPhase.PROMOTING, RolloutPhase.PROMOTED):
        return rollout.started_at
    return rollout.ended_at if rollout.phase is RolloutPhase.PROMOTED else None


def _take_backs(newest: Sequence[Rollout], brought: Rollout) -> list[Rollout]:
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
