"""The whole fleet as columns says of each node what its own view says."""

from typing import Any

from controlplane.contract.bodies.nodes import state_of
from controlplane.contract.knobs import EngineConfig
from controlplane.db.database import Database
from controlplane.fleet import machine, revisions, store, whole_fleet
from controlplane.fleet.fleet_outline import fleet_outline
from controlplane.fleet.tables import NodeRow
from tests.controlplane.fleet.test_store import NOW


def runs(revision: int, **knobs: Any) -> dict[str, Any]:
    return {"revision": revision, "knobs": {**EngineConfig().knobs(), **knobs}}


def test_each_column_says_what_the_nodes_own_view_says(database: Database) -> None:
    with database.session() as session:
        number = revisions.keep(session, EngineConfig(max_num_seqs=8), note="", actor="t", now=NOW)[0].number
        for name, pool in (("b", "code"), ("a", "chat"), ("c", "chat"), ("d", "chat")):
            store.place(session, name, pool=pool, role="serving", backend="vllm", now=NOW)
        for name, told in (("a", runs(1)), ("b", runs(0, max_num_seqs=8)), ("c", runs(2))):
            row = session.get_one(NodeRow, name)
            row.connected, row.healthy, row.effective, row.last_seen = True, name != "c", told, NOW
            session.add(row)
        session.get_one(NodeRow, "a").health_detail = "no plugin"
        for name in ("b", "d"):
            session.get_one(NodeRow, name).labels = {"region": "eu-1", "gpu": "H100"}
        store.set_pool_revision(session, "chat", number, NOW)
        found = whole_fleet.fleet_columns(session)
        views = store.nodes(session)
        one_pool = whole_fleet.fleet_columns(session, "code")
    assert found.node == ["a", "b", "c", "d"] and one_pool.node == ["b"]
    for place, view in enumerate(views):
        assert (found.node[place], found.pool[place], found.drift_since[place]) == (
            view.node,
            view.pool,
            view.drift_since,
        )
        assert found.revision[place] == (view.effective.revision if view.effective else None)
        assert found.desired_revision[place] == view.desired_revision
        assert found.last_seen[place] == view.last_seen
        assert found.label_sets[found.labels[place]] == view.labels
        assert found.state[place] is state_of(view.connected, view.healthy, view.health_detail)
    assert len(found.label_sets) == 2, "what nodes have alike is told once"
    assert [state.value for state in found.state] == ["degraded", "healthy", "unhealthy", "offline"]
    assert found.config_hash[0] == found.config_hash[2] != found.config_hash[1] != "" and found.config_hash[3] == ""


def test_nodes_that_differ_in_memory_alone_are_read_once(database: Database) -> None:
    before = whole_fleet.runs.cache_info()
    with database.session() as session:
        for number in range(5):
            row = store.place(session, f"n{number}", pool="chat", role="serving", backend="vllm", now=NOW)
            row.effective = {**runs(7001), "memory": {"kv_bytes_used": number}}
            session.add(row)
        for name, told in (("none", None), ("older", {"knobs": {}}), ("wrong", {"revision": "x", "knobs": []})):
            row = store.place(session, name, pool="chat", role="serving", backend="vllm", now=NOW)
            row.effective = told
            session.add(row)
        found = whole_fleet.fleet_columns(session)
        outline = fleet_outline(session)
    assert found.revision == [7001] * 5 + [None] * 3
    assert len(set(found.config_hash[:5])) == 1 and found.config_hash[5:] == [""] * 3
    assert outline.revisions == [7001]
    assert whole_fleet.runs.cache_info().misses - before.misses <= 4


def test_a_configuration_that_failed_is_told_only_of_the_one_that_is_wanted(database: Database) -> None:
    with database.session() as session:
        revision = revisions.keep(session, EngineConfig(max_num_seqs=8), note="", actor="t", now=NOW)[0]
        for name, acknowledged in (
            ("now", machine.Wish(revision).hash),
            ("old", "x"),
        ):
            row = store.place(session, name, pool="chat", role="serving", backend="vllm", now=NOW)
            row.config_hash, row.config_status = acknowledged, "failed"
            session.add(row)
        store.set_pool_revision(session, "chat", revision.number, NOW)
        assert whole_fleet.fleet_columns(session).config_failed == [True, False]
