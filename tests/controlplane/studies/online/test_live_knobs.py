"""Only what changes live on every node is moved, and what a study names besides is refused by name."""

from typing import Any

import pytest

from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import (
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
    EngineConfig,
)
from controlplane.studies.online.live_knobs import bounds_of
from controlplane.studies.online.next_values import Reach
from controlplane.studies.online.walk import Walk


def node(name: str, backend: str = "embedded", **told: Any) -> NodeView:
    effective = {"revision": 1, "knobs": EngineConfig().knobs(), **told}
    seen = {"node": name, "pool": "chat", "role": "serving", "backend": backend, "connected": True, "healthy": True}
    more = {"labels": {}, "config_status": "applied", "config_error": "", "drift": False, "engine_version": "1"}
    return NodeView.model_validate({**seen, **more, "effective": effective})


def spec(**changes: Any) -> StudyCreate:
    return StudyCreate.model_validate({"pool": "chat", "online": {}, **changes})


def test_without_a_space_all_that_is_live_everywhere_may_move() -> None:
    told = node("b", change_classes={NUM_SPECULATIVE_TOKENS: "restart"}, live_limits={MAX_NUM_SEQS: 64})
    found = bounds_of(spec(max_trials=7, max_duration_s=50, online={"step": 2, "max_taken_back": 1}), [node("a"), told])
    assert list(found.reach) == ["max_num_batched_tokens", "prefill_chunk_size", MAX_NUM_SEQS]
    assert found.reach[MAX_NUM_SEQS] == Reach(1, 64)
    assert (found.step, found.most_steps, found.most_taken_back, found.lasts_s) == (2, 7, 1, 50)
    assert not found.tokens_at_least_seqs
    assert bounds_of(spec(), [node("a"), node("v", "vllm")]).tokens_at_least_seqs


def test_no_step_goes_below_what_any_node_takes_while_it_serves() -> None:
    """Told by the nodes: a scheduler whose drafts take nine tokens cannot work with eight."""
    nodes = [node("a", "vllm"), node("b", "vllm", live_floors={MAX_NUM_BATCHED_TOKENS: 9, PREFILL_CHUNK_SIZE: 9})]
    start = EngineConfig(max_num_batched_tokens=12, max_num_seqs=4, num_speculative_tokens=0).knobs()
    for space in ({}, {MAX_NUM_BATCHED_TOKENS: {"minimum": 9, "maximum": 64}}):
        bounds = bounds_of(spec(space=space, online={"step": 2}), nodes)
        (down,) = [one for one in Walk(start, bounds).moves() if one.knob == MAX_NUM_BATCHED_TOKENS and one.value < 12]
        assert down.value == 9
        lowest = Walk({**start, MAX_NUM_BATCHED_TOKENS: 9}, bounds).moves()
        assert [one.value for one in lowest if one.knob == MAX_NUM_BATCHED_TOKENS] == [18]


@pytest.mark.parametrize(
    ("space", "field", "why"),
    [
        ({"quantization": {"choices": ["none", "int8"]}}, "space.quantization", "takes a swap of node a"),
        ({NUM_SPECULATIVE_TOKENS: {"choices": [0, 2]}}, "space.num_speculative_tokens", "takes a restart of node b"),
        ({MAX_NUM_SEQS: {"minimum": 8, "maximum": 65}}, "space.max_num_seqs.maximum", "at most 64 while it serves"),
        ({MAX_NUM_SEQS: {"choices": [8, 96]}}, "space.max_num_seqs.choices", "node b takes at most 64 .* not 96"),
        (
            {PREFILL_CHUNK_SIZE: {"minimum": 8, "maximum": 64}},
            "space.prefill_chunk_size.minimum",
            "no fewer than 9 while",
        ),
        ({PREFILL_CHUNK_SIZE: {"choices": [0, 8, 64]}}, "space.prefill_chunk_size.choices", "node b .* 9 .* not 8"),
    ],
)
def test_what_is_not_live_is_refused_by_name(space: dict[str, Any], field: str, why: str) -> None:
    live: dict[str, Any] = {"live_limits": {MAX_NUM_SEQS: 64}, "live_floors": {PREFILL_CHUNK_SIZE: 9}}
    told = node("b", change_classes={NUM_SPECULATIVE_TOKENS: "restart"}, **live)
    with pytest.raises(BadRequest, match=why) as refused:
        bounds_of(spec(space=space), [node("a"), told])
    assert refused.value.detail["field"] == field


def test_a_pool_without_a_live_knob_is_refused() -> None:
    told = node("a", change_classes=dict.fromkeys(EngineConfig().knobs(), "restart"))
    with pytest.raises(BadRequest, match="online: no knob changes live"):
        bounds_of(spec(), [told])
