"""Nodes as rules see them: as they stand in the database, made anew only where something has changed."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from controlplane.alerts.windows import watched_nodes
from controlplane.alerts.windows.watched_nodes import FEW, WatchedNodes
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import NodeView
from controlplane.db import Database
from controlplane.fleet import store as fleet
from controlplane.fleet.tables import NodeRow

Change = Callable[..., None]
OF_NO_CONCERN = {"last_seen", "healthy", "health_detail", "unaccounted_share"}


@pytest.fixture
def change(database: Database, plant: Any) -> Change:
    with database.session() as session:
        for number in range(FEW + 8):
            wanted = EnrolmentRequest(node=f"n{number:02}", pool=f"p{number % 2}", backend="e")
            fleet.enrol(session, wanted, actor="x", now=plant.now)

    def set_values(*names: str, **values: Any) -> None:
        with database.session() as session:
            for name in names:
                row = session.get(NodeRow, name)
                assert row is not None
                for key, value in values.items():
                    setattr(row, key, value)
                session.add(row)

    return set_values


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was read of the registry."""
    found: list[str] = []

    class Noted:
        @staticmethod
        def nodes(session: Any) -> Any:
            found.append("all")
            return fleet.nodes(session)

        @staticmethod
        def node(session: Any, name: str) -> Any:
            found.append(name)
            return fleet.node(session, name)

    monkeypatch.setattr(watched_nodes, "fleet", Noted)
    return found


def test_follows_every_change_that_rules_look_at(
    database: Database, change: Change, looked_up: list[str], plant: Any
) -> None:
    watched = WatchedNodes()

    def check() -> list[str]:
        looked_up.clear()
        with database.read_session() as session:
            found = watched.read(session)
            truth = fleet.nodes(session)
        assert list(map(of_concern, found)) == list(map(of_concern, truth))
        return looked_up.copy()

    assert check() == ["all"]
    assert check() == []
    change("n03", "n07", drift_since=plant.now)
    assert check() == ["n03", "n07"]
    change("n04", claimed_at=plant.now, last_seen=plant.now - timedelta(seconds=1))
    assert check() == ["n04"]
    change("n04", last_seen=plant.now + timedelta(seconds=1))
    assert check() == ["n04"], "it was heard from since it was claimed"
    change("n04", last_seen=plant.now + timedelta(seconds=2))
    assert check() == []
    change("n03", role="trial")
    assert check() == ["n03"]
    change("n05", effective={"revision": 1, "knobs": {"max_num_seqs": 4}}, config_status="failed", config_error="no")
    assert check() == ["n05"]
    change(*(f"n{number:02}" for number in range(FEW + 1)), connected=True)
    assert check() == ["all"]
    with database.session() as session:
        number = fleet.create_revision(session, RevisionCreate(knobs={"max_num_seqs": 8}), "x", plant.now).number
        fleet.set_pool_revision(session, "p1", number, plant.now)
    assert check() != []
    with database.session() as session:
        fleet.remove(session, "n06", actor="x", now=plant.now)
    assert check() == []


def test_a_heartbeat_is_no_change(database: Database, change: Change, looked_up: list[str], plant: Any) -> None:
    watched = WatchedNodes()
    for beat in range(3):
        with database.read_session() as session:
            watched.read(session)
        change("n01", "n02", last_seen=plant.now + timedelta(seconds=beat), sequence_num=beat, healthy=beat % 2 == 0)
    assert looked_up == ["all"]


def of_concern(view: NodeView) -> dict[str, Any]:
    return view.model_dump(exclude=OF_NO_CONCERN)
