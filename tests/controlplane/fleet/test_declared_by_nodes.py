"""Knobs that nodes declare: who may name them in a revision, what a node then drifts from, and what is adopted."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlmodel import Session

from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import TrialConfig
from controlplane.contract.errors import KnobOutOfRange, UnknownKnob
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.fleet.declared_by_nodes import declared_by_nodes, declared_for
from controlplane.fleet.view import effective_of
from controlplane.fleet.wishes import Wishes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BLOCKS: dict[str, Any] = {"change_class": "restart", "start": 16, "values": [16, 32]}


def put(session: Session, node: str, *, pool: str = "p", role: str = "serving", **effective: Any) -> None:
    row = fleet.place(session, node, pool=pool, role=role, backend="vllm", now=NOW)
    row.effective = {"revision": 0, "knobs": {"max_num_seqs": 8}, **effective}
    session.add(row)
    session.flush()


def declaring(session: Session, node: str, runs: int = 16, **where: str) -> None:
    knobs = {"max_num_seqs": 8, "block_size": runs}
    put(session, node, knobs=knobs, declared={"block_size": BLOCKS}, **where)  # type: ignore[arg-type]


def test_each_different_declaration_is_found_once(database: Database) -> None:
    with database.session() as session:
        put(session, "plain")
        for name in ("a", "b"):
            declaring(session, name)
        put(session, "odd", pool="q", declared={"block_size": {**BLOCKS, "values": [16, 64]}})
        assert sorted(one.values or () for one in declared_by_nodes(session)["block_size"]) == [(16, 32), (16, 64)]
        assert [one.values for one in declared_by_nodes(session, pool="q")["block_size"]] == [(16, 64)]
        assert declared_by_nodes(session, node="plain") == {}
        assert declared_for(session, ["max_num_seqs"]) == {} != declared_for(session, ["block_size"])


def test_a_revision_may_name_what_some_node_declares(database: Database) -> None:
    with database.session() as session:
        declaring(session, "a")
        made = fleet.create_revision(session, RevisionCreate(knobs={"block_size": 32}), "me", NOW)
        assert made.knobs.knobs()["block_size"] == 32
        assert fleet.revision(session, made.number) == made
        with pytest.raises(KnobOutOfRange, match="24 is not one of 16, 32"):
            fleet.create_revision(session, RevisionCreate(knobs={"block_size": 24}), "me", NOW)
        with pytest.raises(UnknownKnob, match="no node declares it"):
            fleet.create_revision(session, RevisionCreate(knobs={"dtype": "half"}), "me", NOW)


def test_a_trial_node_takes_what_it_declares_itself(database: Database) -> None:
    with database.session() as session:
        declaring(session, "a")
        put(session, "t", role="trial")
        declaring(session, "u", role="trial")
        with pytest.raises(UnknownKnob):
            fleet.set_trial_config(session, "t", TrialConfig(knobs={"block_size": 32}), actor="me", now=NOW)
        assert fleet.set_trial_config(session, "u", TrialConfig(knobs={"block_size": 32}), actor="me", now=NOW).drift


def test_a_revision_that_names_none_wants_the_start(database: Database) -> None:
    with database.session() as session:
        declaring(session, "a")
        declaring(session, "b", runs=32)
        number = fleet.create_revision(session, RevisionCreate(knobs={"max_num_seqs": 8}), "me", NOW).number
        fleet.set_pool_revision(session, "p", number, NOW)
        assert {one.node: one.drift for one in fleet.nodes(session)} == {"a": False, "b": True}


@pytest.mark.parametrize(("runs", "adopted"), [(16, None), (32, 32)])
def test_what_is_not_as_at_the_start_is_adopted(database: Database, runs: int, adopted: int | None) -> None:
    with database.session() as session:
        declaring(session, "a", runs=runs)
        row = fleet.row_of(session, "a")
        fleet.adopt(session, row, effective_of(row), NOW, Wishes(session))
        number = fleet.pool_revision(session, "p")
        assert number is not None
        assert fleet.revision(session, number).knobs.knobs().get("block_size") == adopted
