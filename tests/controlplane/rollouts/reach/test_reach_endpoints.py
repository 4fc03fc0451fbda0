"""What a rollout would reach, from the registry and from what was served; and its limit, at each way to begin."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.changes.blast_radius import BlastLimit
from controlplane.contract.errors import Conflict
from controlplane.db.database import Database
from controlplane.rollouts.reach.reach_endpoints import WHILE_S, ReachDesk
from tests.controlplane.telemetry.fake_reader import FakeReader


@pytest.fixture
def spec(fleet: Any) -> RolloutCreate:
    fleet.add("a", "b")
    fleet.add("c", pool="code")
    fleet.add("t", role="trial")
    old, new = fleet.revision(16), fleet.revision(64)
    fleet.put_in_production(old)
    return RolloutCreate(pool="chat", revision=new)


def test_traffic_is_that_of_serving_nodes_now(
    database: Database, telemetry: FakeReader, spec: RolloutCreate, start: datetime
) -> None:
    old = start - timedelta(seconds=WHILE_S + 60)
    for node, pool, requests, time in (
        ("a", "chat", 30, start - timedelta(seconds=60)),
        ("b", "chat", 10, start - timedelta(seconds=60)),
        ("c", "code", 40, start - timedelta(seconds=60)),
        ("t", "chat", 500, start - timedelta(seconds=60)),
        ("c", "code", 999, old),
    ):
        telemetry.add("requests", time, requests, node=node, pool=pool, tenant=f"of {pool}", finish_reason="stop")
    with database.read_session() as session:
        found = ReachDesk(telemetry).radius(session, spec, start)
    assert (found.nodes, found.nodes_at_once) == (2, 1)
    assert (found.traffic_share, found.traffic_share_at_once) == (0.5, 0.375)
    assert found.tenant_names == ["of chat"]


def test_a_pool_of_nobody_has_none(database: Database, telemetry: FakeReader, spec: RolloutCreate) -> None:
    with database.read_session() as session, pytest.raises(Conflict, match="no serving nodes"):
        ReachDesk(telemetry).radius(session, spec.model_copy(update={"pool": "empty"}), datetime.now().astimezone())


def test_a_limit_is_checked_and_none_costs_nothing(
    database: Database, telemetry: FakeReader, spec: RolloutCreate, start: datetime
) -> None:
    desk = ReachDesk(telemetry)
    with database.read_session() as session:
        desk.check(session, spec, start)
        assert telemetry.asked == []
        desk.check(session, spec.model_copy(update={"max_blast": BlastLimit(nodes=2)}), start)
        with pytest.raises(Conflict, match=r"max_blast\.nodes: would be 2, and 1 is the most"):
            desk.check(session, spec.model_copy(update={"max_blast": BlastLimit(nodes=1)}), start)
