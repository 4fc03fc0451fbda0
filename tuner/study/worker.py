"""The worker's loop: claim a study, run it, say what came of it, claim the next; without one help with another's.

Guarantee: while a study runs its lease is renewed by a thread of its own; a study that was cancelled or given to
another worker stops at once; whatever goes wrong with a study ends that study with its reason, never the loop; what
goes wrong with the help for one ends the help.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Sequence
from typing import Any

import httpx

from controlplane.client import Client
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.knob_schema import OF_LIMITS
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.bodies.studies import (
    Study,
    StudyCreate,
    StudyFinish,
    StudyResult,
    StudyState,
    StudyVerdict,
)
from controlplane.contract.engine_address import Network
from controlplane.contract.errors import Conflict, TailwrightError
from tuner.evaluation.evaluation_command import Evaluations
from tuner.replay.replay import Stopped
from tuner.study.renewals import HEARTBEAT_S, Lease, either, tried_again
from tuner.study.study_run import Hooks, StudyRun

logger = logging.getLogger(__name__)
IDLE_S = 2.0


class Worker:
    """Runs studies one after another until `stop` is set."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        heartbeat_s: float = HEARTBEAT_S,
        stop: threading.Event | None = None,
        networks: Sequence[Network] = (),
        storage: str | None = None,
        evaluations: Evaluations | None = None,
    ) -> None:
        """`networks`: where engines may be; empty: anywhere that one may (`engine_address`). `storage`: Optuna's.
        `evaluations`: commands that a study may name."""
        self.stop = stop or threading.Event()
        self._client, self._name = client, name
        self._heartbeat_s, self._networks, self._storage = heartbeat_s, networks, storage
        self._evaluations = evaluations or Evaluations()
        self._helped: set[int] = set()  # Their searches want no more.

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
        """One study, if one is queued, or help with one that runs; says whether there was something to do."""
        study = self._client.claim_study(self._name, list(self._evaluations.commands))
        if study is None:
            return self._help()
        logger.info("study %d of pool %s: claimed", study.id, study.spec.pool)
        with Lease(self._client, study, self._name, every_s=self._heartbeat_s) as lease:
            outcome = self._outcome(study, lease)
        if outcome is not None and not lease.ended_by_service:
            self._finish(study, outcome)
        return True

    def _outcome(self, study: Study, lease: Lease) -> StudyFinish | None:
        """Run the study; None when it was stopped from outside."""
        hooks = Hooks(
            worker=self._name,
            progress=lambda text: lease.say(progress=text),
            started=lambda node, summary: lease.say(trial_node=node, workload_summary=summary),
            stop=either(lease.lost, self.stop),
            networks=self._networks,
            storage=self._storage,
            heartbeat_s=self._heartbeat_s,
            evaluations=self._evaluations,
        )
        try:
            result = StudyRun(self._client, study, hooks).run()
            rollout_id = self._propose(study, result)
            return StudyFinish(worker=self._name, result=result, rollout_id=rollout_id)
        except Stopped as error:
            logger.info("study %d: %s", study.id, error)
            with contextlib.suppress(TailwrightError, httpx.HTTPError):  # Cancelled, or given to another, by then.
                lease.say(progress=str(error))
                lease.renew()
            return None
        except TailwrightError as error:
            logger.warning("study %d failed: %s", study.id, error.message)
            return StudyFinish(worker=self._name, error=error.message)
        except Exception as error:
            logger.exception("study %d failed", study.id)
            return StudyFinish(worker=self._name, error=f"{type(error).__name__}: {error}")

    def _help(self) -> bool:
        """Measure trials of a study that another worker runs, on a trial node that nobody holds."""
        for study in self._client.studies(StudyState.RUNNING):
            if study.id in self._helped or study.spec.online is not None or self.stop.is_set():
                continue
            hooks = Hooks(
                worker=self._name,
                progress=lambda _: None,
                started=lambda _, __: None,
                stop=self.stop,
                networks=self._networks,
                heartbeat_s=self._heartbeat_s,
            )
            try:
                over = StudyRun(self._client, study, hooks).help()
            except Stopped:
                continue  # Every node is held, or the study has ended.
            except (TailwrightError, httpx.HTTPError) as error:
                logger.warning("study %d: no help: %r", study.id, error)
                continue
            except Exception:
                logger.exception("study %d: the help failed", study.id)
                over = True
            if over:
                self._helped.add(study.id)
                return True
        return False

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
            **judged_by(spec),
            **spec.rollout,
            "pool": spec.pool,
            "revision": revision.number,
            "study_id": study.id,
        }
        try:
            return self._proposed(study) or self._client.create_rollout(RolloutCreate.model_validate(wanted)).id
        except Conflict as error:
            # The pool is busy with another rollout: the result still counts, the proposal is left to people.
            logger.warning("study %d: no rollout proposed: %s", study.id, error.message)
            result.summary += f" No rollout was proposed: {error.message}"
            return None

    def _proposed(self, study: Study) -> int | None:
        """The rollout that a worker proposed which was lost before it could say so."""
        return next((one.id for one in self._client.rollouts() if one.spec.study_id == study.id), None)

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
            tried_again(lambda: self._client.finish_study(study.id, outcome), self.stop)
        logger.info("study %d: %s", study.id, outcome.error or (outcome.result and outcome.result.summary))


def judged_by(spec: StudyCreate) -> dict[str, Any]:
    """What a study has optimised and held to is what its winner's rollout is judged by. The limits that goodput and the
    largest load are made of are judged where they are: nothing may get worse there, though at the pool's own load
    little may get better."""
    limits = [limit.model_dump() for limit in spec.constraints]
    if spec.objective not in OF_LIMITS:
        return {"objective": spec.objective, "objective_q": spec.objective_q, "limits": limits}
    levels: dict[str, set[float]] = {}
    for limit in spec.constraints:
        levels.setdefault(limit.metric, set()).add(limit.q)
    return {
        "metrics": list(levels),
        "levels": {metric: sorted(qs) for metric, qs in levels.items()},
        "limits": limits,
    }
