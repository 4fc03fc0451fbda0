"""How many replicas carry a rate: no fewer would, each carries its part, none is beyond room or limit."""

import math

from hypothesis import given
from hypothesis import strategies as st

from controlplane.hardware.replicas import Replica, carried


def replica(step_s: float, each_s: float, room: float, prompt_s: float = 0.05, output: float = 100.0) -> Replica:
    return Replica(lambda running: step_s + each_s * running, prompt_s, output, room)


@given(
    st.floats(0.001, 0.1), st.floats(0.0, 0.01), st.floats(1.0, 500.0), st.floats(0.01, 1000.0),
    st.one_of(st.just(math.inf), st.floats(0.001, 0.5)),
)  # fmt: skip
def test_as_few_as_carry_it_within_the_limit(
    step_s: float, each_s: float, room: float, rate: float, limit_s: float
) -> None:
    one = replica(step_s, each_s, room)
    found = carried(one, rate, limit_s)
    if step_s + each_s > limit_s:
        assert found is None
        return
    assert found is not None and 0 <= found.running <= room * (1 + 1e-9)
    if found.running >= 1:
        assert one.tpot_s(found.running) <= limit_s * (1 + 1e-6)
    carried_by_each = one.requests_per_s(found.running)
    assert carried_by_each * found.replicas >= rate * (1 - 1e-6)
    if found.replicas > 1:
        most = room if limit_s == math.inf or not each_s else min(room, (limit_s - step_s) / each_s)
        assert one.requests_per_s(most) * (found.replicas - 1) < rate * (1 + 1e-6)


def test_by_hand() -> None:
    """10 ms a step, 64 at once, 100 tokens: 64 requests a 1.05 s. 100 a second want two, with 52.5 under way each."""
    found = carried(replica(0.01, 0.0, 64.0), 100.0)
    assert found is not None and found.replicas == 2
    assert abs(found.running - 52.5) < 1e-3


def test_what_finds_no_room_carries_nothing() -> None:
    assert carried(replica(0.01, 0.0, 0.9), 1.0) is None
