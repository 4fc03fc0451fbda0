"""Replicas that tick at the same time over one PostgreSQL: each letter goes out once, in its alert's order, and no
destination gets more than its rate from all of them together."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlmodel import col, select

from controlplane.alerts.channels.channel import Outcome
from controlplane.alerts.notify.delivery import Deliverer
from controlplane.alerts.notify.one_attempt import Attempt
from controlplane.alerts.notify.outbox_queue import LEASE_S, Done, OutboxQueue
from controlplane.alerts.notify.token_bucket import capacity
from controlplane.alerts.tables import DeliveryRow, DestinationRow
from controlplane.db.database import Database
from controlplane.outgoing import ANYWHERE
from tests.keyrings import add_destination, keyring_of
from tests.made_tables import migrate

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
REPLICAS, ALERTS, ROUNDS = 3, 12, 6


@pytest.fixture
def databases(postgres_schema_url: str) -> Iterator[list[Database]]:
    """One for each replica."""
    made = [Database(postgres_schema_url) for _ in range(REPLICAS)]
    migrate(made[0])
    yield made
    for database in made:
        database.close()


class Fleet:
    """Replicas at a time of the test's own."""

    def __init__(self, databases: Sequence[Database]) -> None:
        self.now = NOW
        self.deliverers = [
            Deliverer(database, keyring_of(database), clock=lambda: self.now, policy=ANYWHERE, dice=lambda: 0.0)
            for database in databases
        ]

    def tick(self, after_s: float = 0.0) -> None:
        """All of them at once; returns when all have sent what they took."""
        self.now += timedelta(seconds=after_s)
        at_once([lambda one=one: self._tick(one) for one in self.deliverers])

    def _tick(self, deliverer: Deliverer) -> None:
        deliverer.tick(self.now)
        assert deliverer.settle(30)


def at_once(deeds: Sequence[Callable[[], object]]) -> None:
    together = threading.Barrier(len(deeds))

    def run(deed: Callable[[], object]) -> None:
        together.wait()
        deed()

    with ThreadPoolExecutor(len(deeds)) as threads:
        for done in [threads.submit(run, deed) for deed in deeds]:
            done.result()


def write(database: Database, destination: int, *letters: tuple[str, str]) -> None:
    """letters: fingerprint and status, in the order in which they happened."""
    with database.session() as session:
        for fingerprint, status in letters:
            session.add(
                DeliveryRow(
                    alert_id=1,
                    destination_id=destination,
                    fingerprint=fingerprint,
                    status=status,
                    state="waiting",
                    idempotency_key=f"{destination}:{fingerprint}:{status}",
                    body="{}",
                    created_at=NOW,
                    waits_since=NOW,
                    next_attempt_at=NOW,
                )
            )
            session.flush()


def keys_of(receiver: Any) -> list[str]:
    return [headers["Idempotency-Key"] for headers, _ in receiver.got]


def in_order(keys: Sequence[str]) -> bool:
    """Whether of each alert "firing" was first taken before "resolved"."""
    ends = (key for key in keys if key.endswith("resolved"))
    return all(keys.index(key.replace("resolved", "firing")) < keys.index(key) for key in ends)


def states(database: Database) -> Counter[str]:
    with database.session() as session:
        return Counter(session.exec(select(DeliveryRow.state)))


def test_each_letter_is_sent_once_and_in_order(databases: list[Database], receiver: Any) -> None:
    lives = [(f"alert-{number}", status) for number in range(ALERTS) for status in ("firing", "resolved")]
    for _ in range(3):
        write(databases[0], add_destination(databases[0], receiver.url, NOW), *lives)
    fleet = Fleet(databases)
    for _ in range(ROUNDS):
        fleet.tick(1)
    keys = keys_of(receiver)
    assert set(Counter(keys).values()) == {1} and len(keys) == 3 * ALERTS * 2
    assert in_order(keys)
    assert sum(deliverer.delivered for deliverer in fleet.deliverers) == len(keys)


def test_order_holds_where_the_first_fails_at_one_and_others_are_there_for_the_second(
    databases: list[Database], receiver: Any
) -> None:
    """Receivers that fail at random: of each alert the second waits, whichever replica tries the first again."""
    destination = add_destination(databases[0], receiver.url, NOW)
    write(
        databases[0], destination, *((f"alert-{n}", status) for n in range(ALERTS) for status in ("firing", "resolved"))
    )
    dice = random.Random(5)
    receiver.answers = [500 if dice.random() < 0.4 else 200 for _ in range(60)]
    answers = list(receiver.answers)
    fleet = Fleet(databases)
    for _ in range(40):
        fleet.tick(30)
    taken = [key for key, answer in zip(keys_of(receiver), [*answers, *[200] * 999], strict=False) if answer == 200]
    assert states(databases[0]) == {"delivered": 2 * ALERTS}
    assert set(Counter(taken).values()) == {1} and in_order(taken)


def test_all_replicas_together_keep_a_destinations_rate(databases: list[Database], receiver: Any) -> None:
    per_minute, letters = 60, 40
    destination = add_destination(databases[0], receiver.url, NOW)
    with databases[0].session() as session:
        session.get_one(DestinationRow, destination).per_minute = per_minute
    write(databases[0], destination, *((str(number), "firing") for number in range(letters)))
    fleet = Fleet(databases)
    burst = int(capacity(per_minute))
    fleet.tick()
    assert len(receiver.got) == burst
    for second in range(1, letters - burst + 1):
        fleet.tick(1)
        assert len(receiver.got) == burst + second  # One a second, from all of them together.
    fleet.tick(60)
    assert len(receiver.got) == letters and states(databases[0]) == {"delivered": letters}


def test_what_a_sender_that_lives_has_is_nobody_elses_before_the_leases_end(
    databases: list[Database], receiver: Any
) -> None:
    destination = add_destination(databases[0], receiver.url, NOW)
    write(databases[0], destination, ("a", "firing"), ("a", "resolved"), ("b", "firing"))
    stuck = OutboxQueue(databases[0], None, lambda: 0.0)
    stuck.due(NOW)
    (first, second) = stuck.take(destination, NOW, 20)
    assert [first.letter.fingerprint, second.letter.fingerprint] == ["a", "b"]
    fleet = Fleet(databases[1:])
    fleet.tick(LEASE_S - 1)
    assert receiver.got == []  # Neither its letters, nor the one that follows one of them.
    fleet.tick(1)
    fleet.tick(1)
    assert sorted(keys_of(receiver)) == [f"{destination}:{what}" for what in ("a:firing", "a:resolved", "b:firing")]
    assert in_order(keys_of(receiver))
    stuck.record([Done(one, Attempt(Outcome.RETRY, "late"), fleet.now) for one in (first, second)])
    assert states(databases[0]) == {"delivered": 3}


def test_what_a_killed_sender_had_is_anothers_at_once(databases: list[Database], receiver: Any) -> None:
    destination = add_destination(databases[0], receiver.url, NOW)
    write(databases[0], destination, ("a", "firing"), ("a", "resolved"), ("b", "firing"))
    killed = OutboxQueue(databases[0], None, lambda: 0.0)
    killed.due(NOW)
    assert len(killed.take(destination, NOW, 20)) == 2
    databases[0].close()  # Its connections end, as when its process is killed.
    fleet = Fleet(databases[1:])
    fleet.tick(1)
    fleet.tick(1)
    assert len(keys_of(receiver)) == len(set(keys_of(receiver))) == 3 and in_order(keys_of(receiver))


def test_of_many_that_take_at_once_each_letter_is_leased_to_one(databases: list[Database], receiver: Any) -> None:
    destination = add_destination(databases[0], receiver.url, NOW)
    write(databases[0], destination, *((str(number), "firing") for number in range(60)))
    queues = [OutboxQueue(database, None, lambda: 0.0) for database in databases]
    for queue in queues:
        assert queue.due(NOW)  # Each is among the living.
    leased: list[int] = []
    for _ in range(4):
        at_once([lambda one=one: leased.extend(_numbers(one, destination)) for one in queues])
    assert len(leased) == len(set(leased)) == 60
    with databases[0].session() as session:
        assert set(session.exec(select(DeliveryRow.attempts).order_by(col(DeliveryRow.id)))) == {1}


def test_a_late_record_and_a_new_lease_of_the_same_letters_wait_for_each_other_in_one_order(
    databases: list[Database], receiver: Any
) -> None:
    """Both write the destination and its letters: in another order each, PostgreSQL would end one (a deadlock)."""
    late, other = (OutboxQueue(database, None, lambda: 0.0) for database in databases[:2])
    destination = add_destination(databases[0], receiver.url, NOW)
    for round_ in range(8):
        write(databases[0], destination, *((f"{round_}:{number}", "firing") for number in range(20)))
        for queue in (late, other):
            queue.due(NOW)
        at = NOW + timedelta(seconds=LEASE_S)
        done = [Done(lease, Attempt(), NOW) for lease in late.take(destination, NOW, 20)]
        at_once([partial(late.record, done), partial(other.take, destination, at, 20)])
        other.take(destination, at, 20)
        assert states(databases[0]) == {"delivered": 20 * (round_ + 1)}


def _numbers(queue: OutboxQueue, destination: int) -> list[int]:
    return [lease.letter.delivery_id for lease in queue.take(destination, NOW, 7)]
