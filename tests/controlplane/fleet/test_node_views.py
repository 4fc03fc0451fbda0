"""Views of many nodes are those of each node's row, and as new as the transaction that reads them."""

from typing import Any

from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import ConfigStatus, NodeRole, NodeView
from controlplane.contract.knobs import EngineConfig
from controlplane.db.database import Database
from controlplane.fleet import effective, store
from controlplane.fleet.tables import NodeRow
from tests.controlplane.fleet.test_store import NOW

KNOBS = EngineConfig().knobs()


def runs(revision: int, **more: Any) -> dict[str, Any]:
    return {"revision": revision, "knobs": KNOBS, **more}


def put(database: Database, name: str, **changes: Any) -> None:
    with database.session() as session:
        role = changes.pop("role", "serving")
        row = store.place(session, name, pool="chat", role=role, backend="vllm", now=NOW)
        for column, value in changes.items():
            setattr(row, column, value)


def together(database: Database) -> list[NodeView]:
    with database.read_session() as session:
        return store.nodes(session)


def one_by_one(database: Database) -> list[NodeView]:
    with database.read_session() as session:
        return [store.node(session, view.node) for view in store.nodes(session)]


def test_each_is_as_its_row_says(database: Database) -> None:
    put(database, "offline")
    put(database, "same", effective=runs(1), connected=True, healthy=True, last_seen=NOW, labels={"region": "eu-1"})
    put(database, "same again", effective=runs(1), health_detail="no plugin", unaccounted_share=0.01)
    put(database, "told", effective=runs(1), connected=True)
    put(database, "failed", effective=runs(1), config_status=ConfigStatus.FAILED.value, config_error="no memory")
    put(database, "trial", role=NodeRole.TRIAL.value, effective=runs(2, memory={"limit_bytes": 7}), cache_reset=2)
    put(database, "of an older version", effective={"revision": 1, "knobs": {"max_num_seqs": "many"}})
    put(database, "of none", effective={"knobs": {}})
    with database.session() as session:
        numbers = [
            store.create_revision(session, RevisionCreate(knobs={"max_num_seqs": seqs}), "me", NOW).number
            for seqs in (8, 9)
        ]
        store.set_pool_revision(session, "chat", numbers[0], NOW)
        store.set_override(session, ["told", "failed"], numbers[1], NOW)
    with database.session() as session:
        for name in ("failed", "same"):
            row = session.get_one(NodeRow, name)
            wish = store.wish_of(session, row)
            assert wish is not None
            row.config_hash = wish.hash
    found = together(database)
    assert found == one_by_one(database) and len(found) == 8
    said = {view.node: (view.desired_revision, view.config_status, view.config_error) for view in found}
    assert said["failed"] == (numbers[1], ConfigStatus.FAILED, "no memory")
    assert said["told"] == (numbers[1], ConfigStatus.APPLYING, "")
    assert {view.node for view in found if view.effective is None} == {"offline", "of none"}


def test_what_another_replica_has_committed_is_there_at_once(database: Database) -> None:
    for name in ("a", "b"):
        put(database, name, effective=runs(1))
    assert [view.effective and view.effective.revision for view in together(database)] == [1, 1]
    replica = Database(database.url)
    try:
        put(replica, "a", effective=runs(2), connected=True)
        with replica.session() as session:
            number = store.create_revision(session, RevisionCreate(knobs={"max_num_seqs": 8}), "me", NOW).number
            store.set_pool_revision(session, "chat", number, NOW)
    finally:
        replica.close()
    found = together(database)
    assert [(view.effective and view.effective.revision, view.connected) for view in found] == [(2, True), (1, False)]
    assert [(view.desired_revision, view.drift) for view in found] == [(number, True)] * 2


def test_what_nodes_report_alike_is_read_once(database: Database) -> None:
    for number in range(3):
        put(database, f"n{number}", effective=runs(7002))
    put(database, "other", effective=runs(7003))
    *alike, other = [view.effective for view in together(database)]
    assert alike[0] is not None and all(one is alike[0] for one in alike) and other is not alike[0]
    assert together(database)[0].effective is alike[0]


def test_a_long_configuration_is_read_as_it_is(database: Database) -> None:
    declared = {
        f"knob_{number}": {"change_class": "live", "start": 1, "minimum": 0, "maximum": 9, "help": "h" * 290}
        for number in range(30)
    }
    long = runs(1, declared=declared)
    assert len(str(long)) > effective.LONGEST_REMEMBERED
    put(database, "n", effective=long)
    first, again = together(database)[0].effective, together(database)[0].effective
    assert first is not None and first == again and first is not again and set(first.declared) == set(declared)
