"""The form of a new rollout: read as the API takes it, and each field that is wrong told at once."""

from typing import Any

import pytest

from controlplane.contract.bodies.nodes import EffectiveConfig, NodeRole, NodeView
from controlplane.contract.bodies.rollouts import OnInconclusive
from controlplane.contract.errors import BadRequest, Conflict
from controlplane.contract.knobs import KNOBS, ChangeClass
from controlplane.contract.reports.declared_knobs import DeclaredKnob
from web.rollouts.proposal_fields import declared_hint, filled, knob_hint, knob_value, problems_of

SAID = {"pool": "chat", "revision": "3"}


def test_what_is_left_empty_is_not_said() -> None:
    proposal = filled({**SAID, "reason": " "}).proposal
    assert proposal is not None
    assert proposal.model_fields_set == {"pool", "revision", "knobs", "start"}
    assert (proposal.pool, proposal.revision, proposal.knobs, proposal.start) == ("chat", 3, {}, False)


def test_labels_are_read_and_a_wrong_selector_is_told_at_its_field() -> None:
    by_label = {"canary_selector": "gpu in (H200,H100)", "wave_by": "region", "wave_order": "eu-1, us-2"}
    by_label |= {"wave_soak": "1h", "wave_pause": "yes"}
    proposal = filled({**SAID, **by_label}).proposal
    assert proposal is not None
    assert (proposal.canary_selector, proposal.wave_by) == ("gpu in (H100, H200)", "region")
    assert proposal.wave_order == ["eu-1", "us-2"]
    assert (proposal.wave_soak_s, proposal.wave_pause) == (3600, True)
    assert filled({**SAID, "wave_by": "region", "wave_soak": "soon"}).problems == {
        "wave_soak": "wants a number and s, m, h, d or w, such as 1h or 7d"
    }
    wrong = filled({**SAID, "canary_selector": "gpu in H100"}).problems
    assert wrong["canary_selector"].startswith("at character 8: wants a list such as (a, b), got 'H100'")
    for field, text in (("wave_order", "eu-1"), ("wave_soak", "5m"), ("wave_pause", "yes")):
        assert filled({**SAID, field: text}).problems == {
            "wave_by": "name the label whose values these are, such as region"
        }


def test_a_whole_form_is_read() -> None:
    how = {"canary": "10 %", "stages": "watched", "soak": "10m", "undecided": "hold", "tolerance": "20 %"}
    limits = {"most_nodes": "8", "most_traffic": "30 %", "longest_wait": "30s"}
    knobs = {"max_num_seqs": "64", "num_speculative_tokens": "≤4: 2, 16: 1", "quantization": "int8"}
    read = filled({**SAID, **how, **limits, **knobs, "approval": "yes", "reason": "queues"})
    proposal = read.proposal
    assert proposal is not None and read.problems == {}
    assert (proposal.canary_share, proposal.soak_s, proposal.tolerance) == (0.1, 600.0, 0.2)
    assert [(stage.share, stage.pause) for stage in proposal.stages][-2:] == [(0.5, True), (1.0, False)]
    assert (proposal.on_inconclusive, proposal.wants_approval) == (OnInconclusive.HOLD, True)
    assert proposal.max_blast is not None
    assert (proposal.max_blast.nodes, proposal.max_blast.traffic_share, proposal.max_blast.unavailable_s) == (
        8,
        0.3,
        30,
    )
    sent = proposal.model_dump(mode="json")["knobs"]
    assert sent == {"max_num_seqs": 64, "num_speculative_tokens": [[4, 2], [16, 1]], "quantization": "int8"}


def test_all_that_is_wrong_is_told_at_once_and_what_is_right_is_kept() -> None:
    wrong = {"max_num_seqs": "0", "prefill_chunk_size": "many", "soak": "soon", "canary": "80 %", "most_nodes": "-1"}
    read = filled({**SAID, **wrong, "max_num_batched_tokens": "1024"})
    assert read.proposal is None and read.knobs == {"max_num_batched_tokens": 1024}
    assert set(read.problems) == {"max_num_seqs", "prefill_chunk_size", "soak", "most_nodes"}
    assert read.problems["max_num_seqs"] == "0 is outside 1 to 4096 (requests)"
    assert set(filled({**SAID, "canary": "80 %"}).problems) == {"canary"}
    assert set(filled({}).problems) == {"pool", "revision"}


@pytest.mark.parametrize("text", ["4: 2, 4: 1", "4:", "x: 1", "4: 99", "1.5", "-1", "9" * 12])
def test_a_draft_length_is_a_number_or_a_schedule(text: str) -> None:
    assert knob_value("num_speculative_tokens", "5") == 5
    with pytest.raises(BadRequest) as wrong:
        knob_value("num_speculative_tokens", text)
    assert str(wrong.value.detail["field"]).startswith("num_speculative_tokens")


@pytest.mark.parametrize(
    ("error", "problems"),
    [
        (Conflict("max_blast.nodes: would be 8", field="max_blast.nodes"), {"most_nodes": "would be 8"}),
        (Conflict("pool: no rollout begins: freeze 3", field="pool"), {"pool": "no rollout begins: freeze 3"}),
        (BadRequest("knobs.quantization: 'x'", field="knobs.quantization"), {"quantization": "'x'"}),
        (
            Conflict("the policy lets ann propose alone", field="Authorization"),
            {"": "the policy lets ann propose alone"},
        ),
    ],
)
def test_what_the_api_refuses_stands_at_the_forms_field(error: Conflict, problems: dict[str, str]) -> None:
    assert problems_of(error) == problems


def test_what_a_node_refuses_stands_at_the_knob() -> None:
    told: list[dict[str, Any]] = [
        {"node": "a", "field": "effective", "refuses": False, "problem": "it is away", "mend": ""},
        {
            "node": "b",
            "field": "knobs.max_num_seqs",
            "refuses": True,
            "problem": "99 is above 64",
            "mend": "at most 64",
        },
    ]
    refused = Conflict("revision: 5 cannot run in pool 'chat': and so on", field="revision", findings=told)
    assert problems_of(refused) == {"max_num_seqs": "b: 99 is above 64; at most 64"}


def node(**effective: Any) -> NodeView:
    runs = EffectiveConfig(**{"revision": 1, "knobs": {}, **effective})
    kept: dict[str, Any] = {"pool": "chat", "role": NodeRole.SERVING, "backend": "embedded", "model": "m"}
    return NodeView(node="a", connected=True, healthy=True, effective=runs, **kept)


@pytest.mark.parametrize(
    ("name", "nodes", "words"),
    [
        ("max_num_seqs", [], "requests, 1 to 4096; empty: 32."),
        ("max_num_seqs", [node()], "a change is live; empty: 32."),
        (
            "max_num_seqs",
            [node(live_limits={"max_num_seqs": 48}, limits={"max_num_seqs": 64}), node(limits={"max_num_seqs": 60})],
            "a change is live up to 48, a restart up to 60; empty: 32.",
        ),
        ("max_num_seqs", [node(limits={"max_num_seqs": 64})], "a change is live, at most 64; empty: 32."),
        (
            "quantization",
            [node(formats=["none", "int8"]), node(formats=["none"])],
            "its nodes have none; a change is a swap; empty: none.",
        ),
    ],
)
def test_a_knobs_hint_has_unit_bounds_class_and_the_pools_limits(name: str, nodes: list[NodeView], words: str) -> None:
    assert knob_hint(KNOBS[name], KNOBS[name].default, nodes).endswith(words)


def test_knobs_that_nodes_declare_have_a_field_together() -> None:
    proposal = filled({**SAID, "declared": "block_size=32, kv=fp8", "max_num_seqs": "8"}).proposal
    assert proposal is not None and proposal.knobs == {"max_num_seqs": 8, "block_size": 32, "kv": "fp8"}
    assert list(filled({**SAID, "declared": "block_size"}).problems) == ["declared"]
    refused = Conflict("knobs.block_size: no", field="knobs.block_size")
    assert problems_of(refused) == {"declared": "no"}
    own = DeclaredKnob(change_class=ChangeClass.RESTART, start=16, values=(16, 32), unit="tokens")
    assert "block_size: one of 16, 32 tokens, a change is a restart" in declared_hint({"block_size": [own]})
    assert declared_hint({}) == ""
