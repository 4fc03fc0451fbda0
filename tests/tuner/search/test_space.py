"""The search space: ordered, within what the node can, and reversible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.errors import KnobOutOfRange, UnknownKnob
from controlplane.contract.knobs import EngineConfig
from tuner.search.space import Capabilities, build_space

DEFAULT = EngineConfig(max_num_batched_tokens=24).knobs()
ABLE = Capabilities(quantization=("none", "int8"))
SPACE = build_space({}, DEFAULT, ABLE)


def test_the_default_space_holds_what_runs_now_and_what_the_node_can() -> None:
    assert SPACE.values["max_num_batched_tokens"][0] == 24
    assert SPACE.values["prefill_chunk_size"][-1] == 0
    assert SPACE.values["quantization"] == ["none", "int8"]
    assert SPACE.fixed == {"max_num_seqs": 32}
    assert SPACE.knobs(SPACE.params(DEFAULT)) == DEFAULT


@given(st.data())
def test_params_and_knobs_are_inverse_but_for_unreachable_chunks(data: st.DataObject) -> None:
    params = {
        name: data.draw(st.sampled_from(values) if name == "quantization" else st.integers(0, len(values) - 1))
        for name, values in SPACE.values.items()
    }
    knobs = SPACE.knobs(params)
    assert SPACE.knobs(SPACE.params(knobs)) == knobs
    assert knobs["prefill_chunk_size"] < knobs["max_num_batched_tokens"]


def test_a_node_that_cannot_quantize_or_speculate_is_not_asked_to() -> None:
    space = build_space({}, DEFAULT, Capabilities(maximum={"max_num_batched_tokens": 256, "num_speculative_tokens": 0}))
    assert space.values.keys() == {"max_num_batched_tokens", "prefill_chunk_size"}
    assert max(space.values["max_num_batched_tokens"]) == 256


def test_ranges_of_a_study() -> None:
    wanted = {
        "max_num_batched_tokens": KnobRange(minimum=64, maximum=1024, log=True),
        "num_speculative_tokens": KnobRange(choices=[0, 4, [[1, 6], [4, 2]]]),
        "max_num_seqs": KnobRange(minimum=4, maximum=8),
    }
    space = build_space(wanted, DEFAULT, ABLE)
    assert space.values["max_num_batched_tokens"][:2] == [24, 64] and len(space.values["max_num_batched_tokens"]) == 14
    assert space.values["num_speculative_tokens"] == [0, 4, [[1, 6], [4, 2]]]
    assert space.values["max_num_seqs"] == [4, 5, 6, 7, 8, 32]
    assert "quantization" in space.fixed
    assert space.knobs(space.params(DEFAULT)) == DEFAULT


def test_wrong_ranges_are_named() -> None:
    with pytest.raises(UnknownKnob, match="max_num_seqs"):
        build_space({"max_num_seq": KnobRange(choices=[1])}, DEFAULT, ABLE)
    with pytest.raises(KnobOutOfRange, match="below the minimum"):
        build_space({"max_num_seqs": KnobRange(minimum=9, maximum=3)}, DEFAULT, ABLE)


def test_known_infeasible() -> None:
    assert "drafts" in SPACE.infeasible({**DEFAULT, "max_num_batched_tokens": 4, "num_speculative_tokens": 8})
    vllm = build_space({}, DEFAULT, Capabilities(tokens_at_least_seqs=True))
    assert "sequences" in vllm.infeasible(DEFAULT)
    assert not SPACE.infeasible(DEFAULT)
