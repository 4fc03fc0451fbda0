"""What a pool runs is what most of its nodes run; one that runs what is not allowed has no vote, and fails nothing."""

from typing import Any

import pytest

from controlplane.contract.errors import NotFound
from controlplane.contract.nodes import EffectiveConfig, NodeRole, NodeView
from tuner.study_run import pool_config


def node(name: str, **knobs: Any) -> NodeView:
    return NodeView(
        node=name,
        pool="chat",
        role=NodeRole.SERVING,
        backend="embedded",
        connected=True,
        healthy=True,
        effective=EffectiveConfig(revision=1, knobs=knobs),
    )


def test_one_node_beyond_the_bounds_does_not_fail_the_pool_s_studies() -> None:
    nodes = [node("a", max_num_seqs=10**9), node("b", max_num_seqs=8), node("c", max_num_seqs=8), node("d")]
    assert pool_config(nodes, "chat")["max_num_seqs"] == 8


def test_where_all_are_beyond_them_the_error_says_why() -> None:
    with pytest.raises(NotFound, match=r"pool chat: .* that is allowed \(a: max_num_seqs: 1000000000 is outside"):
        pool_config([node("a", max_num_seqs=10**9)], "chat")
