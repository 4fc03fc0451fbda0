"""Order by fingerprint, the rate, what a destination's health says, and dead letters sent once more."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlmodel import select

from controlplane.alerts import store
from controlplane.alerts.notify.delivery import Deliverer
from controlplane.alerts.notify.outbox_queue import OutboxQueue
from controlplane.alerts.notify.pacing import JITTER, LONGEST_REST_S, OUTAGE, letter_pause_s, rest_s
from controlplane.alerts.notify.token_bucket import Bucket, capacity, filled, next_at
from controlplane.alerts.tables import DeliveryRow, DestinationRow
from controlplane.contract.channels.destinations import DeadLettersReplayed, DestinationHealth
from controlplane.db import Database
from controlplane.outgoing import ANYWHERE
from tests import keyrings
from tests.keyrings import keyring_of

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


class World:
    """A destination at a receiver, and a deliverer at a time of the test's own."""

    def __init__(self, database: Database, url: str, per_minute: int | None = None) -> None:
        self.database, self.now = database, NOW
        self.number = keyrings.add_destination(database, url, NOW)
        with database.session() as session:
            session.get_one(DestinationRow, self.number).per_minute = per_minute
        keys = keyring_of(database)
        self.deliverer = Deliverer(database, keys, None, lambda: self.now, policy=ANYWHERE, dice=lambda: 0.0)

    def write(self, fingerprint: str, body: str = "{}") -> int:
        with self.database.session() as session:
            row = DeliveryRow(
                alert_id=1,
                destination_id=self.number,
                fingerprint=fingerprint,
                status="firing",
                state="waiting",
                idempotency_key=body,
                body=body,
                created_at=self.now,
                waits_since=self.now,
                next_attempt_at=self.now,
            )
            session.add(row)
            session.flush()
            return row.id or 0

    def tick(self, after_s: float = 0.0) -> None:
        self.now += seconds(after_s)
        self.deliverer.tick(self.now)
        assert self.deliverer.settle(30)

    def health(self) -> DestinationHealth:
        with self.database.read_session() as session:
            return store.destinations(session, before_id=None, limit=1, now=self.now)[0].health

    def states(self) -> list[str]:
        with self.database.read_session() as session:
            return list(session.exec(select(DeliveryRow.state).order_by("id")))


def test_of_one_fingerprint_the_second_waits_for_the_first_and_nobody_else_does(
    database: Database, receiver: Any
) -> None:
    world = World(database, receiver.url)
    for fingerprint, body in (("a", "1"), ("a", "2"), ("b", "3")):
        world.write(fingerprint, body)
    receiver.answers = [500]
    world.tick()
    assert [body for _, body in receiver.got] == [b"1", b"3"]
    world.tick(1)
    assert [body for _, body in receiver.got] == [b"1", b"3", b"1", b"2"]


def test_a_letter_that_the_receiver_chokes_on_holds_nobody_up(database: Database, receiver: Any) -> None:
    world = World(database, receiver.url)
    world.write("poison")
    receiver.answers = [500]
    world.tick()
    others = [world.write(str(number), f"{number}") for number in range(10)]
    world.tick(1)
    assert len(receiver.got) == 1 + len(others) + 1


def test_what_a_dead_senders_first_try_cut_off_goes_before_what_gathered_meanwhile_once(database: Database) -> None:
    world = World(database, "http://nobody.test/")

    def taken_and_died_over(most: int) -> list[int]:
        queue = OutboxQueue(database, None, lambda: 0.0, sole=True)
        return [lease.letter.delivery_id for lease in queue.take(world.number, world.now, most)]

    first, second, third = (world.write(name) for name in "abc")
    assert taken_and_died_over(2) == [first, second]
    fourth = world.write("d")
    assert taken_and_died_over(3) == [first, second, third]
    assert taken_and_died_over(9) == [third, fourth, first, second]


@pytest.mark.slow
def test_after_an_outage_all_that_waits_goes_at_once(database: Database, receiver: Any) -> None:
    world = World(database, receiver.url)
    for number in range(30):
        world.write(str(number))
    receiver.answers = [503] * 8
    world.tick()
    assert len(receiver.got) == OUTAGE  # It goes on with others, and rests when they fail, too.
    for _ in range(8 - OUTAGE):
        world.tick(LONGEST_REST_S)
    assert len(receiver.got) == 8 and world.health().failures_in_row == 8
    world.tick(LONGEST_REST_S)
    assert set(world.states()) == {"delivered"}


def test_health_says_how_it_does(database: Database, receiver: Any) -> None:
    world = World(database, receiver.url)
    assert world.health() == DestinationHealth()
    world.write("a")
    world.write("b")
    receiver.answers = [500, (429, {"Retry-After": "50"})]
    world.tick()
    assert world.health() == DestinationHealth(
        failures_in_row=2, last_error="answered 429", rests_until=NOW + seconds(50), waiting=2
    )
    world.tick(49)
    assert len(receiver.got) == 2
    world.tick(1)
    assert world.health() == DestinationHealth(last_success_at=NOW + seconds(50))


def test_the_rate_is_kept_and_told(database: Database, receiver: Any) -> None:
    world = World(database, receiver.url, per_minute=12)
    for number in range(5):
        world.write(str(number))
    world.tick()
    assert len(receiver.got) == 2  # Ten seconds' worth.
    assert world.health().waiting == 3 and world.health().held_by_rate_until == NOW + seconds(5)
    world.tick(4.9)
    assert len(receiver.got) == 2
    for _ in range(3):
        world.tick(5)
    assert len(receiver.got) == 5 and world.health().held_by_rate_until is None


def test_what_is_refused_is_dead_at_once_and_can_be_replayed(database: Database, receiver: Any) -> None:
    world = World(database, receiver.url)
    first, second = world.write("a", "1"), world.write("b", "2")
    receiver.answers = [410, 410]
    world.tick()
    assert world.states() == ["given_up", "given_up"]
    assert (world.health().dead, world.health().failures_in_row, world.health().rests_until) == (2, 0, None)
    world.write("a", "3")
    world.tick(1)
    with database.session() as session:
        done = store.replay_dead(session, world.number, None, actor="t", now=world.now)
    assert done == DeadLettersReplayed(replayed=1, passed_over=1)  # Of "a" something newer has arrived.
    world.tick(1)
    assert [body for _, body in receiver.got] == [b"1", b"2", b"3", b"2"]
    with database.read_session() as session:
        assert session.get_one(DeliveryRow, first).state == "given_up"
        assert session.get_one(DeliveryRow, second).state == "delivered"


def test_a_replayed_letter_has_its_day_again(database: Database) -> None:
    world = World(database, "http://127.0.0.1:9/nobody")
    number = world.write("a")
    world.tick()
    world.tick(24 * 3600)
    assert world.states() == ["given_up"]
    with database.session() as session:
        assert store.replay_dead(session, world.number, [number], actor="t", now=world.now).replayed == 1
    world.tick(1)
    assert world.states() == ["waiting"]


@pytest.mark.parametrize(("pause", "more"), [(letter_pause_s, 0), (rest_s, OUTAGE - 1)])
def test_pauses_are_jittered_and_never_shorter_than_asked_for(pause: Any, more: int) -> None:
    assert pause(3 + more, None, lambda: 0.0) == 4
    assert pause(3 + more, None, lambda: 0.999) == pytest.approx(4 * (1 + JITTER), 1e-3)
    assert pause(1, 40.0, lambda: 0.0) == 40
    assert rest_s(OUTAGE - 1, None, lambda: 0.5) == 0
    assert rest_s(50, None, lambda: 0.0) == LONGEST_REST_S


def test_a_bucket_fills_to_its_capacity_and_no_further() -> None:
    assert capacity(60) == 10 and capacity(1) == 1
    assert filled(None, 60, NOW).tokens == 10
    empty = Bucket(0.0, NOW)
    assert filled(empty, 60, NOW + seconds(3)).tokens == 3
    assert filled(empty, 60, NOW + seconds(3000)).tokens == 10
    assert filled(Bucket(2.0, NOW), 60, NOW - seconds(60)).tokens == 2
    assert next_at(empty, 60, NOW) == NOW + seconds(1) and next_at(Bucket(1.0, NOW), 60, NOW) is None
