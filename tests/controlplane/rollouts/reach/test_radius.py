"""What a rollout reaches, and whether that is within its limit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig, NodeRole, NodeView
from controlplane.contract.bodies.rollouts import RolloutCreate, Stage
from controlplane.contract.changes.blast_radius import BlastLimit, BlastRadius
from controlplane.contract.errors import Conflict
from controlplane.contract.knobs import ChangeClass, EngineConfig
from controlplane.rollouts.reach.radius import Traffic, blast_radius, refuse_beyond

RUNS = EngineConfig().knobs()
INT8 = {**RUNS, "quantization": "int8"}
NOBODY = Traffic(by_node={}, fleet=0.0, tenants=[])
SPEC = RolloutCreate(pool="chat", revision=2)


def node(name: str, *, unavailable_s: float | None = None, **effective: Any) -> NodeView:
    costs = {}
    if unavailable_s is not None:
        costs = {ChangeClass.SWAP: ChangeCost(count=1, last_s=9.0, mean_s=9.0, unavailable_s=unavailable_s)}
    view = NodeView(node=name, pool="chat", role=NodeRole.SERVING, backend="embedded", connected=True, healthy=True)
    said = EffectiveConfig(**{"revision": 1, "knobs": RUNS, "costs": costs, **effective})
    return view.model_copy(update={"effective": said})


def test_nodes_are_counted_by_what_the_change_takes_there() -> None:
    nodes = [node("a", unavailable_s=4.0), node("b", unavailable_s=6.0), node("c"), node("d", knobs=INT8)]
    found = blast_radius(SPEC, INT8, [*nodes, nodes[0].model_copy(update={"effective": None})], NOBODY)
    (swap,) = found.by_class
    assert (swap.change, swap.nodes, swap.unmeasured) == (ChangeClass.SWAP, 3, 1)
    assert (swap.unavailable_s, swap.node_seconds) == (6.0, 10.0)
    assert (found.nodes, found.unchanged, found.unknown) == (5, 1, 1)
    assert found.unavailable_s is None, "one was not measured, one has not said what it runs"
    assert "3 nodes by swap: requests to one wait 6 s at most, 10 node-seconds in all; not measured on 1" in found.says


def test_at_once_is_what_one_group_can_be() -> None:
    nodes = [
        node(name).model_copy(update={"labels": {"region": region}})
        for name, region in zip("abcd", "uuve", strict=True)
    ]
    traffic = Traffic(by_node={"a": 10, "b": 10, "c": 35, "d": 5}, fleet=100, tenants=[])
    by_region = SPEC.model_copy(update={"wave_by": "region", "stages": [Stage(share=0), Stage(share=1)]})
    found = blast_radius(by_region, INT8, nodes, traffic)
    assert (found.nodes_at_once, found.traffic_share_at_once) == (2, 0.35)
    found = blast_radius(by_region.model_copy(update={"emergency": True}), INT8, nodes, traffic)
    assert (found.nodes_at_once, found.traffic_share_at_once) == (4, 0.6)


def test_a_live_change_makes_nobody_wait() -> None:
    found = blast_radius(SPEC, {**RUNS, "max_num_seqs": 8}, [node("a")], NOBODY)
    assert found.unavailable_s == 0.0
    assert found.says == [
        "1 node, at most 1 at once",
        "nobody was served in the last ten minutes",
        "1 node by live: requests do not wait",
    ]


def test_traffic_at_once_is_that_of_the_busiest_that_a_wave_could_be() -> None:
    nodes = [node(name) for name in "abcd"]
    traffic = Traffic(by_node={"a": 10, "b": 40, "c": 20, "d": 10}, fleet=160, tenants=["globex", "acme"])
    found = blast_radius(SPEC.model_copy(update={"canary_share": 0.5}), INT8, nodes, traffic)
    assert (found.nodes_at_once, found.traffic_share, found.traffic_share_at_once) == (2, 0.5, 0.375)
    assert (found.tenants, found.tenant_names) == (2, ["acme", "globex"])
    assert found.says[1] == "50.0 % of the fleet's requests of the last ten minutes, at most 37.5 % at once"


def test_an_emergency_reaches_all_at_once() -> None:
    emergency = SPEC.model_copy(update={"emergency": True, "reason": "it burns"})
    assert blast_radius(emergency, INT8, [node(name) for name in "abcd"], NOBODY).nodes_at_once == 4


RADIUS = BlastRadius(
    nodes=8, nodes_at_once=2, traffic_share=0.5, traffic_share_at_once=0.2, tenants=3, unavailable_s=10.0
)


@pytest.mark.parametrize("name", BlastLimit.model_fields)
def test_each_part_is_limited_by_itself(name: str) -> None:
    found = getattr(RADIUS, name)
    refuse_beyond(BlastLimit(**{name: found}), RADIUS)
    less = found - 1 if isinstance(found, int) else found / 2
    with pytest.raises(Conflict, match=f"max_blast.{name}: would be {found:g}") as raised:
        refuse_beyond(BlastLimit(**{name: less}), RADIUS)
    assert raised.value.detail["field"] == f"max_blast.{name}"
    assert raised.value.detail["blast_radius"]["nodes"] == 8


@pytest.mark.parametrize("name", ["traffic_share", "traffic_share_at_once", "unavailable_s"])
def test_what_is_not_known_is_too_large_for_a_limit(name: str) -> None:
    with pytest.raises(Conflict, match=f"max_blast.{name}: is not known"):
        refuse_beyond(BlastLimit(**{name: 1.0}), RADIUS.model_copy(update={name: None}))


def test_without_a_limit_anything_goes() -> None:
    refuse_beyond(None, RADIUS)
    refuse_beyond(BlastLimit(), RADIUS)


@given(
    share=st.floats(min_value=0.01, max_value=0.5),
    requests=st.lists(st.integers(min_value=0, max_value=1000), min_size=1, max_size=12),
    others=st.integers(min_value=0, max_value=1000),
)
def test_a_wave_reaches_no_more_than_all(share: float, requests: list[int], others: int) -> None:
    nodes = [node(f"n{place}") for place in range(len(requests))]
    by_node = {one.node: float(count) for one, count in zip(nodes, requests, strict=True)}
    traffic = Traffic(by_node=by_node, fleet=float(sum(requests) + others), tenants=[])
    found = blast_radius(SPEC.model_copy(update={"canary_share": share}), INT8, nodes, traffic)
    assert 1 <= found.nodes_at_once <= found.nodes == len(requests)
    if found.traffic_share is not None and found.traffic_share_at_once is not None:
        assert found.traffic_share_at_once <= found.traffic_share <= 1.0
    assert sum(one.nodes for one in found.by_class) + found.unchanged + found.unknown == found.nodes
