"""Calls hooks, each in a thread of its own: no rollout's tick waits for somebody else's server.

Guarantees: a hook is called once at a time, and an attempt ends within the hook's time-out, however it drips its
answer; a call has the same body and the same key at each attempt. Nobody's redirect is followed, and of an answer no
more than `MOST_BYTES` is read.
"""

import threading
from datetime import datetime

import httpx
from prometheus_client import CollectorRegistry, Counter

from controlplane.contract import signature
from controlplane.contract.changes.hooks import HookKind, HookState
from controlplane.contract.clock import Clock, utc_now
from controlplane.contract.shown_url import without
from controlplane.db.database import Database
from controlplane.keys import Keyring, Undecryptable
from controlplane.outgoing import NOWHERE_INSIDE, AddressPolicy, exchange, new_client
from controlplane.rollouts.hooks.hook_answer import MOST_REASON, meaning
from controlplane.rollouts.hooks.hook_queue import LEASE_S, Answer, HookQueue, Lease
from controlplane.rollouts.hooks.tables import place_of

MOST_BYTES = 4096
MOST_AT_ONCE = 32
"""Hooks that are called at once."""
CLOSE_S = 1.0
NO_ANSWER = "no_answer"


class HookCaller:
    """Call `tick` every second. sole: no other process is over this database; registry: where calls are counted."""

    def __init__(
        self,
        database: Database,
        keyring: Keyring,
        *,
        policy: AddressPolicy = NOWHERE_INSIDE,
        clock: Clock = utc_now,
        registry: CollectorRegistry | None = None,
        sole: bool = False,
    ) -> None:
        self._queue = HookQueue(database, sole=sole)
        self._keyring, self._clock = keyring, clock
        self._http = new_client(LEASE_S, policy)
        self._changed = threading.Condition()
        self._busy: set[int] = set()
        self._closing = False
        self._error: BaseException | None = None
        said = "Calls of hooks of rollouts, by kind and what came of them."
        self._calls = Counter("tailwright_rollout_hook_calls", said, ["kind", "outcome"], registry=registry)
        for kind in HookKind:
            for outcome in (HookState.GO.value, HookState.HALT.value, NO_ANSWER):
                self._calls.labels(kind.value, outcome)

    def tick(self, now: datetime) -> None:
        """Begin what is due; never waits for it. Raises what went wrong on this side since the last call."""
        for call_id, hook_id in self._queue.due(now, 10 * MOST_AT_ONCE):
            self._begin(call_id, hook_id, now)
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def settle(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is being called; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, timeout_s)

    def close(self) -> None:
        """Begin no more, and give those under way `CLOSE_S` to end; what is cut off is called again."""
        with self._changed:
            self._closing = True
        self.settle(CLOSE_S)
        self._http.close()

    def _begin(self, call_id: int, hook_id: int, now: datetime) -> None:
        with self._changed:
            if self._closing or hook_id in self._busy or len(self._busy) >= MOST_AT_ONCE:
                return
            self._busy.add(hook_id)
        name = f"hook-{hook_id}"
        threading.Thread(target=self._serve, args=(call_id, hook_id, now), name=name, daemon=True).start()

    def _serve(self, call_id: int, hook_id: int, now: datetime) -> None:
        try:
            lease = self._queue.lease(call_id, now)
            if lease is not None:
                answer = self._call(lease)
                self._queue.record(lease, answer, self._clock())
                self._calls.labels(lease.kind.value, answer[0] or NO_ANSWER).inc()
        except BaseException as error:  # noqa: BLE001 - it goes on to the next tick, which is shown and counted.
            with self._changed:
                self._error = error
        finally:
            with self._changed:
                self._busy.discard(hook_id)
                self._changed.notify_all()

    def _call(self, lease: Lease) -> Answer:
        """One attempt. Never raises for what others do."""
        try:
            url = self._keyring.decrypt(place_of(lease.hook_id, "url"), lease.url)
            secret = lease.secret and self._keyring.decrypt(place_of(lease.hook_id, "secret"), lease.secret)
        except Undecryptable as error:
            return None, error.message[:MOST_REASON]
        content = lease.body.encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "tailwright",
            "Tailwright-Delivery": str(lease.call_id),
            "Idempotency-Key": lease.key,
        }
        if secret:
            headers[signature.HEADER] = signature.sign(secret, content, int(self._clock().timestamp()))
        try:
            answer = exchange(self._http, url, content, headers, deadline_s=lease.timeout_s, most_bytes=MOST_BYTES)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return None, without(url, f"{type(error).__name__}: {error}")[:MOST_REASON]
        state, reason = meaning(answer.status, answer.body)
        if state is HookState.HALT and not lease.kind.asks:
            state = None  # It was told, not asked.
        return state, without(url, reason)
