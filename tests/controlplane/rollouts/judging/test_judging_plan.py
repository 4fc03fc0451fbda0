"""What a rollout is judged by is told before it starts, and follows from its spec."""

from typing import Any

import pytest
from pydantic import ValidationError

from controlplane.contract.bodies.rollouts import JudgingPlan, RolloutCreate, RolloutProposal
from controlplane.contract.bodies.slo import Limit, UseCase
from controlplane.rollouts.judging.judging_plan import levels_beside, plan_of, with_limits


def plan(**wanted: Any) -> JudgingPlan:
    found = plan_of(RolloutCreate.model_validate({"pool": "p", "revision": 2, **wanted}))
    assert found is not None
    return found


def test_time_per_token_is_compared_in_the_middle_and_gaps_in_the_tail() -> None:
    compared = {one.metric: one for one in plan().compared}
    assert list(compared) == ["ttft", "tpot", "e2e", "itl"]
    assert compared["tpot"].levels == [0.5, 0.9, 0.95, 0.99] and compared["tpot"].shown == [0.5, 0.9]
    assert compared["itl"].levels == [0.99] and compared["itl"].shown == []
    assert compared["itl"].per_delivery and not compared["tpot"].per_delivery


def test_a_studys_winner_is_compared_by_its_objective_alone() -> None:
    found = plan(objective="e2e", objective_q=0.95, study_id=3, limits=[Limit(metric="itl", q=0.99, limit_s=0.1)])
    assert [(one.metric, one.levels, one.shown) for one in found.compared] == [("e2e", [0.95], [0.95])]
    assert found.compared[0].beside == [0.8636, 0.9828]
    told = next(
        one for one in found.says if one.startswith("the objective of study 3, e2e at p95: not slower than the")
    )
    assert told.endswith("by more than 10 %; better where it is faster there or beside it, at p86.36 and p98.28")
    assert "limit: itl p99 at most 0.1 s, unless the control breaks it as often" in found.says


def test_that_only_what_is_better_stays_is_told() -> None:
    told = "goes back unless it is shown to be better by then"
    assert any(told in one for one in plan(only_better=True).says) and not any(told in one for one in plan().says)


def test_beside_a_quantile_are_those_of_a_third_and_three_times_its_odds() -> None:
    assert levels_beside(0.5) == [0.25, 0.75]
    assert levels_beside(0.99) == [0.9706, 0.9966]
    assert levels_beside(0.99999) == []  # Nothing is beside the end.


def test_a_profile_and_the_pools_limits_come_beside_its_own() -> None:
    own, pools = Limit(metric="ttft", q=0.95, limit_s=3.0), Limit(metric="e2e", q=0.99, limit_s=9.0)
    spec = RolloutCreate(pool="p", revision=2, limits=[own], profile=UseCase.CHAT)
    spec = with_limits(spec, [Limit(metric="ttft", q=0.95, limit_s=0.5), pools])
    found = plan_of(spec)
    assert found is not None
    assert own in found.limits and pools in found.limits
    assert Limit(metric="itl", q=0.99, limit_s=0.2) in found.limits
    assert Limit(metric="ttft", q=0.95, limit_s=0.5) not in found.limits


def test_an_emergency_is_not_judged() -> None:
    spec = RolloutCreate(pool="p", revision=2, emergency=True, reason="x")
    assert plan_of(spec) is None
    assert with_limits(spec, [Limit(metric="e2e", q=0.5, limit_s=1.0)]) is spec


def test_a_take_back_is_judged_sooner_unless_it_says_otherwise() -> None:
    found = RolloutCreate(pool="p", revision=2, takes_back=3)
    assert (found.min_judge_s, found.max_judge_s) == (15.0, 300.0)
    assert "takes revision 3 back" in plan(takes_back=3).says[-1]
    told = RolloutCreate(pool="p", revision=2, takes_back=3, min_judge_s=40, max_judge_s=900)
    assert (told.min_judge_s, told.max_judge_s) == (40, 900)
    assert RolloutCreate.model_validate(told.model_dump(mode="json")) == told


def test_without_limits_it_says_so() -> None:
    assert any(line.startswith("no limits:") for line in plan().says)


def test_a_pool_s_own_limits_may_be_more_than_anybody_asks_for() -> None:
    pools = [Limit(metric="ttft", q=place / 100, limit_s=1.0) for place in range(1, 60)]
    spec = with_limits(RolloutCreate(pool="p", revision=2), pools)
    assert RolloutCreate.model_validate(spec.model_dump(mode="json")).limits == pools, "what is kept is read again"
    with pytest.raises(ValidationError, match="at most 32"):
        RolloutProposal(pool="p", revision=2, limits=pools)
