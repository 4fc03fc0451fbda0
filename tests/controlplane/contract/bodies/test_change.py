"""What a change takes, from what a node says of itself."""

import pytest

from controlplane.contract.bodies.change import class_of, expected_s, needed_class, patience_s
from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig
from controlplane.contract.knobs import ChangeClass, EngineConfig

NODE = EffectiveConfig(
    revision=1,
    knobs=EngineConfig(max_num_batched_tokens=512).knobs(),
    change_classes={"quantization": ChangeClass.RESTART, "max_num_batched_tokens": ChangeClass.LIVE},
    live_limits={"max_num_batched_tokens": 1024, "num_speculative_tokens": 4},
    live_floors={"max_num_batched_tokens": 9, "prefill_chunk_size": 9},
    costs={ChangeClass.RESTART: ChangeCost(count=2, last_s=250.0, mean_s=90.0)},
)


@pytest.mark.parametrize(
    ("knobs", "needed"),
    [
        ({}, None),
        ({"max_num_batched_tokens": 512}, None),
        ({"max_num_batched_tokens": 1024}, ChangeClass.LIVE),
        ({"max_num_batched_tokens": 1025}, ChangeClass.RESTART),
        ({"max_num_batched_tokens": 9, "prefill_chunk_size": 9}, ChangeClass.LIVE),
        ({"max_num_batched_tokens": 8}, ChangeClass.RESTART),
        ({"prefill_chunk_size": 8}, ChangeClass.RESTART),
        ({"max_num_seqs": 8}, ChangeClass.LIVE),
        ({"num_speculative_tokens": [[2, 4], [8, 1]]}, ChangeClass.LIVE),
        ({"num_speculative_tokens": [[2, 5], [8, 1]]}, ChangeClass.RESTART),
        ({"max_num_seqs": 8, "quantization": "int8"}, ChangeClass.RESTART),
    ],
)
def test_the_hardest_knob_decides(knobs: dict[str, object], needed: ChangeClass | None) -> None:
    assert needed_class("vllm", NODE, {**NODE.knobs, **knobs}) is needed


def test_off_is_below_no_floor() -> None:
    pieces = NODE.model_copy(update={"knobs": {**NODE.knobs, "prefill_chunk_size": 64}})
    assert needed_class("vllm", pieces, {**pieces.knobs, "prefill_chunk_size": 0}) is ChangeClass.LIVE


def test_what_a_node_does_not_say_is_the_contracts() -> None:
    bare = EffectiveConfig(revision=0, knobs=NODE.knobs)
    assert class_of("quantization", "vllm", bare) is ChangeClass.RESTART
    assert class_of("quantization", "embedded", bare) is ChangeClass.SWAP
    assert needed_class("embedded", bare, {"quantization": "int8"}) is ChangeClass.SWAP
    assert needed_class("embedded", EffectiveConfig(revision=0, knobs={}), {"quantization": "int8"}) is None


def test_costs_and_patience() -> None:
    assert expected_s(NODE, None) == 0.0
    assert expected_s(NODE, ChangeClass.RESTART) == 90.0
    assert expected_s(NODE, ChangeClass.LIVE) is None
    warming = ChangeCost(count=2, last_s=250.0, mean_s=90.0, warm_ups=1, warm_up_s=14.0, capacity_lost_s=95.0)
    assert expected_s(NODE.model_copy(update={"costs": {ChangeClass.RESTART: warming}}), ChangeClass.RESTART) == 104.0
    assert patience_s(NODE, ChangeClass.LIVE) == 30.0
    assert patience_s(NODE, ChangeClass.SWAP) == 600.0
    assert patience_s(NODE, ChangeClass.RESTART) == 1000.0
