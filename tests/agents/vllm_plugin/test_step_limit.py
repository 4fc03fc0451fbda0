"""The plugin's decision: the embedded engine's words and order, and nothing said that is not so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tailwright_vllm import step_limit
from tailwright_vllm.step_limit import LIMITS, Left, planned_limit

from agents.engine.scheduling.step_limit import limit_of_plan, limit_of_step
from controlplane.contract.step_limits import StepLimit

NOTHING = Left(
    no_blocks=False,
    budget_spent=False,
    seat_free=True,
    waits=False,
    cut=False,
    cut_to_chunk=False,
    held_back=False,
)
lefts = st.builds(Left, **{name: st.booleans() for name in Left._fields})


def test_the_words_are_the_contracts_in_its_order() -> None:
    assert tuple(StepLimit) == LIMITS


@given(st.fixed_dictionaries({name: st.booleans() for name in ("blocks", "budget", "seats", "chunk")}))
def test_a_plan_is_judged_as_by_the_embedded_engine(met: dict[str, bool]) -> None:
    assert step_limit.limit_of_plan(**met) == limit_of_plan(**met).value


@given(st.sampled_from(StepLimit), st.integers(0, 50))
def test_a_step_is_judged_as_by_the_embedded_engine(planned: StepLimit, rejected: int) -> None:
    assert step_limit.limit_of_step(planned.value, rejected) == limit_of_step(planned, rejected).value


@pytest.mark.parametrize(
    ("left", "limit"),
    [
        ({}, "no_work"),
        ({"waits": True, "no_blocks": True}, "kv_memory"),
        ({"waits": True, "budget_spent": True}, "token_budget"),
        ({"cut": True, "budget_spent": True}, "token_budget"),
        ({"budget_spent": True}, "no_work"),  # It was just enough.
        ({"waits": True}, "token_budget"),  # What is left is too small for what must be computed at once.
        ({"waits": True, "seat_free": False}, "max_num_seqs"),
        ({"waits": True, "seat_free": False, "budget_spent": True}, "max_num_seqs"),
        ({"waits": True, "seat_free": False, "budget_spent": True, "cut": True}, "token_budget"),
        ({"cut": True, "cut_to_chunk": True}, "chunk"),
        ({"cut": True, "cut_to_chunk": True, "budget_spent": True}, "token_budget"),
        ({"cut": True}, "no_work"),  # Left out by vLLM for a reason of its own, such as a block boundary.
        ({"waits": True, "held_back": True}, None),
        ({"waits": True, "held_back": True, "no_blocks": True}, "kv_memory"),
        ({"waits": True, "held_back": True, "seat_free": False}, "max_num_seqs"),
    ],
)
def test_what_bound_a_step(left: dict[str, bool], limit: str | None) -> None:
    assert planned_limit(NOTHING._replace(**left)) == limit


@given(lefts)
def test_it_is_never_said_of_what_did_not_hold(left: Left) -> None:
    limit = planned_limit(left)
    holds = {
        "kv_memory": left.no_blocks,
        "token_budget": left.budget_spent or (left.waits and left.seat_free),
        "max_num_seqs": left.waits and not left.seat_free,
        "chunk": left.cut_to_chunk and not left.budget_spent,
        "no_work": not (left.waits and not left.held_back),
        None: left.held_back and left.waits and left.seat_free,
    }
    assert holds[limit]
