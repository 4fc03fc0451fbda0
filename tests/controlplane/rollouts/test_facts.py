"""The order in which a rollout tells its nodes."""

from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.rollouts.facts import drawn


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
