"""The registry, on a database of its own: desired state, drift, revisions, coming and going."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlmodel import Session

from controlplane import ledger
from controlplane.auth import store as tokens
from controlplane.contract.bodies.access import EnrolmentRequest, Scope
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import NodeRole, TrialConfig
from controlplane.contract.errors import Conflict, KnobOutOfRange, NotFound, UnknownKnob
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.fleet.tables import NodeRow, PoolRow
from controlplane.fleet.view import effective_of
from controlplane.fleet.wishes import Wishes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def put(session: Session, node: str, pool: str = "p", role: str = "serving", seqs: int | None = None) -> NodeRow:
    row = fleet.place(session, node, pool=pool, role=role, backend="embedded", now=NOW)
    if seqs is not None:
        row.effective = {"revision": 0, "knobs": {"max_num_seqs": seqs}, "sources": {}}
    return row


def make(session: Session, seqs: int) -> int:
    return fleet.create_revision(session, RevisionCreate(knobs={"max_num_seqs": seqs}), "me", NOW).number


def test_equal_knobs_are_one_revision(database: Database) -> None:
    with database.session() as session:
        first = fleet.create_revision(session, RevisionCreate(knobs={"max_num_seqs": 3}, note="one"), "me", NOW)
        second = fleet.create_revision(session, RevisionCreate(knobs={}, base=first.number, note="two"), "you", NOW)
        other = fleet.create_revision(
            session, RevisionCreate(knobs={"prefill_chunk_size": 64}, base=first.number), "me", NOW
        )
    assert second == first
    assert other.number == first.number + 1
    assert (other.knobs.max_num_seqs, other.knobs.prefill_chunk_size) == (3, 64)


@pytest.mark.parametrize(
    ("wanted", "kind", "field"),
    [
        (RevisionCreate(knobs={"max_num_seq": 3}), UnknownKnob, "knobs.max_num_seq"),
        (RevisionCreate(knobs={"max_num_seqs": 0}), KnobOutOfRange, "knobs.max_num_seqs"),
        (RevisionCreate(knobs={}, base=99), NotFound, "base"),
        (RevisionCreate(knobs={}, base=-1), NotFound, "base"),
        (RevisionCreate(knobs={}, base=10**30), NotFound, "base"),
    ],
)
def test_a_wrong_revision_names_its_field(
    database: Database, wanted: RevisionCreate, kind: type[UnknownKnob], field: str
) -> None:
    with pytest.raises(kind) as refused, database.session() as session:
        fleet.create_revision(session, wanted, "me", NOW)
    assert refused.value.detail["field"] == field


def test_desired_state_follows_pool_and_override(database: Database) -> None:
    with database.session() as session:
        for node in ("a", "b"):
            put(session, node, seqs=5)
        put(session, "t", role="trial")
        production, canary = make(session, 5), make(session, 6)
        assert fleet.pool_revision(session, "p") is None
        assert fleet.node(session, "a").desired_revision is None
        fleet.set_pool_revision(session, "p", production, NOW)
        fleet.set_override(session, ["b"], canary, NOW)
        assert fleet.pool_revision(session, "p") == production
        assert fleet.pool_revision(session, "elsewhere") is None
        wanted = {view.node: view.desired_revision for view in fleet.nodes(session)}
        assert wanted == {"a": production, "b": canary, "t": production}
        assert [view.node for view in fleet.nodes(session, pool="p", role=NodeRole.SERVING)] == ["a", "b"]
        assert [view.node for view in fleet.nodes(session, role="trial")] == ["t"]
        assert fleet.nodes(session, pool="elsewhere") == []


def test_drift_begins_and_ends_with_what_should_run(database: Database) -> None:
    later = NOW + timedelta(seconds=9)
    with database.session() as session:
        put(session, "a", seqs=5)
        put(session, "silent")
        five, six = make(session, 5), make(session, 6)
        fleet.set_pool_revision(session, "p", five, NOW)
        assert not fleet.node(session, "a").drift
        fleet.set_override(session, ["a", "silent"], six, NOW)
        fleet.set_override(session, ["a"], six, later)
        view = fleet.node(session, "a")
        assert (view.drift, view.drift_since) == (True, NOW)
        assert not fleet.node(session, "silent").drift
        fleet.set_override(session, ["a"], None, later)
        view = fleet.node(session, "a")
        assert (view.drift, view.drift_since) == (False, None)


def test_unknown_names_change_nothing(database: Database) -> None:
    with database.session() as session:
        put(session, "a")
        number = make(session, 5)
        with pytest.raises(NotFound, match="no node 'b'"):
            fleet.set_override(session, ["a", "b"], number, NOW)
        with pytest.raises(NotFound, match="no revision 99"):
            fleet.set_override(session, ["a"], 99, NOW)
        with pytest.raises(NotFound, match="no pool 'q'"):
            fleet.set_pool_revision(session, "q", number, NOW)
        with pytest.raises(NotFound, match="no revision 99"):
            fleet.set_pool_revision(session, "p", 99, NOW)
        assert fleet.node(session, "a").desired_revision is None


def test_a_node_that_moves_leaves_its_override_behind(database: Database) -> None:
    with database.session() as session:
        put(session, "a")
        fleet.set_override(session, ["a"], make(session, 5), NOW)
        assert put(session, "a").override_revision is not None
        assert put(session, "a", pool="q").override_revision is None
        moves = ledger.entries(session, before_id=None, limit=10, kind="node.moved")
        assert [(entry.subject, entry.message) for entry in moves] == [
            ("node/a", "node a moved from p (serving) to q (serving)")
        ]


def test_only_the_holding_connection_disconnects(database: Database) -> None:
    with database.session() as session:
        row = put(session, "a")
        row.connected, row.last_seen, row.connection = True, NOW, "new"
        session.flush()
        fleet.disconnect(session, "old")
        assert fleet.node(session, "a").connected
        fleet.disconnect(session, "new", "b")
        assert fleet.node(session, "a").connected
        fleet.disconnect(session, "new")
        assert not fleet.node(session, "a").connected


def test_the_connection_of_a_known_node_disconnects_it(database: Database) -> None:
    with database.session() as session:
        for name, connection in (("a", "new"), ("b", "other")):
            row = put(session, name)
            row.connected, row.last_seen, row.connection = True, NOW, connection
        session.flush()
        fleet.disconnect(session, "old", "a")
        fleet.disconnect(session, "new", "a")
        assert [fleet.node(session, name).connected for name in ("a", "b")] == [False, True]


def test_serving_nodes_are_not_set_directly(database: Database) -> None:
    with database.session() as session:
        put(session, "t", role="trial")
        put(session, "a")
        assert fleet.set_trial_config(session, "t", TrialConfig(knobs={}), actor="me", now=NOW).desired_revision
        with pytest.raises(Conflict, match="changed by rollouts"):
            fleet.set_trial_config(session, "a", TrialConfig(knobs={}), actor="me", now=NOW)


def test_a_removed_node_may_enrol_again(database: Database) -> None:
    wanted = EnrolmentRequest(node="a", pool="p", backend="embedded")
    with database.session() as session:
        first = fleet.enrol(session, wanted, actor="me", now=NOW)
        fleet.remove(session, "a", actor="me", now=NOW)
        with pytest.raises(NotFound):
            fleet.node(session, "a")
        assert fleet.enrol(session, wanted, actor="me", now=NOW) != first
        assert fleet.node(session, "a").pool == "p"


def test_many_at_once_make_one_revision_and_one_pool(database: Database) -> None:
    together = threading.Barrier(6)

    def enrol_and_create(place: int) -> int:
        wanted = EnrolmentRequest(node=f"n{place}", pool="new", backend="embedded")
        together.wait(10)
        with database.session() as session:
            fleet.enrol(session, wanted, actor="me", now=NOW)
        together.wait(10)
        with database.session() as session:
            return make(session, 55)

    with ThreadPoolExecutor(6) as workers:
        numbers = set(workers.map(enrol_and_create, range(6)))
    assert len(numbers) == 1
    with database.read_session() as session:
        assert len(fleet.nodes(session, pool="new")) == 6
        created = ledger.entries(session, before_id=None, limit=10, kind="revision.created")
    assert len(created) == 1


def test_two_first_nodes_adopt_one_revision(database: Database) -> None:
    with database.session() as session:
        put(session, "a", seqs=5)
        put(session, "b", seqs=6)
    together = threading.Barrier(2)

    def adopt(name: str) -> None:
        with database.session() as session:
            row = fleet.row_of(session, name)
            if not database.is_sqlite:
                together.wait(10)
            fleet.adopt(session, row, effective_of(row), NOW, Wishes(session))

    with ThreadPoolExecutor(2) as workers:
        list(workers.map(adopt, ["a", "b"]))
    with database.read_session() as session:
        adopted = ledger.entries(session, before_id=None, limit=10, kind="revision.adopted")
        assert [entry.evidence["revision"] for entry in adopted] == [fleet.pool_revision(session, "p")]


def test_what_another_adopts_meanwhile_is_seen_under_the_lock(database: Database) -> None:
    """Its first look at the pool lies before; SQLite lets nobody in between."""
    if database.is_sqlite:
        pytest.skip("one writes at a time")

    class Slow(Wishes):
        """The other node is adopted just before this one would be."""

        def pool_changed(self, pool: str) -> None:
            super().pool_changed(pool)
            with database.session() as other:
                row = fleet.row_of(other, "b")
                fleet.adopt(other, row, effective_of(row), NOW, Wishes(other))

    with database.session() as session:
        put(session, "a", seqs=5)
        put(session, "b", seqs=6)
    with database.session() as session:
        row, held = fleet.row_of(session, "a"), session.get_one(PoolRow, "p")  # As whoever has looked at it before.
        fleet.adopt(session, row, effective_of(row), NOW, Slow(session))
        assert held.revision == fleet.pool_revision(session, "p")
    with database.read_session() as session:
        number = fleet.pool_revision(session, "p")
        assert number is not None and fleet.revision(session, number).knobs.max_num_seqs == 6
        assert len(ledger.entries(session, before_id=None, limit=9, kind="revision.adopted")) == 1


def test_a_new_revision_of_one_pool_is_no_drift_of_another(database: Database) -> None:
    with database.session() as session:
        for node, pool in (("a", "p"), ("b", "q")):
            put(session, node, pool, seqs=5)
            fleet.set_pool_revision(session, pool, make(session, 5), NOW)
        fleet.set_pool_revision(session, "p", make(session, 6), NOW)
    with database.session() as session:
        assert {view.node: view.drift_since for view in fleet.nodes(session)} == {"a": NOW, "b": None}


def test_an_enrolled_node_has_a_token_of_an_agent_and_of_its_own(database: Database) -> None:
    wanted = EnrolmentRequest(node="n", pool="p", backend="embedded")
    with database.session() as session:
        first = fleet.enrol(session, wanted, actor="me", now=NOW)
        second = fleet.enrol(session, wanted, actor="me", now=NOW)
    with database.session() as session:
        assert tokens.find(session, first) is None, "a new token ends the old one"
        found = tokens.find(session, second)
        assert found is not None and (found.name, found.scope, found.node) == ("agent n", Scope.AGENT, "n")
        notes = ledger.entries(session, before_id=None, limit=9, kind="node.enrolled")
    assert [note.message for note in notes] == [
        "node n enrolled again in pool p as serving",
        "node n enrolled in pool p as serving",
    ]


@pytest.mark.parametrize(("connection", "silent_s"), [(None, 30.0), ("c", 150.0)])
def test_a_node_is_gone_after_the_silence_that_its_own_transport_allows(
    database: Database, connection: str | None, silent_s: float
) -> None:
    with database.session() as session:
        row = put(session, "n")
        row.connected, row.connection, row.last_seen = True, connection, NOW
        session.flush()
        assert fleet.expire_silent(session, NOW + timedelta(seconds=silent_s)) == 0
        assert fleet.expire_silent(session, NOW + timedelta(seconds=silent_s + 0.1)) == 1
        assert (row.connected, row.connection) == (False, None)
