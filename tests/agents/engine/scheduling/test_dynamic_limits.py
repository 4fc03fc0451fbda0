"""The limit of prompt tokens against a made-up engine whose steps cost 10 ms and 0.2 ms for each token."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.scheduling.dynamic_limits import PrefillLimit

BUDGET = 512


def _step_s(prompt_tokens: int, draw: Random) -> float:
    return (0.010 + 0.0002 * prompt_tokens) * draw.uniform(0.97, 1.03)


def _serve(limit: PrefillLimit, steps: int, depth: float = 0.0) -> tuple[list[int], float]:
    """The limits under a queue that never empties, and the share of steps beyond the target; of the second half."""
    draw, limits, beyond = Random(7), [], 0
    for _ in range(steps):
        tokens = limit.tokens(BUDGET)
        limits.append(tokens)
        step_s = _step_s(tokens, draw)
        beyond += len(limits) > steps // 2 and step_s > (limit.itl_target_s or 1.0)
        limit.observe(step_s, tokens, decodes=4, budget=BUDGET, depth=depth)
    return limits[steps // 2 :], beyond / (steps // 2)


def test_it_is_off_without_a_target() -> None:
    assert set(_serve(PrefillLimit(None), 300)[0]) == {BUDGET}


def test_it_comes_to_rest_where_one_step_in_a_hundred_is_beyond_the_target() -> None:
    limits, beyond = _serve(PrefillLimit(0.050), 4000)
    # 200 tokens take 50 ms.
    assert 120 < sum(limits) / len(limits) < 200 and max(limits) < 220
    assert 0.002 < beyond < 0.02


def test_a_deep_queue_shifts_it_towards_throughput() -> None:
    calm, pressed = _serve(PrefillLimit(0.050), 4000)[0], _serve(PrefillLimit(0.050), 4000, depth=4.0)
    assert sum(pressed[0]) > 1.02 * sum(calm)
    assert 0.02 < pressed[1] < 0.08


def test_a_target_that_is_always_met_or_never() -> None:
    assert set(_serve(PrefillLimit(1.0), 300)[0]) == {BUDGET}
    assert set(_serve(PrefillLimit(0.001), 300)[0]) == {16}


def test_steps_that_say_nothing_do_not_move_it() -> None:
    limit = PrefillLimit(0.050)
    limit.observe(9.0, prompt_tokens=0, decodes=4, budget=BUDGET, depth=0.0)
    limit.observe(9.0, prompt_tokens=400, decodes=0, budget=BUDGET, depth=0.0)
    assert limit.tokens(BUDGET) == BUDGET
    limit.observe(9.0, prompt_tokens=2, decodes=4, budget=BUDGET, depth=0.0)
    assert limit.tokens(BUDGET) > BUDGET / 4, "one slow step with few tokens does not throw it to the ground"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.none() | st.floats(0.0001, 10),
    st.lists(
        st.tuples(st.floats(0, 100), st.integers(0, 600), st.integers(0, 40), st.integers(1, 600), st.floats(0, 1000))
    ),
)
def test_it_stays_within_its_bounds(target_s: float | None, steps: list[tuple[float, int, int, int, float]]) -> None:
    limit = PrefillLimit(target_s)
    for step_s, prompt_tokens, decodes, budget, depth in steps:
        limit.observe(step_s, prompt_tokens, decodes, budget, depth)
        for asked in (1, 10, 16, 100, budget):
            assert min(asked, 16) <= limit.tokens(asked) <= asked
            assert target_s is not None or limit.tokens(asked) == asked
    assert limit.itl_target_s == pytest.approx(target_s) if target_s else limit.itl_target_s is None
