"""Acknowledging from Slack and PagerDuty: genuine callbacks acknowledge once, all others do nothing."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from sqlmodel import select

from controlplane import ledger
from controlplane.alerts import store as alerts
from controlplane.alerts.dry_run.dry_run_desk import DryRunDesk
from controlplane.alerts.endpoints import AlertParts
from controlplane.alerts.notify import outbox
from controlplane.alerts.tables import AlertRow, DeliveryRow
from controlplane.alerts.view import alert_view
from controlplane.app.tables import all_tables
from controlplane.auth.token_cache import TokenCache
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.channels.destinations import DestinationCreate
from controlplane.contract.errors import TailwrightError
from controlplane.contract.retention_defaults import LEVELS_S
from controlplane.db import Database
from controlplane.inbound.callback_endpoints import router
from controlplane.incidents import store as incidents
from controlplane.incidents.tables import IncidentRow
from controlplane.outgoing import ANYWHERE
from tests.controlplane.telemetry.fake_reader import FakeReader
from tests.keyrings import keyring_of
from tests.made_tables import create_tables

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECRET = "signing-secret-of-slack"


class World:
    """Two destinations, slack and pagerduty, that were told of an alert whose incident is open."""

    def __init__(self, database: Database) -> None:
        self.database, self.now = database, NOW
        keyring = keyring_of(database)
        app = FastAPI()
        app.include_router(router)
        app.state.service = AlertParts(
            database=database,
            clock=lambda: self.now,
            tokens=TokenCache(database),
            keyring=keyring,
            public_url="https://t.test",
            check_remedy=lambda _: None,
            outgoing=ANYWHERE,
            dry_runs=DryRunDesk(database, FakeReader(), LEVELS_S),
        )

        @app.exception_handler(TailwrightError)
        def answer(_: Request, error: TailwrightError) -> JSONResponse:
            return JSONResponse(error.body(), status_code=error.status)

        self.http = TestClient(app)
        with database.session() as session:

            def made(**wanted: Any) -> int:
                asked = DestinationCreate(name=wanted["kind"].value, **wanted)
                return alerts.create_destination(session, asked, keyring, actor="t", now=NOW).id

            self.slack = made(kind=DestinationKind.SLACK, url="https://s.test/x", callback_secret=SECRET)
            self.pagerduty = made(kind=DestinationKind.PAGERDUTY, secret="key-of-it", callback_secret=SECRET)
            self.deaf = made(kind=DestinationKind.SLACK, url="https://s.test/y")
            about: dict[str, Any] = {"fingerprint": "ab", "rule_id": 1, "rule": "r", "kind": "k", "pool": "p"}
            about |= {"state": "firing", "severity": "page", "labels": {}, "summary": "s", "fired_at": NOW}
            row = AlertRow(**about, started_at=NOW, breach_since=NOW)
            session.add(row)
            session.flush()
            outbox.enqueue_firing(session, alert_view(row), NOW, "https://t.test")
            self.incident = incidents.open_incident(session, alert_view(row), None, {}, NOW)

    def slack_body(self, **other: Any) -> bytes:
        action = {"action_id": "tailwright_acknowledge", "value": "1", **other}
        payload = {"type": "block_actions", "user": {"id": "U1", "username": "ada"}, "actions": [action]}
        return urlencode({"payload": json.dumps(payload)}).encode()

    def from_slack(self, body: bytes, *, at: datetime | None = None, to: int = 0, secret: str = SECRET) -> Any:
        stamp = str(int((at or self.now).timestamp()))
        mac = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
        headers = {"X-Slack-Signature": f"v0={mac}", "X-Slack-Request-Timestamp": stamp}
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        return self.http.post(f"/api/v1/callbacks/slack/{to or self.slack}", content=body, headers=headers)

    def from_pagerduty(self, secret: str = SECRET, **other: Any) -> Any:
        event: dict[str, Any] = {"id": "1", "event_type": "incident.acknowledged", "occurred_at": self.now.isoformat()}
        event |= {"agent": {"summary": "Grace"}, "data": {"incident_key": "ab"}, **other}
        body = json.dumps({"event": event}).encode()
        mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"X-PagerDuty-Signature": f"v1={'0' * 64},v1={mac}", "Content-Type": "application/json"}
        return self.http.post(f"/api/v1/callbacks/pagerduty/{self.pagerduty}", content=body, headers=headers)

    def acknowledged_by(self) -> str | None:
        with self.database.read_session() as session:
            return incidents.incident(session, self.incident, NOW).acknowledged_by

    def letters(self) -> list[tuple[int, str]]:
        with self.database.read_session() as session:
            rows = session.exec(select(DeliveryRow).where(DeliveryRow.status == "acknowledged").order_by("id"))
            return [(row.destination_id, row.idempotency_key) for row in rows]

    def entries(self) -> list[str]:
        with self.database.session() as session:
            return [one.actor for one in ledger.entries(session, before_id=None, limit=9, kind="alert.acknowledged")]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    database = Database(f"sqlite:///{tmp_path}/t.db")
    create_tables(database, all_tables())
    yield World(database)
    database.close()


def test_a_press_in_slack_acknowledges_and_tells_the_others(world: World) -> None:
    assert world.from_slack(world.slack_body()).status_code == 204
    assert world.acknowledged_by() == "ada by slack" and world.entries() == ["ada by slack"]
    assert [number for number, _ in world.letters()] == [world.slack, world.pagerduty, world.deaf]
    world.now += timedelta(seconds=5)
    assert world.from_slack(world.slack_body()).status_code == 204  # A second press of somebody.
    assert len(world.entries()) == 1 and len(world.letters()) == 3


def test_pagerduty_acknowledges_and_is_not_told_what_it_said(world: World) -> None:
    assert world.from_pagerduty(event_type="incident.triggered").status_code == 204
    assert world.acknowledged_by() is None
    assert world.from_pagerduty().status_code == 204
    assert world.acknowledged_by() == "Grace by pagerduty"
    assert [number for number, _ in world.letters()] == [world.slack, world.deaf]


def test_what_is_not_genuine_is_refused_alike(world: World) -> None:
    body = world.slack_body()
    unsigned = world.http.post(f"/api/v1/callbacks/slack/{world.slack}", content=body)
    answers: list[Any] = [
        unsigned,
        world.from_slack(body, secret="another secret"),
        world.from_slack(body, to=world.deaf, secret="nobody knows this one"),
        world.from_slack(body, to=world.pagerduty),
        world.from_slack(body, to=999),
        world.from_pagerduty(secret="another secret"),
    ]
    assert {one.status_code for one in answers} == {401}
    assert len({one.text for one in answers}) == 1
    old = world.from_pagerduty(occurred_at=(world.now - timedelta(hours=2)).isoformat())
    assert old.status_code == 401
    assert world.acknowledged_by() is None and world.entries() == []


@pytest.mark.parametrize("off_s", [-301, 301])
def test_what_slack_signed_too_far_from_now_says_that_it_is_the_time(world: World, off_s: int) -> None:
    body = world.slack_body()
    answer = world.from_slack(body, at=world.now + timedelta(seconds=off_s))
    assert answer.status_code == 401 and answer.json()["error"]["detail"]["field"] == "X-Slack-Request-Timestamp"
    assert "301 s from now" in answer.text and "compare the clock" in answer.text
    unknown = world.from_slack(body, at=world.now + timedelta(seconds=off_s), secret="another secret")
    assert unknown.json()["error"]["detail"]["field"] == "signature", (
        "who does not know the secret learns nothing of clocks"
    )
    assert world.acknowledged_by() is None and world.entries() == []


@pytest.mark.parametrize("header", ["v0=", "v0", "", "é", "v1=00", "v0=" + "0" * 2000])
def test_malformed_headers_are_refused(world: World, header: str) -> None:
    headers: dict[bytes, bytes] = {b"X-Slack-Signature": header.encode(), b"X-Slack-Request-Timestamp": b"9" * 12}
    answer = world.http.post(f"/api/v1/callbacks/slack/{world.slack}", content=b"x", headers=headers)
    assert answer.status_code == 401


def test_a_callback_is_taken_once(world: World) -> None:
    body = world.slack_body()
    assert world.from_slack(body).status_code == 204
    with world.database.session() as session:  # As if it had been opened again since.
        row = session.get_one(IncidentRow, world.incident)
        row.acknowledged_at, row.acknowledged_by = None, None
        row.state = "open"
    assert world.from_slack(body).status_code == 204
    assert world.acknowledged_by() is None
    world.now += timedelta(seconds=1)
    assert world.from_slack(body).status_code == 204  # Pressed anew.
    assert world.acknowledged_by() == "ada by slack"


def test_it_may_only_acknowledge_what_it_was_told_of(world: World) -> None:
    assert world.from_slack(world.slack_body(value="99")).status_code == 404
    with world.database.session() as session:
        for row in session.exec(select(DeliveryRow).where(DeliveryRow.destination_id == world.slack)):
            session.delete(row)
    assert world.from_slack(world.slack_body()).status_code == 404
    assert world.from_slack(world.slack_body(action_id="another")).status_code == 204
    assert world.acknowledged_by() is None


@pytest.mark.parametrize("body", [b"", b"payload=", b"payload=[]", b"payload=%7B", b"\xff", b"payload=" + b"[" * 9000])
def test_a_genuine_callback_that_says_nonsense_is_a_400(world: World, body: bytes) -> None:
    assert world.from_slack(body).status_code == 400


def test_callbacks_are_bounded_in_size_and_number(world: World) -> None:
    assert world.from_slack(b"x" * (65 << 10)).status_code == 413
    answers = [world.from_slack(b"x", secret="wrong one").status_code for _ in range(40)]
    assert 429 in answers and set(answers) == {401, 429}
    world.now += timedelta(seconds=30)
    assert world.from_slack(world.slack_body()).status_code == 204
