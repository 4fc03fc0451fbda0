"""Verdicts over HTTP: of our rollouts, and of canaries that Argo Rollouts, Flagger or a pipeline runs."""

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends

from controlplane.auth import HookReader, Reader
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.changes.verdicts import VerdictAnswer, VerdictAsked
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import Conflict, NotFound, Overloaded
from controlplane.db import SessionDep
from controlplane.db.ids import PathId
from controlplane.rollouts import store
from controlplane.rollouts.verdicts.flagger_hook import asked_by, is_yes, read_hook
from controlplane.rollouts.verdicts.replayed_judge import verdict_on
from controlplane.rollouts.verdicts.verdict_answer import of_rollout
from controlplane.telemetry import TelemetryReader

router = APIRouter(prefix="/api/v1", tags=["verdicts"])

PATIENCE_S = 8.0
"""How long a question waits for those before it: Argo and Flagger wait ten seconds for an answer."""

MOST_ASKING = 5
"""The one that is answered and those that wait: each holds one of the service's threads."""


@dataclass(frozen=True)
class VerdictDesk:
    """Where verdicts on arms are asked for: one at a time, so that askers cost the service a bounded part."""

    telemetry: TelemetryReader
    _taken: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _asking: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(MOST_ASKING))

    def verdict(self, asked: VerdictAsked, now: datetime) -> VerdictAnswer:
        """Raises `BadRequest` for what cannot be asked, `Overloaded` where others take too long."""
        if not self._asking.acquire(blocking=False):
            raise _busy()
        try:
            if not self._taken.acquire(timeout=PATIENCE_S):
                raise _busy()
            try:
                return verdict_on(self.telemetry, asked, now)
            finally:
                self._taken.release()
        finally:
            self._asking.release()


def _busy() -> Overloaded:
    return Overloaded("other verdicts are being computed; ask again soon", retry_after_s=PATIENCE_S)


@dataclass(frozen=True, kw_only=True)
class VerdictParts(AuthParts):
    """What these routes are served with."""

    verdicts: VerdictDesk


Verdicts = Annotated[VerdictParts, Depends(VerdictParts.given)]


@router.get("/verdicts/{rollout_id}")
def read_verdict(rollout_id: PathId, session: SessionDep, _: Reader) -> VerdictAnswer:
    """The verdict of a rollout: pass, fail or inconclusive, with the ratio, its interval, counts and strata."""
    return of_rollout(store.get(session, rollout_id))


@router.post("/verdicts", responses=answers(Overloaded))
def ask_verdict(wanted: VerdictAsked, _: Reader, service: Verdicts) -> VerdictAnswer:
    """Judge two arms that somebody else runs, by the judge of our rollouts; nothing is kept. It may be asked as often
    as one likes: `alpha` holds over all looks at one canary."""
    return service.verdicts.verdict(wanted, service.clock())


@router.post("/verdicts:flagger", responses=answers(Conflict, NotFound, Overloaded))
def answer_flagger(body: dict[str, Any], session: SessionDep, _: HookReader, service: Verdicts) -> VerdictAnswer:
    """Flagger's webhook: 200 for yes, 409 for no, as `metadata.yes_when` says: `pass` (confirm-promotion), `not_fail`
    (rollout, confirm-traffic-increase; the default) or `fail` (rollback). The token may be the password of the
    webhook's address, for Flagger sends no header of its own."""
    hook = read_hook(body)
    yes_when, rollout = hook.yes_when, hook.rollout
    if rollout is not None:
        found = of_rollout(store.get(session, rollout))
    else:
        found = service.verdicts.verdict(asked_by(hook), service.clock())
    if not is_yes(yes_when, found.verdict):
        raise Conflict(
            f"{hook.name}: {found.verdict.value}, where yes is {yes_when}: {'; '.join(found.says)}",
            verdict=found.model_dump(mode="json"),
        )
    return found
