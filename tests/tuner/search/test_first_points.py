"""What is measured first lies within the space, on either side of what engines start with."""

from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.knobs import EngineConfig
from tuner.search.first_points import first_points
from tuner.search.space import Capabilities, build_space

DEFAULT = EngineConfig(max_num_batched_tokens=24).knobs()


def test_the_engines_defaults_then_a_small_and_a_large_step_with_what_usually_helps() -> None:
    space = build_space({}, DEFAULT, Capabilities(quantization=("none", "int8")))
    first, small, large = first_points(space, DEFAULT)
    assert first == EngineConfig().knobs()
    assert (small["max_num_batched_tokens"], small["prefill_chunk_size"], small["quantization"]) == (128, 0, "int8")
    assert (large["max_num_batched_tokens"], large["prefill_chunk_size"]) == (768, 128)
    assert small["num_speculative_tokens"] == large["num_speculative_tokens"] == 2


def test_what_a_node_cannot_is_not_among_them() -> None:
    able = Capabilities(maximum={"max_num_batched_tokens": 256, "num_speculative_tokens": 0})
    space = build_space({}, DEFAULT, able)
    for knobs in first_points(space, DEFAULT):
        assert space.complete(space.chosen(knobs)) == knobs
        assert knobs["max_num_batched_tokens"] <= 256 and knobs["num_speculative_tokens"] == 0
        assert knobs["quantization"] == "none"


def test_every_searched_knob_varies_and_grows_with_the_step() -> None:
    wanted = {
        "max_num_batched_tokens": KnobRange(choices=[64, 128, 256, 768]),
        "max_num_seqs": KnobRange(choices=[4, 16]),
        "num_speculative_tokens": KnobRange(choices=[0, 2, 4]),
    }
    space = build_space(wanted, EngineConfig().knobs() | {"max_num_seqs": 16}, Capabilities())
    _, small, large = first_points(space, EngineConfig().knobs())
    assert (small["max_num_seqs"], large["max_num_seqs"]) == (4, 16)
    assert small["num_speculative_tokens"] == large["num_speculative_tokens"] == 2
