"""Sending the outbox: at least once, in order, without ever holding a transaction open while the network is slow.

Guarantees: a delivery is tried until a 2xx answer or for `GIVE_UP_AFTER_S`; of one alert a destination hears "firing"
before "resolved"; every attempt of a delivery carries the same body and the same Idempotency-Key, so that a receiver
can drop what it has seen. A sender that dies in between is followed by another after `LEASE_S`. A destination that is
slow or hostile holds its own letters alone, for `DEADLINE_S` each, and is never read from beyond its headers.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import httpx
from sqlalchemy import select
from sqlmodel import Session, col, update

from controlplane.alerts.tables import DeliveryRow, DestinationRow, place_of
from controlplane.contract import signature
from controlplane.contract.bodies.alerts import DeliveryState
from controlplane.contract.clock import Clock, utc_now
from controlplane.contract.retry import doubling_s, retry_after_s
from controlplane.contract.shown_url import without
from controlplane.db.database import Database
from controlplane.keys import Keyring, Undecryptable
from controlplane.ledger import sealing, signing
from controlplane.outgoing import NOWHERE_INSIDE, AddressPolicy, exchange, new_client

log = logging.getLogger(__name__)

DEADLINE_S = 10.0
"""For the whole of one attempt. Well below the lease: nobody else begins a letter while it is still under way."""
LEASE_S = 30.0
GIVE_UP_AFTER_S = 24 * 3600.0
BATCH = 50
"""Letters of one destination that one thread sends before it looks again."""
MOST_AT_ONCE = 32
"""Destinations that are sent to at once: threads."""
CLOSE_S = 1.0
LEDGER_HEADER = "Tailwright-Ledger-Head"


@dataclass(frozen=True)
class Attempt:
    """What came of one attempt: `error` None when it was answered 2xx."""

    error: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True)
class Letter:
    """All one attempt needs, copied out of the database. url, secret: encrypted."""

    delivery_id: int
    destination_id: int
    url: str | None
    secret: str | None
    body: str
    idempotency_key: str
    attempt: int
    created_at: datetime
    ledger_head: str | None = None


@dataclass(frozen=True)
class Address:
    """Where a letter goes, and what signs it, in clear: for as long as one attempt takes."""

    url: str = field(repr=False)
    secret: str | None = field(repr=False)


def address_of(letter: Letter, keyring: Keyring) -> Address:
    """Raises `Undecryptable`."""
    secret, number = letter.secret, letter.destination_id
    return Address(
        keyring.decrypt(place_of(number, "url"), letter.url or ""),
        None if secret is None else keyring.decrypt(place_of(number, "secret"), secret),
    )


def post(http: httpx.Client, letter: Letter, address: Address, now: datetime) -> Attempt:
    """One HTTP attempt. Never raises for what the receiver does."""
    content = letter.body.encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "tailwright",
        "Tailwright-Delivery": str(letter.delivery_id),
        "Idempotency-Key": letter.idempotency_key,
    }
    if letter.ledger_head is not None:
        headers[LEDGER_HEADER] = letter.ledger_head
    if address.secret:
        headers[signature.HEADER] = signature.sign(address.secret, content, int(now.timestamp()))
    try:
        answer = exchange(http, address.url, content, headers, deadline_s=DEADLINE_S)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return Attempt(without(address.url, f"{type(error).__name__}: {error}")[:300])
    if answer.is_success:
        return Attempt()
    return Attempt(f"answered {answer.status}", retry_after_s(answer.headers.get("Retry-After"), now))


class Deliverer:
    """Sends what is due, each destination's letters in a thread of their own.

    Several may run, in several replicas: a row is leased to one sender at a time. `delivered` counts what was taken.
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
    ) -> None:
        self._database = database
        self._keyring = keyring
        self._http = http or new_client(DEADLINE_S, policy)
        self._clock = clock
        self._most_at_once = most_at_once
        self._ledger_key = ledger_key
        self._changed = threading.Condition()
        self._busy: set[int] = set()
        self._error: BaseException | None = None
        self._closing = False
        self.delivered = 0

    def close(self) -> None:
        """No letter is begun any more; those under way get `CLOSE_S` to end."""
        with self._changed:
            self._closing = True
        self.settle(CLOSE_S)
        self._http.close()

    def tick(self, now: datetime) -> int:
        """Begin what is due at every destination that nothing is sent to yet; returns at how many. Never waits.

        Raises what went wrong on this side since the last call; what receivers do is in their deliveries' rows.
        """
        begun = 0
        for destination_id, delivery_ids in self._due(now).items():
            with self._changed:
                if self._closing or len(self._busy) >= self._most_at_once:
                    break
                if destination_id in self._busy:
                    continue
                self._busy.add(destination_id)
            threading.Thread(
                target=self._serve, args=(destination_id, delivery_ids), name=f"webhook-{destination_id}", daemon=True
            ).start()
            begun += 1
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error
        return begun

    def settle(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is being sent; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, timeout_s)

    def _serve(self, destination_id: int, delivery_ids: Sequence[int]) -> None:
        try:
            self._send(delivery_ids)
        except BaseException as error:  # noqa: BLE001 - it goes on to the next tick, which is shown and counted.
            with self._changed:
                self._error = error
        finally:
            with self._changed:
                self._busy.discard(destination_id)
                self._changed.notify_all()

    def _send(self, delivery_ids: Sequence[int]) -> None:
        """One destination's letters, oldest first, until one fails: then the destination rests."""
        for delivery_id in delivery_ids:
            if self._closing:
                return
            letter = self._lease(delivery_id, self._clock())
            if letter is None:
                continue
            attempt = self._attempt(letter)
            self._record(letter, attempt, self._clock())
            if attempt.error is not None:
                return
            with self._changed:
                self.delivered += 1

    def _attempt(self, letter: Letter) -> Attempt:
        try:
            address = address_of(letter, self._keyring)
        except Undecryptable as error:
            log.warning("webhook %s cannot be sent: %s", letter.delivery_id, error.message)
            return Attempt(error.message[:300])
        return post(self._http, letter, address, self._clock())

    def _due(self, now: datetime) -> dict[int, list[int]]:
        """Due deliveries by destination, none of which has an earlier one of the same alert still waiting.

        Those that were tried least come first, and of these the oldest: a new page never waits behind retries.
        """
        waiting = DeliveryState.WAITING.value
        with self._database.read_session() as session:
            query = (
                select(
                    col(DeliveryRow.id),
                    col(DeliveryRow.alert_id),
                    col(DeliveryRow.destination_id),
                    col(DeliveryRow.attempts),
                    col(DeliveryRow.next_attempt_at),
                )
                .where(col(DeliveryRow.state) == waiting)
                .order_by(col(DeliveryRow.id))
            )
            heads: dict[tuple[int, int], tuple[int, int, datetime | None]] = {}
            for delivery_id, alert_id, destination_id, attempts, due_at in session.execute(query):
                heads.setdefault((alert_id, destination_id), (attempts, delivery_id or 0, due_at))
        due = sorted(
            (attempts, delivery_id, destination_id)
            for (_, destination_id), (attempts, delivery_id, due_at) in heads.items()
            if due_at is None or due_at <= now
        )
        found: dict[int, list[int]] = {}
        for _, delivery_id, destination_id in due:
            letters = found.setdefault(destination_id, [])
            if len(letters) < BATCH:
                letters.append(delivery_id)
        return found

    def _lease(self, delivery_id: int, now: datetime) -> Letter | None:
        """Count the attempt and move the row's next one past the lease; None when another sender was faster."""
        with self._database.session() as session:
            row = session.get(DeliveryRow, delivery_id)
            if row is None or row.state != DeliveryState.WAITING.value:
                return None
            if row.next_attempt_at is not None and row.next_attempt_at > now:
                return None  # Leased to another sender since the list was made.
            destination = session.get(DestinationRow, row.destination_id)
            if destination is None or not destination.enabled:
                row.state, row.next_attempt_at = DeliveryState.GIVEN_UP.value, None
                row.last_error = "the destination was removed" if destination is None else "the destination is disabled"
                session.add(row)
                return None
            if not _take(session, row, now):
                return None
            return Letter(
                delivery_id,
                row.destination_id,
                destination.url,
                destination.secret,
                row.body,
                row.idempotency_key,
                row.attempts + 1,
                row.created_at,
                self._ledger_head(session),
            )

    def _ledger_head(self, session: Session) -> str | None:
        """The ledger's newest entry, `ID:HASH:SIGNATURE`: kept by a receiver, it tells of a ledger that was changed."""
        if self._ledger_key is None:
            return None
        head = signing.signed(sealing.head(session.connection()), self._ledger_key)
        return f"{head.id}:{head.hash}:{head.signature}"

    def _record(self, letter: Letter, attempt: Attempt, now: datetime) -> None:
        with self._database.session() as session:
            row = session.get(DeliveryRow, letter.delivery_id)
            if row is None or row.state != DeliveryState.WAITING.value:
                return
            if attempt.error is not None and row.attempts != letter.attempt:
                return  # Its lease has ended, and another sender is at it: that one's outcome counts.
            row.last_error = attempt.error
            if attempt.error is None:
                row.state, row.delivered_at, row.next_attempt_at = DeliveryState.DELIVERED.value, now, None
            else:
                again = now + timedelta(seconds=max(doubling_s(letter.attempt), attempt.retry_after_s or 0.0))
                if again > letter.created_at + timedelta(seconds=GIVE_UP_AFTER_S):
                    row.state, row.next_attempt_at = DeliveryState.GIVEN_UP.value, None
                    log.warning("webhook %s given up after %d attempts: %s", row.id, row.attempts, attempt.error)
                else:
                    row.next_attempt_at = again
            session.add(row)


def _take(session: Session, row: DeliveryRow, now: datetime) -> bool:
    """Compare and set on the attempt counter: of two senders exactly one gets the row."""
    statement = (
        update(DeliveryRow)
        .where(col(DeliveryRow.id) == row.id, col(DeliveryRow.attempts) == row.attempts)
        .values(attempts=row.attempts + 1, next_attempt_at=now + timedelta(seconds=LEASE_S))
        .execution_options(synchronize_session=False)
    )
    return bool(session.exec(statement).rowcount == 1)
