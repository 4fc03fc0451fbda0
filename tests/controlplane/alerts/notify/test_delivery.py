"""The outbox against a real HTTP server that fails first."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlmodel import select

from controlplane import ledger
from controlplane.alerts.notify import outbox
from controlplane.alerts.notify.delivery import Deliverer
from controlplane.alerts.store import delete_destination
from controlplane.alerts.tables import AlertRow, DeliveryRow, DestinationRow
from controlplane.alerts.view import alert_view
from controlplane.contract import signature
from controlplane.contract.bodies.ledger import LedgerHead
from controlplane.contract.retry import doubling_s
from controlplane.db import Database
from controlplane.ledger import signing
from controlplane.outgoing import ANYWHERE
from tests import keyrings
from tests.keyrings import keyring_of

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECRET = "a long secret"


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def add_destination(database: Database, url: str) -> int:
    return keyrings.add_destination(database, url, NOW, secret=SECRET)


def fire(database: Database, *, resolve: bool = False) -> int:
    """An alert that has fired (and resolved), with its deliveries in the outbox."""
    with database.session() as session:
        row = AlertRow(
            fingerprint="f" * 16,
            rule_id=1,
            rule="Latency regression",
            kind="regression",
            pool="main",
            state="firing",
            severity="page",
            labels={"pool": "main", "metric": "ttft"},
            summary="TTFT p99 rose",
            started_at=NOW,
            breach_since=NOW,
            fired_at=NOW,
            value=1.9,
            threshold=0.21,
            evidence={"error_rate": {"statement": "one false alarm in 7 days"}},
            diagnosis={"stage": "prefill", "summary": "TTFT p99 rose", "causes": [{"message": "a knob"}]},
        )
        session.add(row)
        session.flush()
        outbox.enqueue_firing(session, alert_view(row), NOW, "http://tailwright")
        if resolve:
            row.state, row.resolved_at = "resolved", NOW + seconds(60)
            session.add(row)
            outbox.enqueue_resolved(session, alert_view(row), NOW, "http://tailwright")
        assert row.id is not None
        return row.id


class Sender:
    """A deliverer at a time of the test's own, each of whose ticks is seen to its end."""

    def __init__(self, database: Database, http: httpx.Client | None = None, ledger_key: bytes | None = None) -> None:
        self.now = NOW
        self.deliverer = Deliverer(
            database,
            keyring_of(database),
            http,
            lambda: self.now,
            policy=ANYWHERE,
            ledger_key=ledger_key,
            dice=lambda: 0.0,
        )

    def tick(self, now: datetime) -> int:
        """How many were delivered."""
        self.now, before = now, self.deliverer.delivered
        self.deliverer.tick(now)
        self.deliverer.settle()
        return self.deliverer.delivered - before


def rows(database: Database) -> list[DeliveryRow]:
    with database.session() as session:
        return list(session.exec(select(DeliveryRow).order_by("id")))


def test_retries_until_answered_and_signs_each_attempt(database: Database, receiver: Any, expected_mac: Any) -> None:
    add_destination(database, receiver.url)
    fire(database)
    receiver.answers = [500, 503]
    deliverer = Sender(database)
    assert [deliverer.tick(NOW + seconds(s)) for s in (0, 0.5, 1, 2, 3, 4)] == [0, 0, 0, 0, 1, 0]
    assert len(receiver.got) == 3
    headers, bodies = zip(*receiver.got, strict=True)
    assert len(set(bodies)) == 1
    assert {header["Idempotency-Key"] for header in headers} == {f"{'f' * 16}:firing:{NOW.isoformat()}"}
    assert {header["Tailwright-Delivery"] for header in headers} == {"1"}
    for header, sent_at in zip(headers, (0, 1, 3), strict=True):
        stamp = str(int((NOW + seconds(sent_at)).timestamp()))
        assert header["Tailwright-Signature"] == f"t={stamp},v1={expected_mac(SECRET, stamp, bodies[0])}"
        assert signature.verify(SECRET, bodies[0], header["Tailwright-Signature"], float(stamp))
    row = rows(database)[0]
    assert (row.state, row.attempts, row.delivered_at, row.last_error) == ("delivered", 3, NOW + seconds(3), None)


def test_each_attempt_carries_the_ledgers_head_signed(database: Database, receiver: Any) -> None:
    key = b"k" * 32
    add_destination(database, receiver.url)
    fire(database)
    receiver.answers = [500]
    deliverer = Sender(database, ledger_key=key)
    heads = []
    for second in range(3):
        with database.session() as session:
            ledger.append(session, NOW, "me", "test.deed", "nothing/1", f"deed {second}")
        deliverer.tick(NOW + seconds(second))
    for headers, _ in receiver.got:
        number, sha, signed_by = headers["Tailwright-Ledger-Head"].split(":")
        heads.append(LedgerHead(id=int(number), hash=sha, signature=signed_by))
    assert len(heads) == 2 and heads[0].id < heads[1].id
    assert all(signing.is_signed(head, key) for head in heads)
    assert not signing.is_signed(heads[0], b"another" * 5)
    with database.read_session() as session:
        entries = {entry.id for entry in ledger.entries(session, before_id=None, limit=100)}
    assert {head.id for head in heads} <= entries


def test_body_is_alertmanagers_with_ours_beside_it(database: Database, receiver: Any) -> None:
    add_destination(database, receiver.url)
    fire(database, resolve=True)
    deliverer = Sender(database)
    for second in range(3):
        deliverer.tick(NOW + seconds(second))
    firing, resolved = receiver.bodies()
    assert firing["version"] == "4" and firing["status"] == "firing" and firing["receiver"] == "pager"
    assert {"groupKey", "groupLabels", "commonLabels", "commonAnnotations", "externalURL"} <= firing.keys()
    alert = firing["alerts"][0]
    assert alert["labels"]["alertname"] == "Latency regression" and alert["labels"]["severity"] == "page"
    assert alert["annotations"]["stage"] == "prefill" and alert["annotations"]["error_rate"]
    assert alert["startsAt"] == NOW.isoformat() and alert["endsAt"].startswith("0001-01-01")
    assert alert["generatorURL"] == "http://tailwright/alerts/1" and alert["fingerprint"] == "f" * 16
    assert all(isinstance(value, str) for value in alert["annotations"].values())
    assert firing["tailwright"]["diagnosis"]["stage"] == "prefill" and firing["tailwright"]["value"] == 1.9
    assert resolved["status"] == "resolved" and resolved["alerts"][0]["endsAt"] == (NOW + seconds(60)).isoformat()


def test_resolved_waits_for_firing(database: Database, receiver: Any) -> None:
    add_destination(database, receiver.url)
    fire(database, resolve=True)
    receiver.answers = [500, 500]
    deliverer = Sender(database)
    for second in range(8):
        deliverer.tick(NOW + seconds(second))
    assert [body["status"] for body in receiver.bodies()] == ["firing", "firing", "firing", "resolved"]


def test_a_dead_destination_does_not_hold_up_another(database: Database, receiver: Any) -> None:
    add_destination(database, "http://127.0.0.1:9/nobody")
    add_destination(database, receiver.url)
    fire(database)
    assert Sender(database).tick(NOW) == 1
    assert [row.state for row in rows(database)] == ["waiting", "delivered"]
    assert "ConnectError" in (rows(database)[0].last_error or "")


def test_gives_up_after_a_day_and_says_so(database: Database) -> None:
    add_destination(database, "http://127.0.0.1:9/nobody")
    fire(database)
    deliverer = Sender(database)
    for _ in range(9):
        deliverer.tick(rows(database)[0].next_attempt_at or NOW)
    row = rows(database)[0]
    assert row.next_attempt_at is not None and row.attempts == 9
    assert row.next_attempt_at - NOW == seconds(sum(doubling_s(n) for n in range(1, 10)))
    deliverer.tick(NOW + timedelta(hours=23, minutes=54))
    assert rows(database)[0].state == "waiting"
    deliverer.tick(NOW + timedelta(hours=23, minutes=59))
    row = rows(database)[0]
    assert row.state == "given_up" and row.attempts == 11 and row.next_attempt_at is None and row.last_error


def test_honours_retry_after(database: Database, receiver: Any) -> None:
    add_destination(database, receiver.url)
    fire(database)
    receiver.answers = [(429, {"Retry-After": "40"})]
    deliverer = Sender(database)
    for second in range(0, 45, 5):
        deliverer.tick(NOW + seconds(second))
    assert len(receiver.got) == 2 and rows(database)[0].delivered_at == NOW + seconds(40)


def test_a_sender_that_dies_is_followed_by_another(database: Database, receiver: Any) -> None:
    add_destination(database, receiver.url)
    fire(database)

    class Died(BaseException):
        """As kill -9 in the middle of a request."""

    def die(request: httpx.Request) -> httpx.Response:
        raise Died

    killed = Sender(database, httpx.Client(transport=httpx.MockTransport(die)))
    with pytest.raises(Died):  # In the tick that began the letter, or in the next one, as its thread gets on.
        for second in range(2):
            killed.tick(NOW + seconds(second))
    assert Sender(database).tick(NOW + seconds(5)) == 0  # Still leased to the dead one.
    assert Sender(database).tick(NOW + seconds(31)) == 1


def test_two_senders_send_once(database: Database, receiver: Any) -> None:
    add_destination(database, receiver.url)
    for _ in range(5):
        fire(database)
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(Sender(database).tick(NOW))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 5 == len(receiver.got)


def test_no_transaction_is_open_while_the_network_is_slow(database: Database) -> None:
    add_destination(database, "http://slow/")
    fire(database)

    def answer(request: httpx.Request) -> httpx.Response:
        with database.session() as session:  # Would wait for the busy time-out if a write lock were held.
            session.add(DestinationRow(name="b", shown="http://b", created_at=NOW))
        return httpx.Response(200)

    assert Sender(database, httpx.Client(transport=httpx.MockTransport(answer))).tick(NOW) == 1


def test_redirects_and_bad_urls_are_errors_not_crashes(database: Database, receiver: Any) -> None:
    add_destination(database, receiver.url)
    add_destination(database, "http://[broken/")
    fire(database)
    receiver.answers = [(302, {"Location": "http://127.0.0.1:9/"})]
    assert Sender(database).tick(NOW) == 0
    assert rows(database)[0].last_error == "answered 302"
    assert rows(database)[1].state == "waiting" and rows(database)[1].last_error


def test_removed_and_disabled_destinations_get_nothing(database: Database, receiver: Any) -> None:
    first, second = add_destination(database, receiver.url), add_destination(database, receiver.url)
    fire(database)
    with database.session() as session:
        delete_destination(session, first, actor="t", now=NOW)
        row = session.get(DestinationRow, second)
        assert row is not None
        row.enabled = False
        session.add(row)
    assert Sender(database).tick(NOW) == 0
    assert [row.state for row in rows(database)] == ["given_up", "given_up"] and receiver.got == []
