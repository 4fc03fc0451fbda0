"""What a configuration changes, by which class, and what that takes: told by nodes, never made up."""

from typing import Any, cast

import pytest

from controlplane.client import Client
from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig, NodeRole, NodeView
from controlplane.contract.knobs import ChangeClass, EngineConfig
from controlplane.contract.reports.declared_knobs import DeclaredKnob
from tests.web.columns_of import columns_of
from web.rollouts.change_rows import changed_knobs, production_of, standing_for

OLD = EngineConfig(max_num_seqs=32).knobs()
COST = ChangeCost(count=2, last_s=41.0, mean_s=38.0, unavailable_s=12.5)


def node(name: str, **effective: Any) -> NodeView:
    return NodeView(
        node=name,
        pool="chat",
        role=NodeRole.SERVING,
        backend="embedded",
        model="m",
        connected=True,
        healthy=True,
        desired_revision=1,
        effective=EffectiveConfig(**{"revision": 1, "knobs": OLD, **effective}),
    )


def change(nodes: list[NodeView], **knobs: Any) -> tuple[str | None, str]:
    (found,) = changed_knobs(OLD, OLD | knobs, nodes)
    return found.change and found.change.value, found.price


UNKNOWN = "nobody has measured it here"


@pytest.mark.parametrize(
    ("nodes", "knobs", "expected"),
    [
        ([node("a")], {"max_num_seqs": 40}, ("live", "requests do not wait")),
        ([node("a", live_limits={"max_num_seqs": 48})], {"max_num_seqs": 64}, ("restart", UNKNOWN)),
        ([node("a"), node("b", live_limits={"max_num_seqs": 36})], {"max_num_seqs": 40}, ("restart", UNKNOWN)),
        ([node("a")], {"quantization": "int8"}, ("swap", UNKNOWN)),
        (
            [node("a", costs={"swap": COST})],
            {"quantization": "int8"},
            ("swap", "requests wait 12.5 s; in force after 38.0 s"),
        ),
        ([], {"max_num_seqs": 40}, (None, "no node has told what it takes")),
    ],
)
def test_the_hardest_class_on_the_nodes_counts(
    nodes: list[NodeView], knobs: dict[str, Any], expected: tuple[str | None, str]
) -> None:
    assert change(nodes, **knobs) == expected


def test_where_it_runs_already_the_knobs_own_class_is_told() -> None:
    runs = EngineConfig(quantization="int8").knobs()
    (found,) = changed_knobs(OLD, OLD | {"quantization": "int8"}, [node("a", knobs=runs)])
    assert found.change == "swap"


def test_knobs_stand_in_the_contracts_order_and_all_where_nothing_is_known_of_before() -> None:
    names = [
        one.knob.name for one in changed_knobs(OLD, OLD | {"quantization": "int8", "max_num_batched_tokens": 8}, [])
    ]
    assert names == ["max_num_batched_tokens", "quantization"]
    every = changed_knobs(None, OLD, [])
    assert len(every) == len(OLD) and {one.before for one in every} == {None}


class Fleet:
    def __init__(self, *nodes: NodeView) -> None:
        self.by_name = {one.node: one for one in nodes}
        self.read: list[str] = []

    def fleet(self, pool: str) -> Any:
        return columns_of(list(self.by_name.values()))

    def node(self, name: str) -> NodeView:
        self.read.append(name)
        return self.by_name[name]


def test_of_nodes_that_run_alike_one_that_is_heard_of_is_read() -> None:
    away = node("a").model_copy(update={"connected": False})
    trial = node("t", knobs=OLD | {"max_num_seqs": 1}).model_copy(update={"role": NodeRole.TRIAL})
    fleet = Fleet(away, node("b"), node("c"), node("d", knobs=OLD | {"max_num_seqs": 7}), trial)
    assert [one.node for one in standing_for(cast(Client, fleet), "chat")] == ["b", "d"]
    assert fleet.read == ["b", "d"]


def test_the_revision_that_most_should_run_is_the_pools() -> None:
    other = node("c").model_copy(update={"desired_revision": 2})
    assert production_of(columns_of([node("a"), node("b"), other])) == 1
    assert production_of(columns_of([node("a").model_copy(update={"desired_revision": None})])) is None


def test_a_declared_knob_is_told_by_its_node_and_goes_back_where_it_is_left_out() -> None:
    own = DeclaredKnob(change_class=ChangeClass.RESTART, start=16, values=(16, 32), unit="tokens")
    runs = OLD | {"block_size": 32}
    one = node("a", declared={"block_size": own}, knobs=runs, costs={ChangeClass.RESTART: COST})
    (there,) = changed_knobs(OLD, runs, [one])
    (back,) = changed_knobs(runs, OLD, [one])
    assert (there.knob.unit, there.before, there.after, there.change) == ("tokens", None, 32, ChangeClass.RESTART)
    assert (back.before, back.after, back.change) == (32, 16, ChangeClass.RESTART)
    (other,) = changed_knobs(runs, runs | {"max_num_seqs": 8}, [one])
    assert other.change is ChangeClass.LIVE  # That block_size is not as at the start is no part of it.
