"""A study's text: what the winner changes, told by values and not by how they are written."""

from typing import Any

from controlplane.contract.knobs import EngineConfig
from tuner.study.study_text import changes

SCHEDULE = ((1, 4), (8, 0))


def test_only_what_differs_is_told_in_the_order_of_the_knobs() -> None:
    default = EngineConfig(max_num_batched_tokens=24).knobs()
    winner = EngineConfig(max_num_batched_tokens=512, max_num_seqs=8).knobs()
    seqs = default["max_num_seqs"]
    assert changes(winner, default) == f"max_num_batched_tokens 24 -> 512, max_num_seqs {seqs} -> 8"
    assert changes(default, default) == "nothing"


def test_a_schedule_as_it_came_over_the_wire_is_the_same_schedule() -> None:
    ours: dict[str, Any] = {"num_speculative_tokens": SCHEDULE, "quantization": "none"}
    assert changes(ours | {"num_speculative_tokens": [list(pair) for pair in SCHEDULE]}, ours) == "nothing"
