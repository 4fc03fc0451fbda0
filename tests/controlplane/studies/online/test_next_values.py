"""One step from a value: by the ratio at most, by one at least, to the next of the choices."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.knobs import (
    KNOBS,
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
    EngineConfig,
)
from controlplane.studies.online.next_values import Reach, effect, neighbour, reach_of

SCHEDULE = [[4, 3], [16, 1]]


@pytest.mark.parametrize(
    ("knob", "value", "wanted", "step", "down", "up"),
    [
        (MAX_NUM_SEQS, 32, None, 1.25, 26, 40),
        (MAX_NUM_SEQS, 2, None, 1.25, 1, 3),  # By one at least.
        (MAX_NUM_SEQS, 1, None, 1.25, None, 2),
        (MAX_NUM_SEQS, 100, None, 1.1, 91, 110),  # Whatever floating point makes of 110 / 1.1.
        (MAX_NUM_SEQS, 32, KnobRange(minimum=30, maximum=36), 1.25, 30, 36),
        (MAX_NUM_SEQS, 64, KnobRange(minimum=8, maximum=32), 1.25, 52, None),  # Towards the range, and no faster.
        (MAX_NUM_SEQS, 16, KnobRange(choices=[64, 8, 16, 32]), 1.25, 8, 32),
        (MAX_NUM_SEQS, 20, KnobRange(choices=[64, 8, 16, 32]), 1.25, 16, 32),
        (MAX_NUM_SEQS, 64, KnobRange(choices=[64, 8]), 1.25, 8, None),
        (PREFILL_CHUNK_SIZE, 0, None, 1.25, 410, None),  # Off acts as the whole budget.
        (PREFILL_CHUNK_SIZE, 1000, None, 1.25, 410, None),
        (PREFILL_CHUNK_SIZE, 400, None, 1.25, 320, 500),
        (PREFILL_CHUNK_SIZE, 410, None, 1.25, 328, 0),
        (PREFILL_CHUNK_SIZE, 1, None, 1.25, None, 2),  # Below one comes off, which is the other end.
        (PREFILL_CHUNK_SIZE, 500, KnobRange(minimum=64, maximum=2048), 1.25, 400, 512),
        (PREFILL_CHUNK_SIZE, 256, KnobRange(choices=[0, 128, 256]), 1.25, 128, 0),
        (NUM_SPECULATIVE_TOKENS, 0, None, 1.25, None, 1),
        (NUM_SPECULATIVE_TOKENS, SCHEDULE, None, 1.25, None, None),
        (NUM_SPECULATIVE_TOKENS, SCHEDULE, KnobRange(choices=[0, 2, SCHEDULE, 4]), 1.25, 2, 4),
    ],
)
def test_one_step(knob: str, value: Any, wanted: KnobRange | None, step: float, down: Any, up: Any) -> None:
    runs = {**EngineConfig().knobs(), knob: value}
    reach = reach_of(knob, wanted)
    assert [neighbour(knob, runs, reach, step, up=way) for way in (False, True)] == [down, up]


def test_what_a_node_takes_bounds_a_reach() -> None:
    assert reach_of(MAX_NUM_SEQS, None, 64) == Reach(1, 64)
    assert reach_of(MAX_NUM_SEQS, KnobRange(minimum=8, maximum=128), 64) == Reach(8, 64)
    assert reach_of(MAX_NUM_SEQS, KnobRange(choices=[8, 128]), 64).choices == (8,)


def test_nothing_goes_below_what_a_node_takes_but_off() -> None:
    """From a little above the floor down to it and no further; a chunk size may still be off."""
    reach = reach_of(MAX_NUM_BATCHED_TOKENS, None, least=9)
    runs = EngineConfig(max_num_batched_tokens=10).knobs()
    assert neighbour(MAX_NUM_BATCHED_TOKENS, runs, reach, 2.0, up=False) == 9
    assert neighbour(MAX_NUM_BATCHED_TOKENS, {**runs, MAX_NUM_BATCHED_TOKENS: 9}, reach, 2.0, up=False) is None
    pieces, small = reach_of(PREFILL_CHUNK_SIZE, None, least=9), {**runs, PREFILL_CHUNK_SIZE: 9}
    assert neighbour(PREFILL_CHUNK_SIZE, small, pieces, 2.0, up=False) is None
    assert neighbour(PREFILL_CHUNK_SIZE, small, pieces, 2.0, up=True) == 0
    assert reach_of(PREFILL_CHUNK_SIZE, KnobRange(choices=[0, 4, 16]), least=9).choices == (0, 16)


@given(
    st.sampled_from([MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, PREFILL_CHUNK_SIZE]),
    st.integers(1, 4096),
    st.floats(1.01, 4.0),
    st.booleans(),
)
def test_a_step_goes_its_way_and_no_farther_than_the_ratio(knob: str, value: int, step: float, up: bool) -> None:
    runs = {**EngineConfig().knobs(), knob: value}
    found = neighbour(knob, runs, reach_of(knob, None), step, up=up)
    if found is None or (knob == PREFILL_CHUNK_SIZE and (found == 0 or value >= runs[MAX_NUM_BATCHED_TOKENS])):
        return
    assert (effect(knob, found) > effect(knob, value)) is up
    assert abs(found - value) == 1 or 1 / step - 1e-6 <= found / value <= step + 1e-6
    assert KNOBS[knob].minimum <= found <= KNOBS[knob].maximum  # type: ignore[operator]
