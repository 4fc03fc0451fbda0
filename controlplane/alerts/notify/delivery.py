"""Sending the outbox: at least once, in order, without ever holding a transaction open while the network is slow.

Guarantees: a delivery is tried until it is taken, refused for good, or `GIVE_UP_AFTER_S` are over; every attempt of a
delivery carries the same body and the same key, so that a receiver can drop what it has seen. A sender that dies in
between is followed by another at once, or after `LEASE_S` where nobody can tell that it died. A destination that is
slow or hostile holds its own letters alone, for `DEADLINE_S` each; those that fail never take more than half of the
threads from those that work. A receiver that is far away is sent several letters at once.
"""

import logging
import random
import threading
import time
from collections.abc import Sequence
from datetime import datetime

import httpx

from controlplane.alerts.channels.channel import Address, Outcome
from controlplane.alerts.notify.letter_batch import Batch
from controlplane.alerts.notify.one_attempt import Attempt, Carriers, attempt
from controlplane.alerts.notify.outbox_queue import Done, Due, Lease, OutboxQueue
from controlplane.alerts.notify.pacing import Dice
from controlplane.alerts.tables import place_of
from controlplane.contract.clock import Clock, utc_now
from controlplane.db.database import Database
from controlplane.keys import Keyring, Undecryptable
from controlplane.outgoing import NOWHERE_INSIDE, AddressPolicy

log = logging.getLogger(__name__)

BATCH = 20
"""Letters of one destination that are leased at once."""
MOST_AT_ONCE = 64
"""Destinations that are sent to at once, each by as many threads as its batch goes abreast."""
CLOSE_S = 1.0


def address_of(
    destination_id: int, url: str | None, secret: str | None, login: str | None, keyring: Keyring
) -> Address:
    """In clear. Raises `Undecryptable`."""
    return Address(
        keyring.decrypt(place_of(destination_id, "url"), url or ""),
        None if secret is None else keyring.decrypt(place_of(destination_id, "secret"), secret),
        login,
    )


class Deliverer:
    """Sends what is due, each destination's letters in a thread of their own.

    Several may run, in several replicas: a row is leased to one sender at a time. `delivered` counts what was taken.
    sole: there is no other, and what one that died had leased is free at once; on PostgreSQL it is so without.
    """

    def __init__(
        self,
        database: Database,
        keyring: Keyring,
        http: httpx.Client | None = None,
        clock: Clock = utc_now,
        *,
        policy: AddressPolicy = NOWHERE_INSIDE,
        most_at_once: int = MOST_AT_ONCE,
        ledger_key: bytes | None = None,
        dice: Dice = random.random,
        sole: bool = False,
    ) -> None:
        self._queue = OutboxQueue(database, ledger_key, dice, sole=sole)
        self._keyring = keyring
        self._carriers = Carriers.new(policy) if http is None else Carriers(http, policy)
        self._clock = clock
        self._most_at_once = most_at_once
        self._changed = threading.Condition()
        self._busy: dict[int, bool] = {}
        self._error: BaseException | None = None
        self._closing = False
        self.delivered = 0

    def close(self) -> None:
        """No letter is begun any more; those under way get `CLOSE_S` to end."""
        with self._changed:
            self._closing = True
        self.settle(CLOSE_S)
        self._carriers.close()

    def tick(self, now: datetime) -> int:
        """Begin what is due at every destination that nothing is sent to yet; returns at how many. Never waits.

        Raises what went wrong on this side since the last call; what receivers do is in their deliveries' rows.
        """
        begun = sum(self._begin(due) for due in self._queue.due(now))
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error
        return begun

    def _begin(self, due: Due) -> bool:
        with self._changed:
            number = due.destination_id
            full = len(self._busy) >= self._most_at_once
            too_many_failing = due.failing and sum(self._busy.values()) >= max(1, self._most_at_once // 2)
            if self._closing or full or too_many_failing or number in self._busy:
                return False
            self._busy[number] = due.failing
        threading.Thread(target=self._serve, args=(number,), name=f"webhook-{number}", daemon=True).start()
        return True

    def settle(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is being sent; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, timeout_s)

    def _serve(self, destination_id: int) -> None:
        """One destination's letters until nothing is due, or it rests for it failed too often."""
        try:
            while not self._closing:
                leases = self._queue.take(destination_id, self._clock(), BATCH)
                if not leases:
                    break
                self._send(leases)
        except BaseException as error:  # noqa: BLE001 - it goes on to the next tick, which is shown and counted.
            with self._changed:
                self._error = error
        finally:
            with self._changed:
                self._busy.pop(destination_id, None)
                self._changed.notify_all()

    def _send(self, leases: Sequence[Lease]) -> None:
        """The first alone, then several at once, until the destination is to rest. What is not tried then, or before
        its lease runs out, is given back."""
        batch = Batch(leases, self._clock, lambda: self._closing)
        self._try_next(batch)
        name = threading.current_thread().name
        helpers = [
            threading.Thread(target=self._work_off, args=(batch, True), name=name, daemon=True)
            for _ in range(batch.helpers)
        ]
        for helper in helpers:
            helper.start()
        self._work_off(batch)
        for helper in helpers:
            helper.join()
        try:
            self._record(batch.unwritten())
        finally:
            self._queue.release(batch.untried())
        if batch.error is not None:
            raise batch.error

    def _work_off(self, batch: Batch, helping: bool = False) -> None:
        while self._try_next(batch, helping):
            pass

    def _try_next(self, batch: Batch, helping: bool = False) -> bool:
        """False where no letter is left to be tried."""
        try:
            lease = batch.next(helping=helping)
            if lease is None:
                return False
            began = time.monotonic()
            done = Done(lease, self._attempt(lease), self._clock())
            if due := batch.note(done, time.monotonic() - began):
                with batch.writing:
                    self._record(due)
        except BaseException as error:  # noqa: BLE001 - its destination's thread raises it.
            batch.fail(error)
        return True

    def _attempt(self, lease: Lease) -> Attempt:
        try:
            address = address_of(lease.destination_id, lease.url, lease.secret, lease.login, self._keyring)
        except Undecryptable as error:
            log.warning("delivery %s cannot be sent: %s", lease.letter.delivery_id, error.message)
            return Attempt(Outcome.RETRY, error.message[:300])
        return attempt(self._carriers, lease.letter, address, self._clock())

    def _record(self, done: Sequence[Done]) -> None:
        if not done:
            return
        for dead in self._queue.record(done):
            number, error = dead.lease.letter.delivery_id, dead.attempt.error
            log.warning("delivery %s given up after %d attempts: %s", number, dead.lease.attempt, error)
        with self._changed:
            self.delivered += sum(one.attempt.outcome is Outcome.SENT for one in done)
