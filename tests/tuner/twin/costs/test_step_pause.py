"""What passes between steps is found by the median time per output token, however many tokens a step gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.twin.costs.step_pause import pause


@given(
    base_s=st.floats(0.001, 0.1),
    wanted_s=st.floats(0.001, 0.2),
    tokens_a_step=st.floats(1.0, 5.0),
    more=st.floats(0, 1),
)
def test_the_told_median_becomes_the_measured_one(
    base_s: float, wanted_s: float, tokens_a_step: float, more: float
) -> None:
    """Where the median follows the pause in a line: less than all of it where a step gives several tokens, more where
    requests wait for prompts between."""

    def told_s(between_s: float) -> float:
        return base_s + between_s * (1 + more) / tokens_a_step

    assert told_s(pause(told_s, wanted_s)) == pytest.approx(wanted_s)


def test_where_no_token_follows_another_there_is_none() -> None:
    assert pause(lambda _: None, 0.01) == 0.0


def test_steps_that_have_no_part_left_are_left_alone() -> None:
    """The twin is slower than what was measured whatever is taken from its steps: it is asked once more, and no end is
    sought in vain."""
    asked = []

    def told_s(between_s: float) -> float:
        asked.append(between_s)
        return 0.02

    assert pause(told_s, 0.01) == pytest.approx(-0.01)
    assert asked == [0.0, pytest.approx(-0.01)]
