"""Hundreds of alerts in one tick: written in short transactions, each told once, wherever the service dies."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import col, select

from controlplane.alerts import store
from controlplane.alerts.conditions.kind import Findings
from controlplane.alerts.evaluator import DRAFTS_AT_ONCE, AlertEvaluator, Outcome, parts_of
from controlplane.alerts.lives.lifecycle import Draft
from controlplane.alerts.lives.machine import Event, Life
from controlplane.alerts.tables import AlertRow, DeliveryRow, DestinationRow, DetectorStateRow
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.alerts import AlertRuleCreate, AlertState, DriftCondition
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.db import Database
from controlplane.fleet import revisions
from controlplane.fleet import store as fleet
from controlplane.fleet.tables import NodeRow

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
NODES, DESTINATIONS = 2 * DRAFTS_AT_ONCE + 20, 2


class Power(BaseException):
    """The service dies."""


def drafts_of(job: int, ends: list[bool]) -> list[Draft]:
    return [
        Draft(f"{job}.{place}", {}, Life(AlertState.FIRING, NOW), events=[Event.RESOLVED if ended else Event.FIRED])
        for place, ended in enumerate(ends)
    ]


@given(st.lists(st.lists(st.booleans(), max_size=4 * DRAFTS_AT_ONCE), max_size=5))
def test_parts_are_short_and_hold_everything_once(jobs: list[list[bool]]) -> None:
    job: Any = None  # What is judged does not matter here.
    wanted = [
        Outcome(job, NOW, Findings([], {"job": place}), drafts_of(place, ends)) for place, ends in enumerate(jobs)
    ]
    parts = list(parts_of(wanted))
    written = [(one.findings.state["job"], draft) for part in parts for one in part for draft in one.drafts]
    assert Counter((place, draft.fingerprint) for place, draft in written) == Counter(
        (place, draft.fingerprint) for place, outcome in enumerate(wanted) for draft in outcome.drafts
    )
    for part in parts:
        assert sum(Event.FIRED in draft.events for one in part for draft in one.drafts) <= DRAFTS_AT_ONCE
    for place in range(len(jobs)):
        of_job = [one for part in parts for one in part if one.findings.state["job"] == place]
        assert [one.more_follow for one in of_job] == [True] * (len(of_job) - 1) + [False]
        assert not any(Event.RESOLVED in draft.events for one in of_job[:-1] for draft in one.drafts)


@pytest.fixture
def drifted(database: Database) -> Database:
    """Nodes that all run something else than they should."""
    with database.session() as session:
        store.create_rule(session, AlertRuleCreate(name="drift", condition=DriftCondition(for_s=0)), NOW)
        session.add_all(
            DestinationRow(name=f"pager {number}", shown="http://127.0.0.1:9/x", created_at=NOW)
            for number in range(DESTINATIONS)
        )
        wanted = revisions.find_or_create(session, RevisionCreate(knobs={"max_num_seqs": 8}), actor="x", now=NOW)[0]
        for number in range(NODES):
            name = f"gpu-{number:03}"
            fleet.enrol(session, EnrolmentRequest(node=name, pool="main", backend="e"), actor="x", now=NOW)
            row = session.get(NodeRow, name)
            assert row is not None
            row.effective = {"revision": 1, "knobs": {"max_num_seqs": 32}}
            session.add(row)
        fleet.set_pool_revision(session, "main", wanted.number, NOW)
    return database


def told(database: Database) -> Counter[int]:
    """Alert to how many deliveries there are of it."""
    with database.session() as session:
        return Counter(session.exec(select(DeliveryRow.alert_id)))


@pytest.mark.slow
@pytest.mark.parametrize("dies_after", [0, 1, 2, None])
def test_each_is_told_once_wherever_the_service_dies(
    drifted: Database, telemetry: Any, monkeypatch: pytest.MonkeyPatch, dies_after: int | None
) -> None:
    evaluator = AlertEvaluator(drifted, telemetry)
    write, sizes = evaluator._write, []

    def counted(outcomes: Any, now: datetime) -> None:
        if len(sizes) == dies_after:
            raise Power
        sizes.append(sum(len(outcome.drafts) for outcome in outcomes))
        write(outcomes, now)

    monkeypatch.setattr(evaluator, "_write", counted)
    if dies_after is None:
        evaluator.tick(NOW + timedelta(seconds=30))
        assert max(sizes) <= DRAFTS_AT_ONCE and sum(sizes) == NODES
    else:
        with pytest.raises(Power):
            evaluator.tick(NOW + timedelta(seconds=30))
        assert len(told(drifted)) == dies_after * DRAFTS_AT_ONCE
        with drifted.session() as session:
            assert session.exec(select(DetectorStateRow)).all() == [], "its position has not moved"
        AlertEvaluator(drifted, telemetry).tick(NOW + timedelta(seconds=35))
    assert told(drifted) == dict.fromkeys(told(drifted), DESTINATIONS) and len(told(drifted)) == NODES
    with drifted.session() as session:
        assert {row.state for row in session.exec(select(AlertRow).order_by(col(AlertRow.id)))} == {"firing"}
        assert len(session.exec(select(DetectorStateRow)).all()) == 1


@pytest.mark.slow
def test_a_part_that_cannot_be_written_keeps_the_position(
    drifted: Database, telemetry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator = AlertEvaluator(drifted, telemetry)
    write, calls = evaluator._write, []

    def fails_second(outcomes: Any, now: datetime) -> None:
        calls.append(outcomes)
        if len(calls) == 2:
            raise RuntimeError("refused")
        write(outcomes, now)

    monkeypatch.setattr(evaluator, "_write", fails_second)
    evaluator.tick(NOW + timedelta(seconds=30))
    assert len(calls) == 2 and evaluator.failing == ["drift on the fleet"]
    assert len(told(drifted)) == DRAFTS_AT_ONCE
    evaluator.tick(NOW + timedelta(seconds=35))
    assert evaluator.failing == [] and told(drifted) == dict.fromkeys(told(drifted), DESTINATIONS)
    assert len(told(drifted)) == NODES
