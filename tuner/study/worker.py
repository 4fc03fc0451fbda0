"""The worker's loop: claim a study, run it, say what came of it, claim the next.

Guarantee: while a study runs its lease is renewed by a thread of its own; a study that was cancelled or given to
another worker stops at once; whatever goes wrong with a study ends that study with its reason, never the loop.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import httpx

from controlplane.client import Client
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.bodies.studies import (
    Study,
    StudyFinish,
    StudyHeartbeat,
    StudyResult,
    StudyVerdict,
    TrialReport,
)
from controlplane.contract.clock import Clock, utc_now
from controlplane.contract.engine_address import Network
from controlplane.contract.errors import Conflict, NotFound, TailwrightError
from tuner.replay.replay import Stopped
from tuner.study.study_run import Hooks, StudyRun

logger = logging.getLogger(__name__)
HEARTBEAT_S = 3.0
IDLE_S = 2.0
SETTLE = timedelta(seconds=2)
"""The newest requests may still be on their way from agents to the service."""


class Lease:
    """A running study's hold: renews itself until closed, and sets `lost` when it is not this worker's any more."""

    def __init__(self, client: Client, study: Study, worker: str, *, every_s: float = HEARTBEAT_S) -> None:
        self.lost = threading.Event()
        self.ended_by_service = False
        self._client, self._study_id, self._worker, self._every_s = client, study.id, worker, every_s
        self._beat = StudyHeartbeat(worker=worker)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._renew, name=f"lease-{study.id}", daemon=True)

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._wake.set()
        self._thread.join(10)

    def say(self, **news: Any) -> None:
        """Progress, trial node or workload summary, sent with the next renewal, which is now."""
        with self._lock:
            self._beat = self._beat.model_copy(update=news)
        self._wake.set()

    def _renew(self) -> None:
        while not self._closing and not self.lost.is_set():
            with self._lock:
                beat = self._beat
            try:
                self._client.heartbeat_study(self._study_id, beat)
            except (Conflict, NotFound) as error:
                logger.info("study %d is no longer ours: %s", self._study_id, error.message)
                self.ended_by_service = True
                self.lost.set()
            except (TailwrightError, httpx.HTTPError) as error:
                logger.warning("study %d: no heartbeat: %r", self._study_id, error)
            if self._wake.wait(self._every_s):
                self._wake.clear()


class Worker:
    """Runs studies one after another until `stop` is set."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        clock: Clock = utc_now,
        heartbeat_s: float = HEARTBEAT_S,
        stop: threading.Event | None = None,
        networks: Sequence[Network] = (),
    ) -> None:
        """`networks`: where engines may be; empty: anywhere that one may (`engine_address`)."""
        self.stop = stop or threading.Event()
        self._client, self._name, self._clock = client, name, clock
        self._heartbeat_s, self._networks = heartbeat_s, networks

    def loop(self, idle_s: float = IDLE_S) -> None:
        """Claim and run until stopped. Failing to reach the service is logged and tried again."""
        while not self.stop.is_set():
            busy = False
            try:
                busy = self.once()
            except (TailwrightError, httpx.HTTPError) as error:
                logger.warning("cannot claim a study: %r", error)
            if not busy:
                self.stop.wait(idle_s)

    def once(self) -> bool:
        """One study, if one is queued; says whether there was one."""
        study = self._client.claim_study(self._name)
        if study is None:
            return False
        logger.info("study %d of pool %s: claimed", study.id, study.spec.pool)
        with Lease(self._client, study, self._name, every_s=self._heartbeat_s) as lease:
            outcome = self._outcome(study, lease)
        if outcome is not None and not lease.ended_by_service:
            self._finish(study, outcome)
        return True

    def _outcome(self, study: Study, lease: Lease) -> StudyFinish | None:
        """Run the study; None when it was stopped from outside."""
        hooks = Hooks(
            progress=lambda text: lease.say(progress=text),
            trial=lambda report: self._report(study, lease, report),
            started=lambda node, summary: lease.say(trial_node=node, workload_summary=summary),
            stop=_either(lease.lost, self.stop),
            networks=self._networks,
        )
        try:
            result = StudyRun(self._client, study, hooks).run(self._clock() - SETTLE)
            rollout_id = self._propose(study, result)
            return StudyFinish(worker=self._name, result=result, rollout_id=rollout_id)
        except Stopped:
            logger.info("study %d: stopped", study.id)
            return None
        except TailwrightError as error:
            logger.warning("study %d failed: %s", study.id, error.message)
            return StudyFinish(worker=self._name, error=error.message)
        except Exception as error:
            logger.exception("study %d failed", study.id)
            return StudyFinish(worker=self._name, error=f"{type(error).__name__}: {error}")

    def _report(self, study: Study, lease: Lease, report: TrialReport) -> None:
        try:
            self._retry(lambda: self._client.report_trial(study.id, self._name, report))
        except Conflict as error:
            lease.ended_by_service = True
            lease.lost.set()
            raise Stopped(error.message) from error

    def _propose(self, study: Study, result: StudyResult) -> int | None:
        """A better winner becomes a revision and a proposed rollout. Without one, nothing happens."""
        spec = study.spec
        if result.verdict is not StudyVerdict.BETTER or not spec.propose_rollout or result.winner is None:
            return None
        moved = self._moved(study)
        if moved:
            result.summary += f" {moved}"
        note = f"winner of study {study.id}"
        revision = self._client.create_config(RevisionCreate(knobs=result.winner, note=note))
        wanted: dict[str, Any] = {
            "start": spec.auto_start_rollout and not moved,
            "reason": f"study {study.id}: {result.summary}"[:500],
            # What the study has optimised and held to is what its winner is judged by.
            "objective": spec.objective,
            "objective_q": spec.objective_q,
            "limits": [limit.model_dump() for limit in spec.constraints],
            **spec.rollout,
            "pool": spec.pool,
            "revision": revision.number,
            "study_id": study.id,
        }
        try:
            return self._client.create_rollout(RolloutCreate.model_validate(wanted)).id
        except Conflict as error:
            # The pool is busy with another rollout: the result still counts, the proposal is left to people.
            logger.warning("study %d: no rollout proposed: %s", study.id, error.message)
            result.summary += f" No rollout was proposed: {error.message}"
            return None

    def _moved(self, study: Study) -> str:
        """What to say when the pool runs another revision than the one the winner was measured against; else empty."""
        now = self._client.study(study.id).pool_revision
        if now == study.default_revision:
            return ""
        return (
            f"This was measured against revision {study.default_revision}; the pool runs revision {now} by now, so the "
            "rollout waits for a person, and its canary is judged against what runs."
        )

    def _finish(self, study: Study, outcome: StudyFinish) -> None:
        with contextlib.suppress(Conflict):
            self._retry(lambda: self._client.finish_study(study.id, outcome))
        logger.info("study %d: %s", study.id, outcome.error or (outcome.result and outcome.result.summary))

    def _retry(self, act: Callable[[], object], tries: int = 5) -> None:
        """Carry out `act`; a service that cannot be reached is tried again, since a report made twice counts once."""
        for attempt in range(tries):
            try:
                act()
                return
            except (httpx.TransportError, TailwrightError) as error:
                lasting = isinstance(error, TailwrightError) and error.status < 500 and error.status != 429
                if lasting or attempt == tries - 1:
                    raise
                self.stop.wait(0.5 * 2**attempt)


class _Either(threading.Event):
    """Set when it, or any of `others`, is set."""

    def __init__(self, *others: threading.Event) -> None:
        super().__init__()
        self._others = others

    def is_set(self) -> bool:
        return super().is_set() or any(other.is_set() for other in self._others)

    def wait(self, timeout: float | None = None) -> bool:
        left = float("inf") if timeout is None else timeout
        while not self.is_set() and left > 0:
            super().wait(min(0.1, left))
            left -= 0.1
        return self.is_set()


def _either(*events: threading.Event) -> threading.Event:
    return _Either(*events)
