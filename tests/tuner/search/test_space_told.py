"""What was left out of a search is said with its reason, and everything a list names is either searched or left out."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.reports.node_memory import NodeMemory
from tuner.search.space import DEFAULT_VALUES, Capabilities, Held, build_space
from tuner.search.space_told import space_told

DEFAULT = EngineConfig().knobs()


def told(wanted: dict[str, KnobRange], able: Capabilities) -> dict[str, Any]:
    return space_told(build_space(wanted, DEFAULT, able), wanted, DEFAULT, able)


def test_each_reason_is_said() -> None:
    able = Capabilities(("none", "int8"), maximum={"max_num_batched_tokens": 1024}, tokens_at_least_seqs=True)
    found = told({}, able)
    assert found["values"]["quantization"] == ["none", "int8"]
    assert found["left_out"] == [
        {"knob": "max_num_batched_tokens", "values": [1536, 2048], "why": "the trial node's engine takes at most 1024"},
        {"knob": "quantization", "values": ["int4", "fp8"], "why": "the trial node's engine does not run it"},
        {"knob": "max_num_seqs", "values": [], "why": "a study searches it only where it is asked to"},
        {
            "knob": "",
            "values": [],
            "why": "a step of fewer tokens than a request's drafts and one more cannot verify them",
        },
        {"knob": "", "values": [], "why": "the engine does not start with fewer tokens a step than sequences"},
    ]


def test_what_the_memory_cannot_hold_is_said_to_be_left_out() -> None:
    memory = NodeMemory(limit_bytes=1000, activation_bytes_per_token=1)
    whys = [one["why"] for one in told({}, Capabilities(held=Held(memory, DEFAULT)))["left_out"]]
    assert whys[-1] == (
        "what the trial node's memory cannot hold; of the largest, it does not fit the memory: "
        "it needs at least 2.00 KiB (activations 2.00 KiB) of 1000 B"
    )
    roomy = Held(memory.model_copy(update={"limit_bytes": 2048}), DEFAULT)
    assert not [one for one in told({}, Capabilities(held=roomy))["left_out"] if "memory" in one["why"]]


def test_a_study_that_names_its_knobs_says_so_of_the_others() -> None:
    wanted = {"max_num_seqs": KnobRange(choices=[8, 16]), "quantization": KnobRange(choices=["int8"])}
    found = told(wanted, Capabilities())
    whys = {one["knob"]: one["why"] for one in found["left_out"] if not one["values"]}
    assert whys["quantization"] == "one value is left, what the pool runs"
    assert whys["prefill_chunk_size"] == "the study was asked to search others"
    assert "max_num_seqs" not in whys and found["values"] == {"max_num_seqs": [8, 16, 32]}


def test_what_is_suggested_is_searched_or_said_to_be_left_out() -> None:
    suggested = [{"max_num_seqs": 16}, {"max_num_seqs": 512, "quantization": "fp8"}]
    able = Capabilities(maximum={"max_num_seqs": 256})
    found = space_told(build_space({}, DEFAULT, able, suggested), {}, DEFAULT, able, suggested)
    assert 16 in found["values"]["max_num_seqs"] and 512 not in found["values"]["max_num_seqs"]
    left_out = {one["knob"]: one for one in found["left_out"]}
    assert left_out["max_num_seqs"] == {
        "knob": "max_num_seqs",
        "values": [512],
        "why": "the trial node's engine takes at most 256",
    }


@given(st.integers(1, 4096), st.sets(st.sampled_from(DEFAULT_VALUES["quantization"])))
def test_every_value_is_searched_or_left_out(most: int, formats: set[str]) -> None:
    found = told({}, Capabilities(tuple(formats), maximum={"max_num_batched_tokens": most}))
    for name, values in DEFAULT_VALUES.items():
        searched = found["values"].get(name, [DEFAULT[name]])
        left_out = [value for one in found["left_out"] if one["knob"] == name for value in one["values"]]
        assert set(values) <= {*searched, *left_out} and not set(searched) & set(left_out)
