"""Many pools in one tick: what they cost, and that they stay apart."""

from collections import Counter
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import event
from sqlmodel import select

from controlplane.alerts import store
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.alerts.lives.lifecycle import Scribe
from controlplane.alerts.tables import DetectorStateRow
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.alerts import AbsoluteCondition, AlertRuleCreate, DriftCondition, RegressionCondition
from controlplane.contract.bodies.slo import Limit
from controlplane.db import Database
from controlplane.fleet import store as fleet
from controlplane.fleet.tables import NodeRow

LIMIT = Limit(metric="ttft", q=0.95, limit_s=0.6)


def add_rule(database: Database, condition: Any, now: datetime, **more: Any) -> None:
    with database.session() as session:
        store.create_rule(session, AlertRuleCreate(name="rule", condition=condition, **more), now)


def positions(database: Database) -> dict[tuple[int, str], datetime]:
    with database.read_session() as session:
        return {(row.rule_id, row.pool): row.position for row in session.exec(select(DetectorStateRow))}


class Fleet:
    """Pools that serve in step, a regression rule over all of them and a limit for each."""

    def __init__(self, database: Database, telemetry: Any, new_plant: Any, pools: int) -> None:
        self.telemetry = telemetry
        self.plants = [new_plant(telemetry, pool=f"p{n}", node=f"n{n}", seed=n) for n in range(pools)]
        self.evaluator = AlertEvaluator(database, telemetry)
        add_rule(database, RegressionCondition(), self.plants[0].now)
        for plant in self.plants:
            add_rule(database, AbsoluteCondition(limits=[LIMIT], window_s=30), plant.now, pool=plant.pool)

    def tick(self, **how: Any) -> None:
        for plant in self.plants:
            plant.serve(5, **how)
        self.evaluator.tick(self.plants[0].now)


@pytest.mark.parametrize("pools", [2, 7])
def test_what_is_asked_does_not_grow_with_the_pools(
    database: Database, telemetry: Any, new_plant: Any, pools: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(database, telemetry, new_plant, pools)
    for _ in range(6):
        fleet.tick()
    asked: Counter[str] = Counter()
    for name in ("histograms", "scalars", "counts", "latest"):
        truth = getattr(telemetry, name)
        monkeypatch.setattr(
            telemetry, name, lambda *a, _of=truth, _as=name, **how: (asked.update([_as]), _of(*a, **how))[1]
        )
    fleet.tick()
    # Histories: five metrics, the tokens of prompts, and finished requests by one. The limits: one metric.
    # Which pools there are: by two.
    assert asked == {"histograms": 5 + 1, "scalars": 4, "counts": 1 + 2, "latest": 1}
    assert len(set(positions(database).values())) == 1 and len(positions(database)) == 2 * pools


@pytest.mark.slow
def test_what_cannot_be_written_of_one_pool_costs_no_other(
    database: Database, telemetry: Any, new_plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(database, telemetry, new_plant, 3)
    for _ in range(12):
        fleet.tick()
    write = Scribe.write

    def failing(scribe: Scribe, session: Any, rule: Any, draft: Any, silences: Any) -> None:
        write(scribe, session, rule, draft, silences)
        if draft.labels["pool"] == "p1":
            raise RuntimeError("no room")

    monkeypatch.setattr(Scribe, "write", failing)
    for _ in range(8):
        fleet.tick(prefill=12.0)
    with database.read_session() as session:
        found = {
            (alert.labels["pool"], alert.labels["kind"]) for alert in store.alerts(session, before_id=None, limit=99)
        }
    assert found == {(pool, kind) for pool in ("p0", "p2") for kind in ("absolute", "regression")}
    told = positions(database)
    assert max(at for (_, pool), at in told.items() if pool == "p1") < min(
        at for (_, pool), at in told.items() if pool != "p1"
    )
    monkeypatch.undo()
    fleet.tick(prefill=12.0)
    assert len(set(positions(database).values())) == 1  # It has caught up.
    with database.read_session() as session:
        states = [
            alert.state for alert in store.alerts(session, before_id=None, limit=99) if alert.labels["pool"] == "p1"
        ]
    assert states.count("firing") == 2


def test_where_nothing_is_new_of_the_nodes_nothing_is_written(database: Database, telemetry: Any, plant: Any) -> None:
    add_rule(database, DriftCondition(for_s=0), plant.now)
    with database.session() as session:
        fleet.enrol(session, EnrolmentRequest(node="a", pool="main", backend="e"), actor="x", now=plant.now)
    evaluator = AlertEvaluator(database, telemetry)

    def tick(drift_since: datetime | None) -> list[tuple[str, datetime]]:
        with database.session() as session:
            row = session.get(NodeRow, "a")
            assert row is not None
            row.drift_since = drift_since
            session.add(row)
        plant.serve(5)
        evaluator.tick(plant.now)
        with database.read_session() as session:
            states = [alert.state for alert in store.alerts(session, before_id=None, limit=9)]
        return [(*states, *positions(database).values())]  # type: ignore[list-item]

    first = plant.now
    assert tick(None) == tick(None) == [(plant_time(first, 5),)]
    assert tick(plant.now) == [("firing", plant_time(first, 15))]
    assert tick(None) == [("resolved", plant_time(first, 20))]
    assert tick(None) == [("resolved", plant_time(first, 20))]


def plant_time(start: datetime, seconds: float) -> datetime:
    return datetime.fromtimestamp(start.timestamp() + seconds, start.tzinfo)


def test_alerts_that_stay_as_they_are_cost_no_statement(database: Database, telemetry: Any, plant: Any) -> None:
    """A fleet on fire is not written anew with each tick, under the lock that its reports wait for."""
    add_rule(database, DriftCondition(for_s=0), plant.now)
    evaluator = AlertEvaluator(database, telemetry)
    asked: Counter[str] = Counter()
    event.listen(database.engine, "before_cursor_execute", lambda *seen: asked.update([seen[2].split()[0]]))

    def drifting(nodes: range) -> dict[str, int]:
        """Statements of the tick after the one in which these nodes' alerts fired, which has news of one node."""
        with database.session() as session:
            for number in nodes:
                fleet.enrol(
                    session, EnrolmentRequest(node=f"n{number}", pool="main", backend="e"), actor="x", now=plant.now
                )
                session.get_one(NodeRow, f"n{number}").drift_since = plant.now
        plant.serve(5)
        evaluator.tick(plant.now)
        with database.session() as session:
            session.get_one(NodeRow, f"n{nodes[0]}").drift_since = None
        plant.serve(5)
        asked.clear()
        evaluator.tick(plant.now)
        return dict(asked)

    few = drifting(range(3))
    many = drifting(range(10, 40))
    assert few == many
    with database.read_session() as session:
        states = Counter(alert.state.value for alert in store.alerts(session, before_id=None, limit=99))
    assert states == {"firing": 2 + 29, "resolved": 2}
