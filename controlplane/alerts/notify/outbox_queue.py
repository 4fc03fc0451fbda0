"""The outbox as a queue a destination: what is due, leased to one sender at a time, and what came of it.

Guarantees: of one alert (by its fingerprint) a destination hears in the order in which it was written, however long the
first takes; letters that were tried least go first, of these the oldest, so that a new page never waits behind retries
(one whose first try ended with its sender's life has not been tried); a destination never gets more than its rate,
whichever replica sends; of two senders that live exactly one gets a letter, and what one that was killed had leased is
free at once.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Select, Update, bindparam, exists, or_, select
from sqlalchemy.orm import aliased
from sqlmodel import Session, SQLModel, col, update

from controlplane.alerts.channels.channel import Letter, Outcome, Status
from controlplane.alerts.notify.letters import WAITING, bucket_of, give_up
from controlplane.alerts.notify.one_attempt import Attempt
from controlplane.alerts.notify.pacing import OUTAGE, Dice, letter_pause_s, rest_s
from controlplane.alerts.notify.token_bucket import filled, next_at
from controlplane.alerts.tables import DeliveryRow, DestinationRow
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.channels.destinations import DeliveryState
from controlplane.db.database import Database
from controlplane.db.living_processes import LivingProcesses, is_free
from controlplane.ledger import sealing, signing

LEASE_S = 30.0
GIVE_UP_AFTER_S = 24 * 3600.0


@dataclass(frozen=True)
class Due:
    """A destination that something is due for. failing: its last attempt failed."""

    destination_id: int
    failing: bool


@dataclass(frozen=True)
class Lease:
    """A letter that is this sender's until `until`. url, secret: encrypted. failures: of the destination, in a row."""

    letter: Letter
    destination_id: int
    url: str | None
    secret: str | None
    login: str | None
    attempt: int
    until: datetime
    failures: int = 0


@dataclass(frozen=True)
class Done:
    """What came of a lease, and when."""

    lease: Lease
    attempt: Attempt
    at: datetime


class OutboxQueue:
    """All in short transactions of its own; none is open while the network is slow."""

    def __init__(self, database: Database, ledger_key: bytes | None, dice: Dice, *, sole: bool = False) -> None:
        """sole: there is no other sender."""
        self._database = database
        self._living = LivingProcesses(database, sole=sole)
        self._ledger_key = ledger_key
        self._dice = dice

    def due(self, now: datetime) -> list[Due]:
        """Destinations that something can be sent to now, those that failed last at the end. Takes no write lock."""
        self._living.enter()
        with self._database.read_session() as session:
            due = _is_due(now, self._living.numbers(session))
            query = select(DestinationRow).where(_rested(now), exists().where(_of_destination(), due))
            found = [row for row in session.execute(query.order_by(col(DestinationRow.id))).scalars()]
        free = [row for row in found if row.per_minute is None or next_at(bucket_of(row), row.per_minute, now) is None]
        return sorted((Due(row.id or 0, row.failures > 0) for row in free), key=lambda one: one.failing)

    def take(self, destination_id: int, now: datetime, most: int) -> list[Lease]:
        """Count the attempts and lease the letters. One that failed `OUTAGE` times gets a single letter first."""
        with self._database.session() as session:
            row = session.get(DestinationRow, destination_id, with_for_update=True)
            if row is None or not row.enabled:
                why = "was removed" if row is None else "is disabled"
                give_up(session, destination_id, f"the destination {why}")
                return []
            if row.rests_until is not None and row.rests_until > now:
                return []
            numbers = self._take(session, row, now, 1 if row.failures >= OUTAGE else most)
            letters = session.execute(select(DeliveryRow).where(col(DeliveryRow.id).in_(numbers))).scalars()
            head = self._ledger_head(session) if numbers else None
            place = {number: index for index, number in enumerate(numbers)}
            return [_lease(row, one, now, head) for one in sorted(letters, key=lambda one: place[one.id or 0])]

    def _take(self, session: Session, row: DestinationRow, now: datetime, most: int) -> list[int]:
        if row.per_minute is not None:
            bucket = filled(bucket_of(row), row.per_minute, now)
            most = min(most, int(bucket.tokens + 1e-9))
        if most < 1:
            return []
        # The destination's row is locked: whoever has leased letters of it lived before this look at who does.
        living = self._living.numbers(session)
        heads = _heads(row.id or 0, now, living)
        numbers = list(session.execute(heads.where(*_CUT_OFF).limit(most)).scalars())
        rest = heads.where(col(DeliveryRow.id).not_in(numbers)).limit(most - len(numbers))
        numbers += session.execute(rest).scalars()
        until = now + timedelta(seconds=LEASE_S)
        statement = (
            update(DeliveryRow)
            .where(col(DeliveryRow.id).in_(numbers), _is_due(now, living))
            .values(attempts=col(DeliveryRow.attempts) + 1, leased_until=until, leased_by=self._living.number)
            .returning(col(DeliveryRow.id))
            .execution_options(synchronize_session=False)
        )
        taken = set(session.execute(statement).scalars())
        if row.per_minute is not None:
            row.tokens, row.tokens_at = bucket.tokens - len(taken), now
            session.add(row)
        return [number for number in numbers if number in taken]

    def _ledger_head(self, session: Session) -> str | None:
        """The ledger's newest entry, `ID:HASH:SIGNATURE`: kept by a receiver, it tells of a ledger that was changed."""
        if self._ledger_key is None:
            return None
        head = signing.signed(sealing.head(session.connection()), self._ledger_key)
        return f"{head.id}:{head.hash}:{head.signature}"

    def release(self, leases: Sequence[Lease]) -> None:
        """Give back what was not tried: as if it had never been leased."""
        if not leases:
            return
        numbers = [lease.letter.delivery_id for lease in leases]
        with self._database.session() as session:
            session.execute(
                update(DeliveryRow)
                .where(
                    col(DeliveryRow.id).in_(numbers),
                    col(DeliveryRow.state) == WAITING,
                    col(DeliveryRow.leased_until) == leases[0].until,
                )
                .values(attempts=col(DeliveryRow.attempts) - 1, leased_until=None)
                .execution_options(synchronize_session=False)
            )

    def record(self, done: Sequence[Done]) -> list[Done]:
        """Write what came of one destination's letters, in them and in its health; returns those that were given up.

        However many were sent, they are two statements: a flood of alerts is mostly these.
        """
        if not done:
            return []
        sent = [{"number": one.lease.letter.delivery_id, "at": one.at} for one in done if _is_sent(one)]
        with self._database.session() as session:
            # The destination before its letters, as `take` locks them: in another order both could wait for ever.
            row = session.get(DestinationRow, done[0].lease.destination_id, with_for_update=True)
            if sent:
                session.connection().execute(_DELIVERED, sent)
            dead = [one for one in done if not _is_sent(one) and self._is_dead(session, one)]
            if row is not None:
                self._health(session, row, done)
        return dead

    def _is_dead(self, session: Session, done: Done) -> bool:
        """Write when one that was not sent is tried again; whether it was given up."""
        row = session.get(DeliveryRow, done.lease.letter.delivery_id)
        if row is None or row.state != WAITING or row.attempts != done.lease.attempt:
            return False  # Where its lease has ended, another sender is at it: that one's outcome counts.
        attempt = done.attempt
        row.last_error, row.leased_until, row.next_attempt_at = attempt.error, None, None
        session.add(row)
        pause_s = letter_pause_s(done.lease.attempt, attempt.retry_after_s, self._dice)
        again = done.at + timedelta(seconds=pause_s)
        since = row.waits_since or row.created_at
        if attempt.outcome is Outcome.RETRY and again <= since + timedelta(seconds=GIVE_UP_AFTER_S):
            row.next_attempt_at = again
            return False
        row.state = DeliveryState.GIVEN_UP.value
        return True

    def _health(self, session: Session, row: DestinationRow, done: Sequence[Done]) -> None:
        """In the order of the attempts; of a letter that was refused the destination is not to blame: it neither rests
        nor counts as well."""
        for attempt, at in ((one.attempt, one.at) for one in done):
            row.last_error = attempt.error
            if attempt.outcome is Outcome.SENT:
                if row.failures >= OUTAGE:
                    session.execute(_wake(done[0].lease.destination_id, at))
                row.succeeded_at, row.failures, row.rests_until = at, 0, None
            elif attempt.outcome is Outcome.RETRY:
                row.failures += 1
                pause_s = rest_s(row.failures, attempt.retry_after_s, self._dice)
                row.rests_until = at + timedelta(seconds=pause_s) if pause_s else None
        session.add(row)


_LETTERS = SQLModel.metadata.tables[str(DeliveryRow.__tablename__)]
_DELIVERED = (
    update(_LETTERS)
    .where(_LETTERS.c.id == bindparam("number"), _LETTERS.c.state == WAITING)
    .values(
        state=DeliveryState.DELIVERED.value,
        delivered_at=bindparam("at"),
        last_error=None,
        leased_until=None,
        next_attempt_at=None,
    )
)


_CUT_OFF = (
    col(DeliveryRow.attempts) == 1,
    col(DeliveryRow.leased_until).is_not(None),
    col(DeliveryRow.last_error).is_(None),
)
"""Whose sender died over the first try: they go before what gathered meanwhile. Once only, for it may be they that it
dies of."""


def _is_sent(done: Done) -> bool:
    return done.attempt.outcome is Outcome.SENT


def _lease(row: DestinationRow, letter: DeliveryRow, now: datetime, head: str | None) -> Lease:
    assert letter.id is not None and row.id is not None
    told = Letter(
        letter.id,
        DestinationKind(row.kind),
        Status(letter.status),
        letter.fingerprint,
        letter.body,
        letter.idempotency_key,
        head,
    )
    until = now + timedelta(seconds=LEASE_S)
    return Lease(told, row.id, row.url, row.secret, row.login, letter.attempts, until, row.failures)


def _heads(destination_id: int, now: datetime, living: Collection[int] | None) -> Select[int | None]:
    """Due letters none of which has an earlier one of the same alert still waiting."""
    earlier = aliased(DeliveryRow)
    behind = exists().where(
        col(earlier.destination_id) == DeliveryRow.destination_id,
        col(earlier.state) == WAITING,
        col(earlier.fingerprint) == DeliveryRow.fingerprint,
        col(earlier.id) < DeliveryRow.id,
    )
    return (
        select(col(DeliveryRow.id))
        .where(col(DeliveryRow.destination_id) == destination_id, _is_due(now, living), ~behind)
        .order_by(col(DeliveryRow.attempts), col(DeliveryRow.id))
    )


def _is_due(now: datetime, living: Collection[int] | None) -> ColumnElement[bool]:
    """living: the processes whose leases hold until their ends; None: all do."""
    letter = DeliveryRow
    at_last = or_(col(letter.next_attempt_at).is_(None), col(letter.next_attempt_at) <= now)
    free = is_free(col(letter.leased_until), col(letter.leased_by), now, living)
    return (col(letter.state) == WAITING) & at_last & free


def _of_destination() -> ColumnElement[bool]:
    return col(DeliveryRow.destination_id) == DestinationRow.id


def _rested(now: datetime) -> ColumnElement[bool]:
    return or_(col(DestinationRow.rests_until).is_(None), col(DestinationRow.rests_until) <= now)


def _wake(destination_id: int, now: datetime) -> Update:
    """After an outage nobody waits out a pause that was meant for it."""
    return (
        update(DeliveryRow)
        .where(
            col(DeliveryRow.destination_id) == destination_id,
            col(DeliveryRow.state) == WAITING,
            col(DeliveryRow.next_attempt_at) > now,
        )
        .values(next_attempt_at=now)
        .execution_options(synchronize_session=False)
    )
