"""What a trial has to come to: near the limits, and near the best that keeps them."""

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import Objective, StudyCreate
from tuner.replay.lost_cause import Bound
from tuner.search.hopeless import bounds_of
from tuner.search.objective import Assessment
from tuner.search.search import Outcome

LIMITS = [Limit(metric="ttft", q=0.99, limit_s=0.2), Limit(metric="itl", q=0.99, limit_s=0.05)]
SPEC = StudyCreate(pool="chat", objective="e2e", objective_q=0.95, constraints=LIMITS)
FAR = Bound("ttft", 0.99, 0.4)


def best(violation: float, objective_s: float | None = 1.0) -> Outcome:
    return Outcome(3, {}, Assessment(objective_s, {"ttft:0.99": violation}))


def test_a_limit_may_be_broken_by_no_more_than_its_double() -> None:
    # Gaps are many a request, so nobody knows beforehand how many there will be.
    assert bounds_of(SPEC, None) == [FAR]


def test_the_best_that_keeps_the_limits_may_be_half_as_slow_again() -> None:
    assert bounds_of(SPEC, best(-0.1)) == [FAR, Bound("e2e", 0.95, 1.5)]


def test_with_several_objectives_what_is_slow_in_one_may_be_the_best_in_another() -> None:
    several = SPEC.model_copy(update={"also": [Objective(objective="ttft", objective_q=0.5)]})
    assert bounds_of(several, best(-0.1)) == [FAR]


def test_where_nothing_keeps_them_what_is_slow_may_be_the_best() -> None:
    assert bounds_of(SPEC, best(0.3)) == [FAR]
    assert bounds_of(SPEC, best(-0.1, None)) == [FAR]


def test_an_objective_of_which_a_request_under_way_tells_nothing_has_no_bound() -> None:
    assert bounds_of(StudyCreate(pool="chat", objective="tpot", objective_q=0.5), best(-0.1)) == []
