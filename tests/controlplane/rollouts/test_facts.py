"""The order in which a rollout tells its nodes, and what it believes of them."""

from datetime import UTC, datetime

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import EffectiveConfig, NodeRole, NodeView
from controlplane.contract.knobs import EngineConfig
from controlplane.rollouts.facts import drawn, labels, node_facts, runs

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def views(*names: str, model: str = "m", **changes: str) -> list[NodeView]:
    return [
        NodeView(
            node=name, pool="chat", role=NodeRole.SERVING, backend="vllm", model=model, connected=True, healthy=True
        ).model_copy(update=changes)
        for name in names
    ]


def order(nodes: list[NodeView], rollout_id: int) -> list[str]:
    return [view.node for view in drawn(nodes, rollout_id)]


def test_it_follows_from_the_rollouts_number_alone() -> None:
    nodes = views(*"abcdefgh")
    assert order(nodes, 7) == order(nodes[::-1], 7)
    assert sorted(order(nodes, 7)) == list("abcdefgh")


def test_every_node_is_the_canary_about_as_often() -> None:
    nodes = views(*"abcd")
    first = [order(nodes, rollout_id)[0] for rollout_id in range(1, 401)]
    assert all(75 <= first.count(name) <= 125 for name in "abcd")


def test_typical_nodes_come_first() -> None:
    nodes = [*views("odd", engine_version="vllm 0.1"), *views(*"abc"), *views("other", model="n")]
    for rollout_id in range(20):
        assert set(order(nodes, rollout_id)[:3]) == set("abc")


def test_nodes_that_report_alike_are_told_apart_by_what_they_run() -> None:
    knobs = EngineConfig().knobs()
    made = [
        Revision(
            number=number, hash=str(number), knobs=EngineConfig(max_num_seqs=seqs), created_by="me", created_at=NOW
        )
        for number, seqs in ((1, knobs["max_num_seqs"]), (2, 7))
    ]
    shared = {1: EffectiveConfig(revision=1, knobs=knobs), 2: EffectiveConfig(revision=2, knobs={"max_num_seqs": 7})}
    nodes = [
        view.model_copy(update={"effective": effective})
        for view, effective in zip(
            views(*"abcdef"),
            (shared[1], shared[2], shared[1], None, EffectiveConfig(revision=0, knobs=knobs), shared[2]),
            strict=True,
        )
    ]
    found = node_facts(nodes, made[1], made[0], {"c": 4.0})
    assert [fact.runs_new for fact in found] == [runs(view, made[1]) for view in nodes]
    assert [fact.runs_previous for fact in found] == [True, False, True, False, True, False]
    assert [fact.lost_s for fact in found] == [0.0, 0.0, 4.0, 0.0, 0.0, 0.0]
    assert labels(nodes, made[0]) == ["", "0", "1"] and labels(nodes, None) == [""]
