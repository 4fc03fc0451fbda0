"""Rollouts that a node cannot take are refused when they are proposed, with what speaks against them."""

from datetime import datetime
from typing import Any

import pytest

from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.changes.findings import Finding
from controlplane.contract.errors import Conflict
from controlplane.contract.reports.node_memory import NodeMemory
from controlplane.db.database import Database
from controlplane.rollouts import store
from controlplane.rollouts.validation.checker import MOST_KEPT, MOST_TOLD, kept


@pytest.fixture
def spec(fleet: Any) -> RolloutCreate:
    """A rollout of 64 requests at once, which node b, started for 32, cannot take."""
    fleet.add("a", "b")
    old, new = fleet.revision(16), fleet.revision(64)
    fleet.put_in_production(old)
    limit(fleet, "b", 32)
    return RolloutCreate(pool="chat", revision=new)


def limit(fleet: Any, name: str, most: int) -> None:
    (view,) = [view for view in fleet.views() if view.node == name]
    effective = view.effective.model_copy(update={"limits": {"max_num_seqs": most}})
    fleet.change(name, effective=effective.model_dump(mode="json"))


def test_a_proposal_is_refused_with_its_findings(database: Database, spec: RolloutCreate, start: datetime) -> None:
    with pytest.raises(Conflict, match=r"cannot run in pool 'chat': b: knobs.max_num_seqs") as raised:
        with database.session() as session:
            store.create(session, spec, actor="p", now=start)
    (finding,) = [one for one in raised.value.detail["findings"] if one["refuses"]]
    assert (finding["node"], finding["field"]) == ("b", "knobs.max_num_seqs")
    assert finding["mend"].startswith("at most 32")
    with database.session() as session:
        assert store.listing(session, before_id=None, limit=5) == []


def test_what_a_nodes_memory_cannot_hold_is_refused(database: Database, fleet: Any, start: datetime) -> None:
    fleet.add("a", "b")
    old, new = fleet.revision(16), fleet.revision(64)
    fleet.put_in_production(old)
    (view,) = [view for view in fleet.views() if view.node == "b"]
    memory = NodeMemory(limit_bytes=1000, kv_cache_memory_bytes=900, logits_bytes_per_token=4)
    effective = view.effective.model_copy(update={"memory": memory})
    fleet.change("b", effective=effective.model_dump(mode="json"))
    with pytest.raises(Conflict, match=r"b: knobs.max_num_seqs: it does not fit the memory") as raised:
        with database.session() as session:
            spec = RolloutCreate(pool="chat", revision=new)
            store.create(session, spec, actor="p", now=start)
    refusing, *told = raised.value.detail["findings"]
    assert refusing["node"] == "b" and refusing["mend"].startswith("at most 25, ")
    assert [one["node"] for one in told if "not known" in one["problem"]] == ["a"]


def test_what_no_longer_fits_when_it_is_started_is_refused_then(
    database: Database, fleet: Any, spec: RolloutCreate, start: datetime
) -> None:
    limit(fleet, "b", 64)
    with database.session() as session:
        proposed = store.create(session, spec.model_copy(update={"start": False}), actor="p", now=start)
    limit(fleet, "b", 32)
    with pytest.raises(Conflict, match=r"b: knobs\.max_num_seqs: 64 is above 32"), database.session() as session:
        store.start(session, proposed.id, actor="p", now=start)
    with database.session() as session:
        assert store.get(session, proposed.id).phase == "proposed"


def test_a_person_may_order_it_all_the_same(database: Database, spec: RolloutCreate, start: datetime) -> None:
    wanted = spec.model_copy(update={"emergency": True, "reason": "the node's word is wrong"})
    with database.session() as session:
        assert store.create(session, wanted, actor="p", now=start).phase == "promoting"


def test_an_error_holds_so_many_findings_and_says_how_many_more(
    database: Database, fleet: Any, spec: RolloutCreate, start: datetime
) -> None:
    fleet.add(*(f"node-{place:02}" for place in range(30)))
    fleet.apply()
    for place in range(30):
        limit(fleet, f"node-{place:02}", 32)
    with pytest.raises(Conflict, match="; and 29 more") as raised:
        with database.session() as session:
            store.create(session, spec, actor="p", now=start)
    assert len(raised.value.detail["findings"]) == MOST_TOLD


def test_the_evidence_keeps_by_node_what_was_found() -> None:
    refuses = Finding(node="b", field="knobs.max_num_seqs", refuses=True, problem="64 is above 32", mend="at most 32")
    costs = Finding(node="b", field="effective.costs", refuses=False, problem="it needs a restart")
    assert kept([]) == {"validated": {}}
    evidence = kept([refuses, costs])
    assert evidence["findings"] == ["b: knobs.max_num_seqs: 64 is above 32; at most 32"]
    assert [(one["field"], one["refuses"]) for one in evidence["validated"]["b"]] == [
        ("knobs.max_num_seqs", True),
        ("effective.costs", False),
    ]
    many = kept([costs.model_copy(update={"node": f"n{place}"}) for place in range(MOST_KEPT + 1)])
    assert len(many["validated"]) == MOST_KEPT and "findings" not in many
