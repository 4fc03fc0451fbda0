"""What a worker holds while it is at a study: the study itself, and a trial node. Threads of their own renew both.

Guarantee: what is lost is known within a heartbeat, by `lost`; a node is put back and given back by who holds it only.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

import httpx

from controlplane.client import Client
from controlplane.contract.bodies.studies import Study, StudyHeartbeat, StudyState
from controlplane.contract.errors import Conflict, NotFound, TailwrightError
from controlplane.contract.planning.trial_leases import TrialLease

logger = logging.getLogger(__name__)
HEARTBEAT_S = 3.0
PATIENCE_S, LONGEST_PAUSE_S = 60.0, 4.0
"""How long a control plane that does not answer is asked again (started again, its database too), and how often."""
OPEN = frozenset({StudyState.QUEUED, StudyState.RUNNING})
"""A study whose worker was lost is queued again: what others measure for it counts all the same."""

T = TypeVar("T")


class Renewal:
    """Renews itself until closed, in a thread; sets `lost` when it is not this worker's any more."""

    def __init__(self, what: str, *, every_s: float) -> None:
        self.lost = threading.Event()
        self.ended_by_service = False
        self._what, self._every_s = what, every_s
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"renewal of {what}", daemon=True)

    def renew(self) -> None:
        """Raises Conflict or NotFound when it is lost."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._wake.set()
        self._thread.join(10)

    def lose(self, why: str) -> None:
        logger.info("%s is no longer ours: %s", self._what, why)
        self.ended_by_service = True
        self.lost.set()

    def _run(self) -> None:
        while not self._closing and not self.ended_by_service:
            try:
                self.renew()
            except (Conflict, NotFound) as error:
                self.lose(error.message)
            except (TailwrightError, httpx.HTTPError) as error:
                logger.warning("%s: no heartbeat: %r", self._what, error)
            if self._wake.wait(self._every_s):
                self._wake.clear()


class Lease(Renewal):
    """A running study's hold, which carries its news."""

    def __init__(self, client: Client, study: Study, worker: str, *, every_s: float = HEARTBEAT_S) -> None:
        super().__init__(f"study {study.id}", every_s=every_s)
        self._client, self._study_id = client, study.id
        self._beat = StudyHeartbeat(worker=worker)
        self._lock = threading.Lock()

    def say(self, **news: Any) -> None:
        """Progress, trial node or workload summary, sent with the next renewal, which is now."""
        with self._lock:
            self._beat = self._beat.model_copy(update=news)
        self._wake.set()

    def renew(self) -> None:
        with self._lock:
            beat = self._beat
        self._client.heartbeat_study(self._study_id, beat)


class NodeHold(Renewal):
    """A trial node's hold. `lost` is set, too, when the study has ended: the node is then still this worker's, to be
    tidied; `ended_by_service` says that it is not.
    """

    def __init__(self, client: Client, lease: TrialLease, *, every_s: float = HEARTBEAT_S) -> None:
        super().__init__(f"trial node {lease.node}", every_s=every_s)
        self.token, self.node, self.worker = lease.token, lease.node, lease.worker
        self._client, self._study_id = client, lease.study_id

    def renew(self) -> None:
        if self._client.renew_trial_lease(self._study_id, self.token).study_state not in OPEN:
            self.lost.set()

    def release(self) -> None:
        """Give the node back; one that cannot be is free a minute later."""
        try:
            self._client.release_trial_node(self._study_id, self.token)
        except (TailwrightError, httpx.HTTPError) as error:
            logger.warning("trial node %s was not given back: %r", self.node, error)


def tried_again(act: Callable[[], T], stop: threading.Event, patience_s: float = PATIENCE_S) -> T:
    """What `act` gives; a service that cannot be reached is tried again, since what is said twice counts once."""
    until, pause_s = time.monotonic() + patience_s, 0.5
    while True:
        try:
            return act()
        except (httpx.TransportError, TailwrightError) as error:
            lasting = isinstance(error, TailwrightError) and error.status < 500 and error.status != 429
            if lasting or time.monotonic() + pause_s > until or stop.wait(pause_s):
                raise
            logger.warning("the control plane does not answer, asked again: %r", error)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


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


def either(*events: threading.Event) -> threading.Event:
    """Set when any of them is."""
    return _Either(*events)
