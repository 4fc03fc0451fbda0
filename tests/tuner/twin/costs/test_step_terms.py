"""What a step is made of, counted by hand, and what scaling, pausing and splitting it do to its seconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import Request
from agents.engine.scheduling.step_plan import StepPlan, Work
from controlplane.contract.step_limits import StepLimit
from tuner.twin.costs.step_terms import NAMES, StepCost, Terms, summed, terms_of, with_decodes

COST = StepCost((0.01, 1e-4, 2e-3, 3e-4, 1e-6, 1e-8))
counts = st.tuples(*[st.floats(0, 1e4)] * len(NAMES))


def work(length: int, start: int, count: int, drafts: int = 0) -> Work:
    return Work(Request("r", [1] * length, SamplingParams(4)), start, count, drafts)


def plan(*works: Work) -> StepPlan:
    return StepPlan(list(works), 512, 0, StepLimit.NO_WORK)


def test_a_decode_reads_all_before_it_and_samples_once_more_for_each_draft() -> None:
    assert terms_of(plan(work(11, 10, 1))) == (1, 1, 0, 1, 11, 0)
    assert terms_of(plan(work(11, 10, 1, drafts=3))) == (1, 4, 0, 4, 14, 0)


def test_a_prompt_is_one_samples_at_its_end_and_sees_itself_and_what_was_before() -> None:
    first, last = work(10, 0, 6), work(10, 6, 4)
    assert terms_of(plan(first)) == (1, 6, 1, 0, 6, 21), "six tokens see 1 to 6"
    assert terms_of(plan(last)) == (1, 4, 1, 1, 10, 34), "four see 7, 8, 9, 10"
    assert terms_of(plan(work(1, 0, 1))) == (1, 1, 0, 1, 1, 0), "one of a single token begins no kernel of prompts"


def test_decodes_are_put_beside_it_as_a_plan_would_count_them() -> None:
    alone, both = plan(work(10, 0, 6)), plan(work(10, 0, 6), work(21, 20, 1), work(31, 30, 1))
    assert with_decodes(terms_of(alone), 2, 52) == terms_of(both)


def test_its_seconds_are_each_terms_own_added_up() -> None:
    terms = (1.0, 64.0, 2.0, 7.0, 4096.0, 1e5)
    assert COST.seconds(terms) == pytest.approx(0.01 + 0.0064 + 0.004 + 0.0021 + 0.004096 + 0.001)


@given(st.lists(counts, max_size=5))
def test_steps_together_cost_what_each_does(several: list[Terms]) -> None:
    assert COST.seconds(summed(several)) == pytest.approx(sum(COST.seconds(one) for one in several))


@given(counts, st.floats(0.1, 10))
def test_another_pace_is_so_many_times_the_seconds(terms: Terms, factor: float) -> None:
    assert COST.scaled(factor).seconds(terms) == pytest.approx(factor * COST.seconds(terms))


def test_a_pause_is_each_steps_and_takes_no_more_away_than_a_step_has() -> None:
    assert COST.after(0.002).seconds_each == (0.012, *COST.seconds_each[1:])
    assert COST.after(-1.0).seconds_each == (0.0, *COST.seconds_each[1:])


@pytest.mark.parametrize(("split", "part"), [(0.0, 1.0), (0.5, 0.625), (1.0, 0.25)])
def test_over_more_devices_what_is_read_and_multiplied_is_divided_and_what_is_launched_is_not(
    split: float, part: float
) -> None:
    steps, tokens, prompts, sampled, context, attended = COST.seconds_each
    found = COST.over(4, split).seconds_each
    assert found == pytest.approx((steps * part, tokens / 4, prompts, sampled * part, context / 4, attended / 4))
