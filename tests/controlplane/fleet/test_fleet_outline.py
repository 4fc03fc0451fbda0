"""The fleet's outline says what its columns hold: pools and revisions of serving nodes, and one pool's names."""

from typing import Any

from controlplane.contract.bodies.nodes import MOST_NAMED, FleetOutline
from controlplane.contract.knobs import EngineConfig
from controlplane.db.database import Database
from controlplane.fleet import revisions, store
from controlplane.fleet.fleet_outline import fleet_outline
from controlplane.fleet.tables import NodeRow
from tests.controlplane.fleet.test_store import NOW


def runs(revision: int) -> dict[str, Any]:
    return {"revision": revision, "knobs": EngineConfig().knobs()}


def test_it_has_what_serves_and_the_names_of_one_pool(database: Database) -> None:
    with database.session() as session:
        one, other, of_trial = (
            revisions.keep(session, EngineConfig(max_num_seqs=most), note="", actor="t", now=NOW)[0].number
            for most in (8, 16, 32)
        )
        for name, pool, role in (("b", "code", "serving"), ("a", "chat", "serving"), ("c", "chat", "trial")):
            store.place(session, name, pool=pool, role=role, backend="vllm", now=NOW)
        store.place(session, "s", pool="spare", role="trial", backend="vllm", now=NOW)
        for name, told in (("a", 0), ("b", one), ("s", of_trial)):
            row = session.get_one(NodeRow, name)
            row.effective = runs(told)
            session.add(row)
        store.set_pool_revision(session, "chat", other, NOW)
        first, asked, gone = (fleet_outline(session, pool) for pool in (None, "code", "gone"))
    told = {"pools": ["chat", "code"], "revisions": sorted([one, other])}
    assert first == FleetOutline(pool="chat", nodes=["a", "c"], **told)
    assert asked == FleetOutline(pool="code", nodes=["b"], **told)
    assert gone == FleetOutline(pool="gone", nodes=[], **told)


def test_a_node_that_runs_another_revision_than_its_pool_is_seen(database: Database) -> None:
    with database.session() as session:
        numbers = [
            revisions.keep(session, EngineConfig(max_num_seqs=most), note="", actor="t", now=NOW)[0].number
            for most in (8, 16)
        ]
        store.place(session, "a", pool="chat", role="serving", backend="vllm", now=NOW)
        session.get_one(NodeRow, "a").override_revision = numbers[1]
        store.set_pool_revision(session, "chat", numbers[0], NOW)
        assert fleet_outline(session).revisions == [numbers[1]]


def test_without_serving_nodes_whoever_there_is_is_named(database: Database) -> None:
    with database.session() as session:
        assert fleet_outline(session) == FleetOutline(pool="", pools=[], nodes=[], revisions=[])
        store.place(session, "s", pool="spare", role="trial", backend="vllm", now=NOW)
        assert fleet_outline(session) == FleetOutline(pool="", pools=[], nodes=["s"], revisions=[])


def test_more_nodes_than_are_named_are_none(database: Database) -> None:
    with database.session() as session:
        for number in range(MOST_NAMED):
            store.place(session, f"n{number}", pool="chat", role="serving", backend="vllm", now=NOW)
        assert len(fleet_outline(session).nodes) == MOST_NAMED
        store.place(session, "another", pool="chat", role="serving", backend="vllm", now=NOW)
        assert fleet_outline(session).nodes == []
