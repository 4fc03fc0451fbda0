"""Sending the outbox: at least once, in order, without ever holding a transaction open while the network is slow.

Guarantees: a delivery is tried until a 2xx answer or for `GIVE_UP_AFTER_S`; of one alert a destination hears "firing"
before "resolved"; every attempt of a delivery carries the same body and the same Idempotency-Key, so that a receiver
can drop what it has seen. A sender that dies in between is followed by another after `LEASE_S`.
"""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx
from sqlmodel import Session, col, select, update

from controlplane.alerts import payload, signature
from controlplane.alerts.tables import DeliveryRow, DestinationRow
from controlplane.contract.alerts import Alert, AlertState, DeliveryState
from controlplane.db.database import Database

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
LEASE_S = 30.0
LONGEST_WAIT_S = 300.0
LONGEST_RETRY_AFTER_S = 3600.0
GIVE_UP_AFTER_S = 24 * 3600.0
BATCH = 50


@dataclass(frozen=True)
class Attempt:
    """What came of one attempt: `error` None when it was answered 2xx."""

    error: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True)
class Letter:
    """All one attempt needs, copied out of the database."""

    delivery_id: int
    destination_id: int
    url: str
    secret: str | None
    body: str
    idempotency_key: str
    attempt: int
    created_at: datetime


def wait_s(attempts: int) -> float:
    """Pause after the n-th failed attempt: 1, 2, 4 ... `LONGEST_WAIT_S` seconds. No jitter: one sender, few letters."""
    return float(min(2.0 ** min(attempts - 1, 30), LONGEST_WAIT_S))


def retry_after_s(header: str | None, now: datetime) -> float | None:
    """A Retry-After header (RFC 9110, 10.2.3) in seconds, at most an hour; None when absent or not understood."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_RETRY_AFTER_S)
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), LONGEST_RETRY_AFTER_S)


def post(http: httpx.Client, letter: Letter, now: datetime) -> Attempt:
    """One HTTP attempt. Never raises for what the receiver does."""
    content = letter.body.encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "trimtab",
        "Trimtab-Delivery": str(letter.delivery_id),
        "Idempotency-Key": letter.idempotency_key,
    }
    if letter.secret:
        headers[signature.HEADER] = signature.sign(letter.secret, content, int(now.timestamp()))
    try:
        answer = http.post(letter.url, content=content, headers=headers, timeout=TIMEOUT_S, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return Attempt(f"{type(error).__name__}: {error}"[:300])
    if answer.is_success:
        return Attempt()
    return Attempt(f"answered {answer.status_code}", retry_after_s(answer.headers.get("Retry-After"), now))


class Deliverer:
    """Sends what is due. Several may run: a row is leased to one sender at a time."""

    def __init__(self, database: Database, http: httpx.Client | None = None) -> None:
        self._database = database
        self._http = http or httpx.Client(timeout=TIMEOUT_S)

    def close(self) -> None:
        self._http.close()

    def tick(self, now: datetime) -> int:
        """Try each due delivery once; returns how many were delivered. A destination that fails rests for this tick."""
        delivered = 0
        failing: set[int] = set()
        for delivery_id, destination_id in self._due(now):
            if destination_id in failing:
                continue
            letter = self._lease(delivery_id, now)
            if letter is None:
                continue
            attempt = post(self._http, letter, now)
            self._record(letter, attempt, now)
            if attempt.error is None:
                delivered += 1
            else:
                failing.add(destination_id)
        return delivered

    def _due(self, now: datetime) -> list[tuple[int, int]]:
        """Due deliveries, oldest first, none of which has an earlier one of the same alert still waiting."""
        waiting = DeliveryState.WAITING.value
        with self._database.read_session() as session:
            query = (
                select(DeliveryRow.id, DeliveryRow.alert_id, DeliveryRow.destination_id, DeliveryRow.next_attempt_at)
                .where(DeliveryRow.state == waiting)
                .order_by(col(DeliveryRow.id))
            )
            heads: dict[tuple[int, int], tuple[int, datetime | None]] = {}
            for delivery_id, alert_id, destination_id, due_at in session.exec(query):
                heads.setdefault((alert_id, destination_id), (delivery_id or 0, due_at))
        due = [
            (delivery_id, destination)
            for (_, destination), (delivery_id, due_at) in heads.items()
            if due_at is None or due_at <= now
        ]
        return sorted(due)[:BATCH]

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
            )

    def _record(self, letter: Letter, attempt: Attempt, now: datetime) -> None:
        with self._database.session() as session:
            row = session.get(DeliveryRow, letter.delivery_id)
            if row is None or row.state != DeliveryState.WAITING.value:
                return
            row.last_error = attempt.error
            if attempt.error is None:
                row.state, row.delivered_at, row.next_attempt_at = DeliveryState.DELIVERED.value, now, None
            else:
                again = now + timedelta(seconds=max(wait_s(letter.attempt), attempt.retry_after_s or 0.0))
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


def send_test(
    http: httpx.Client, destination: DestinationRow, alert: Alert, now: datetime, external_url: str
) -> Attempt:
    """Send a made-up alert once, signed like a real one, and say what came of it."""
    status = AlertState.FIRING.value
    key = payload.idempotency_key(alert, "test")
    body = payload.body(alert, status, destination.name, external_url)
    letter = Letter(0, destination.id or 0, destination.url, destination.secret, body, key, 1, now)
    return post(http, letter, now)
