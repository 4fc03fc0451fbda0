"""Receivers that drip or say nothing hold their own letters alone, and what is recorded is what happened."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlmodel import select

from controlplane.alerts.notify import one_attempt
from controlplane.alerts.notify.delivery import Deliverer
from controlplane.alerts.notify.one_attempt import DEADLINE_S
from controlplane.alerts.notify.outbox_queue import LEASE_S, OutboxQueue
from controlplane.alerts.tables import DeliveryRow
from controlplane.db import Database
from controlplane.outgoing import ANYWHERE
from tests import keyrings
from tests.hostile_receiver import HostileReceiver
from tests.keyrings import keyring_of
from tests.processes import wait_for

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
NEVER_S = 60.0


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def add_destination(database: Database, url: str) -> int:
    return keyrings.add_destination(database, url, NOW)


def write_letter(database: Database, destination_id: int, alert_id: int = 1) -> int:
    with database.session() as session:
        row = DeliveryRow(
            alert_id=alert_id,
            destination_id=destination_id,
            fingerprint=f"f{alert_id}",
            status="firing",
            state="waiting",
            idempotency_key=f"{alert_id}",
            body=f'{{"alert": {alert_id}}}',
            created_at=NOW,
            next_attempt_at=NOW,
        )
        session.add(row)
        session.flush()
        return row.id or 0


def row(database: Database, delivery_id: int) -> DeliveryRow:
    with database.session() as session:
        return session.exec(select(DeliveryRow).where(DeliveryRow.id == delivery_id)).one()


@pytest.fixture(params=["never answers", "drips its headers"])
def hostile(request: pytest.FixtureRequest) -> Iterator[HostileReceiver]:
    with HostileReceiver(request.param) as receiver:
        yield receiver


def test_another_destination_is_paged_beside_it(
    database: Database, receiver: Any, hostile: HostileReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_attempt, "DEADLINE_S", NEVER_S)
    slow, quick = add_destination(database, hostile.url), add_destination(database, receiver.url)
    held, *told = [
        write_letter(database, slow),
        write_letter(database, quick),
        write_letter(database, quick, 2),
    ]
    deliverer = Deliverer(database, keyring_of(database), clock=lambda: NOW, policy=ANYWHERE)
    assert deliverer.tick(NOW) == 2
    assert hostile.asked.wait(NEVER_S)
    wait_for("both are delivered", lambda: deliverer.delivered == 2)
    later = write_letter(database, quick, 3)
    wait_for("the next one is begun", lambda: deliverer.tick(NOW) == 1)
    wait_for("it is delivered too", lambda: deliverer.delivered == 3)
    assert {row(database, letter).state for letter in (*told, later)} == {"delivered"}
    # All of this time the first letter was under way, once.
    assert (row(database, held).attempts, row(database, held).last_error, hostile.connections) == (1, None, 1)
    hostile.end()
    assert deliverer.settle(NEVER_S)


def test_the_attempt_ends_at_its_deadline_and_is_recorded(
    database: Database, hostile: HostileReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_attempt, "DEADLINE_S", 0.2)
    letter = write_letter(database, add_destination(database, hostile.url))
    now = [NOW]
    deliverer = Deliverer(database, keyring_of(database), clock=lambda: now[0], policy=ANYWHERE, dice=lambda: 0.0)
    for attempt, wait in ((1, 1), (2, 2)):
        deliverer.tick(now[0])
        assert deliverer.settle(NEVER_S)
        found = row(database, letter)
        assert (found.state, found.attempts) == ("waiting", attempt)
        assert found.last_error == "DeadlineExceeded: no whole answer within 0.2 s"
        assert found.next_attempt_at == now[0] + seconds(wait)
        now[0] += seconds(wait)
    assert hostile.connections == 2


def test_two_replicas_never_send_a_letter_at_the_same_time(database: Database, hostile: HostileReceiver) -> None:
    letter = write_letter(database, add_destination(database, hostile.url))
    first, second = (
        Deliverer(database, keyring_of(database), clock=lambda: NOW + seconds(DEADLINE_S), policy=ANYWHERE)
        for _ in range(2)
    )
    first.tick(NOW + seconds(DEADLINE_S))
    assert hostile.asked.wait(NEVER_S)
    for after_s in (0, DEADLINE_S, 2 * DEADLINE_S - 0.001):
        assert second.tick(NOW + seconds(DEADLINE_S + after_s)) == 0
    # So the first is over before its lease is, however its clock and the second's differ a little.
    assert DEADLINE_S <= LEASE_S / 2
    assert (hostile.connections, row(database, letter).attempts) == (1, 1)
    hostile.end()
    assert first.settle(NEVER_S)


def test_delivered_at_is_the_time_of_the_answer(database: Database) -> None:
    now = [NOW]

    def answer(_: httpx.Request) -> httpx.Response:
        now[0] += seconds(4)
        return httpx.Response(200)

    letter = write_letter(database, add_destination(database, "http://slow/"))
    deliverer = Deliverer(
        database, keyring_of(database), httpx.Client(transport=httpx.MockTransport(answer)), lambda: now[0]
    )
    deliverer.tick(NOW)
    assert deliverer.settle(NEVER_S)
    assert row(database, letter).delivered_at == NOW + seconds(4)


@pytest.mark.parametrize("first_status", [500, 200])
def test_whoever_was_overtaken_does_not_undo_what_came_after(database: Database, first_status: int) -> None:
    """A replica that was stopped for longer than its lease (SIGSTOP, a virtual machine that moved) goes on later."""
    letter = write_letter(database, add_destination(database, "http://there/"))
    overtaking = NOW + seconds(LEASE_S + 1)

    def overtaken(_: httpx.Request) -> httpx.Response:
        other = Deliverer(
            database,
            keyring_of(database),
            httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(503))),
            lambda: overtaking,
            dice=lambda: 0.0,
        )
        other.tick(overtaking)
        assert other.settle(NEVER_S)
        return httpx.Response(first_status)

    deliverer = Deliverer(
        database, keyring_of(database), httpx.Client(transport=httpx.MockTransport(overtaken)), lambda: NOW
    )
    deliverer.tick(NOW)
    assert deliverer.settle(NEVER_S)
    found = row(database, letter)
    if first_status == 200:
        assert (found.state, found.delivered_at, found.attempts) == ("delivered", NOW, 2)
    else:
        assert (found.state, found.last_error, found.attempts) == ("waiting", "answered 503", 2)
        assert found.next_attempt_at == overtaking + seconds(2)


def test_threads_are_bounded_and_a_new_page_goes_before_retries(database: Database, receiver: Any) -> None:
    with HostileReceiver("never answers") as hostile:
        for alert in (1, 2, 3):
            write_letter(database, add_destination(database, hostile.url), alert)
        deliverer = Deliverer(database, keyring_of(database), clock=lambda: NOW, policy=ANYWHERE, most_at_once=2)
        assert deliverer.tick(NOW) == 2
        assert deliverer.tick(NOW) == 0
        assert sum(thread.name.startswith("webhook-") for thread in threading.enumerate()) == 2
        hostile.end()
        assert deliverer.settle(NEVER_S)
    write_letter(database, add_destination(database, receiver.url), 4)
    due = [one.destination_id for one in OutboxQueue(database, None, lambda: 0.0).due(NOW + seconds(60))]
    assert due[:2] == [3, 4] and set(due[2:]) == {1, 2}


def test_what_goes_wrong_on_this_side_is_the_next_tick_s_failure(database: Database) -> None:
    class Broken(Exception):
        pass

    def fail(_: httpx.Request) -> httpx.Response:
        raise Broken

    write_letter(database, add_destination(database, "http://there/"))
    deliverer = Deliverer(
        database, keyring_of(database), httpx.Client(transport=httpx.MockTransport(fail)), lambda: NOW
    )
    with pytest.raises(Broken):
        deliverer.tick(NOW)  # Or it is over already, and this one raises.
        assert deliverer.settle(NEVER_S)
        deliverer.tick(NOW)
    assert deliverer.tick(NOW) == 0
