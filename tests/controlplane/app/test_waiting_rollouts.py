"""Rollouts that wait for somebody are told: real rollouts, the evaluator, alerts and their deliveries."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

import controlplane.app.tables  # noqa: F401
from controlplane.alerts import store as alerts
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.alerts.tables import DeliveryRow, DestinationRow
from controlplane.contract.bodies.alerts import AlertRuleCreate, AlertState, RolloutWaitsCondition, Severity
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.rollouts import steering, store
from controlplane.rollouts.tables import RolloutRow
from tests.controlplane.telemetry.fake_reader import FakeReader
from tests.made_tables import create_tables

NOW = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)
HELD = "inconclusive: not enough evidence within 120 s, and no harm: held for a person to decide"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(f"sqlite:///{tmp_path / 'waiting.db'}")
    create_tables(found)
    with found.session() as session:
        for node in ("a", "b"):
            row = fleet.place(session, node, pool="chat", role="serving", backend="embedded", now=NOW)
            row.connected = row.healthy = True
        for seqs in (8, 16):
            fleet.create_revision(session, RevisionCreate(knobs={"max_num_seqs": seqs}), "t", NOW)
        fleet.set_pool_revision(session, "chat", 1, NOW)
        session.add(DestinationRow(name="pager", shown="http://127.0.0.1:9/x", created_at=NOW))
    yield found
    found.close()


class Service:
    """The evaluator, made anew for each tick as after a restart."""

    def __init__(self, database: Database, **rule: Any) -> None:
        self.database = database
        with database.session() as session:
            wanted = {"name": "A rollout waits", "severity": Severity.TICKET, "condition": RolloutWaitsCondition()}
            alerts.create_rule(session, AlertRuleCreate.model_validate({**wanted, **rule}), NOW)

    def tick(self, seconds: float) -> list[Any]:
        """The open alerts after it."""
        evaluator = AlertEvaluator(self.database, FakeReader(), rollouts=store.waiting)
        evaluator.tick(NOW + timedelta(seconds=seconds))
        assert evaluator.failing == []
        with self.database.read_session() as session:
            found = alerts.alerts(session, before_id=None, limit=100)
        return [one for one in found if one.state is not AlertState.RESOLVED]

    def rollout(self, **changes: Any) -> int:
        with self.database.session() as session:
            spec = RolloutCreate.model_validate({"pool": "chat", "revision": 2, **changes})
            return store.create(session, spec, actor="ann", now=NOW).id

    def change(self, rollout: int, **values: Any) -> None:
        with self.database.session() as session:
            session.add(session.get_one(RolloutRow, rollout).sqlmodel_update(values))


def test_an_undecided_canary_that_is_held_is_told_after_a_minute_and_ends_when_it_goes_on(database: Database) -> None:
    service = Service(database)
    rollout = service.rollout()
    assert service.tick(0) == []
    held = {"phase": "paused", "resumes": "judging", "message": HELD, "step_since": NOW + timedelta(seconds=100)}
    service.change(rollout, **held)
    assert service.tick(105) == [] and service.tick(155) == []
    (alert,) = service.tick(160)
    assert alert.state is AlertState.FIRING and alert.severity is Severity.TICKET
    assert alert.labels == {"kind": "rollout_waits", "pool": "chat", "rollout": str(rollout)}
    assert alert.summary == f"rollout {rollout} of revision 2 to pool chat waits: {HELD}."
    assert alert.evidence["next"] == "a person resumes or aborts it; harm takes it back by itself"
    assert [one.id for one in service.tick(4000)] == [alert.id]
    with database.session() as session:
        steering.resume(session, rollout, actor="ann", now=NOW + timedelta(seconds=4001))
    assert service.tick(4005) == []
    with database.read_session() as session:
        assert [row.status for row in session.exec(select(DeliveryRow))] == ["firing", "resolved"]


def test_one_that_a_person_has_paused_is_nobody_else_s_affair(database: Database) -> None:
    service = Service(database)
    rollout = service.rollout()
    service.change(rollout, phase="judging", step_since=NOW)
    with database.session() as session:
        steering.pause(session, rollout, actor="ann", now=NOW)
    assert service.tick(3600) == []


def test_an_approval_is_waited_for_in_pools_of_the_rule_alone(database: Database) -> None:
    service = Service(database, pool="other")
    rollout = service.rollout(wants_approval=True)
    assert service.tick(3600) == []
    elsewhere = Service(database, name="chat's", pool="chat", condition=RolloutWaitsCondition(after_s=0))
    (alert,) = elsewhere.tick(3605)
    assert alert.evidence["phase"] == "awaiting_approval" and "another than who proposed it" in alert.summary
    with database.session() as session:
        steering.cancel(session, rollout, actor="bob", now=NOW + timedelta(seconds=3606))
    assert elsewhere.tick(3610) == []
