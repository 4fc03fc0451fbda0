"""Objective, violations and score."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import (
    Objective,
    StudyCreate,
)
from controlplane.contract.planning.measurement import CarriedLoad, Measurement
from tuner.search.objective import (
    Assessment,
    assess,
    constraint_value,
    crashed,
    good_by,
    mean_assessment,
    needed_quantiles,
    score,
    violations,
)
from tuner.search.quality_gate import GATES, is_unfit

seconds = st.floats(0.001, 1000)


def _measured(e2e: float, ttft: float, errors: int = 0) -> Measurement:
    quantiles = {"e2e:0.95": e2e, "ttft:0.95": ttft}
    return Measurement(requests=100, errors=errors, duration_s=1, quantiles=quantiles, output_tokens_per_s=1)


def _spec(limit: float) -> StudyCreate:
    return StudyCreate(pool="p", constraints=[Limit(metric="ttft", q=0.95, limit_s=limit)])


@given(seconds, seconds, seconds)
def test_feasible_exactly_when_the_limit_held(e2e: float, ttft: float, limit: float) -> None:
    found = assess(_measured(e2e, ttft), _spec(limit))
    assert found.feasible == (ttft <= limit)
    assert found.objective_s == e2e
    assert (constraint_value(found.violations["ttft:0.95"]) <= 0) == (found.violations["ttft:0.95"] <= 0)


@given(seconds, seconds)
def test_score_is_antisymmetric_and_zero_for_the_default(a: float, b: float) -> None:
    assert score(a, a) == 0
    assert math.isclose(score(a, b), -score(b, a), abs_tol=1e-9)
    assert (score(a, b) < 0) == (a < b)


def test_errors_missing_quantiles_and_crashes_are_violations() -> None:
    assert not assess(_measured(1, 1, errors=5), _spec(2)).feasible
    assert assess(_measured(1, 1, errors=1), _spec(2)).feasible
    missing = StudyCreate(pool="p", constraints=[Limit(metric="itl", q=0.99, limit_s=1)])
    assert not assess(_measured(1, 1), missing).feasible
    assert not crashed().feasible and crashed().worst >= 10


def test_the_quality_gate_is_a_constraint_as_any_other() -> None:
    for name in GATES:
        assert not assess(_measured(1, 1), _spec(2), {name: 0.5}).feasible
        assert is_unfit({name: 0.5}) and not is_unfit({name: -0.5}) and not is_unfit({"ttft:0.95": 0.5})


@pytest.mark.parametrize(("errors", "feasible", "excess"), [(0, True, -1.0), (2, True, 0.0), (3, False, 0.5)])
def test_two_requests_in_a_hundred_may_be_lost(errors: int, feasible: bool, excess: float) -> None:
    found = assess(_measured(1, 1, errors=errors), _spec(2))
    assert found.feasible == feasible and found.violations["errors"] == pytest.approx(excess)


def test_a_run_without_requests_lost_none_and_measured_nothing() -> None:
    nothing = Measurement(requests=0, errors=0, duration_s=1, quantiles={}, output_tokens_per_s=0)
    found = assess(nothing, _spec(2))
    assert found.violations == {"errors": -1.0, "ttft:0.95": 10.0} and not found.feasible


def test_of_two_limits_for_one_quantile_the_tighter_counts_and_nothing_exceeds_a_crash() -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=limit_s) for limit_s in (2.0, 0.5, 4.0)]
    spec = StudyCreate(pool="p", constraints=limits)
    assert violations(_measured(1, 1), spec)["ttft:0.95"] == pytest.approx(1.0)
    assert violations(_measured(1, 1000), spec)["ttft:0.95"] == 10.0
    assert crashed().violations == {"crash": 10.0}


def test_a_study_says_how_many_requests_may_be_lost() -> None:
    strict = StudyCreate(pool="p", max_lost_share=0.001)
    assert violations(_measured(1, 1, errors=1), strict)["errors"] == pytest.approx(9.0)


@given(st.lists(st.tuples(seconds, st.floats(-0.9, 9.0)), min_size=1, max_size=5))
def test_runs_of_one_configuration_are_one_by_geometric_means(runs: list[tuple[float, float]]) -> None:
    told = [Assessment(objective, {"ttft:0.95": excess}) for objective, excess in runs]
    found = mean_assessment([*told, crashed()])
    objectives = [objective for objective, _ in runs]
    assert found.objective_s is not None
    assert min(objectives) * 0.999 <= found.objective_s <= max(objectives) * 1.001
    excesses = [excess for _, excess in runs]
    assert min(excesses) - 1e-6 <= found.violations["ttft:0.95"] <= max(excesses) + 1e-6
    assert mean_assessment([crashed(), crashed()]) == crashed()


def test_a_study_wants_its_objective_and_each_limit_measured() -> None:
    spec = StudyCreate(
        pool="p", objective="ttft", objective_q=0.9, constraints=[Limit(metric="itl", q=0.99, limit_s=1)]
    )
    assert needed_quantiles(spec) == [("ttft", 0.9), ("itl", 0.99)]


def test_nothing_measured_scores_as_ten_times_the_default_and_nothing_to_compare_with_as_good() -> None:
    assert score(None, 3.0) == pytest.approx(score(30.0, 3.0))
    assert score(None, None) == pytest.approx(score(10.0, 1.0))
    assert score(1.0, None) == score(1.0, 0.0) == score(0.0, 1.0) == 0.0


def test_limits_are_felt_by_ratio_and_nothing_is_infinitely_good() -> None:
    assert constraint_value(1.0) == pytest.approx(math.log(2)) and constraint_value(-0.5) == pytest.approx(
        math.log(0.5)
    )
    assert constraint_value(-0.93) == pytest.approx(math.log(0.07))
    assert constraint_value(-1.0) == constraint_value(-0.99) == pytest.approx(math.log(0.05))
    assert Assessment(1.0, {}).worst == 0.0 and Assessment(1.0, {"a": -0.5, "b": -0.2}).worst == -0.2


def test_goodput_is_the_time_per_good_request_and_its_limits_bind_no_quantile() -> None:
    spec = StudyCreate(pool="p", objective="goodput", constraints=[Limit(metric="ttft", q=0.95, limit_s=0.5)])
    busy = _measured(1, 3).model_copy(update={"good": 60, "span_s": 30.0, "duration_s": 90.0})
    assert assess(busy, spec) == Assessment(0.5, {"errors": -1.0}), "by when requests came, not by the last answer"
    assert good_by(spec) == spec.constraints and not good_by(_spec(1))
    assert needed_quantiles(spec) == [("ttft", 0.95)]
    none, one = (assess(busy.model_copy(update={"good": good}), spec).objective_s for good in (0, 1))
    assert none == 2 * (one or 0), "bad, and yet a figure"


def test_goodput_in_tokens_is_the_time_per_token_of_good_requests() -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=0.5)]
    spec = StudyCreate(pool="p", objective="goodput_tokens", constraints=limits)
    busy = _measured(1, 3).model_copy(update={"good": 60, "good_tokens": 600, "span_s": 30.0})
    assert assess(busy, spec).objective_s == 0.05 and good_by(spec) == limits
    none = busy.model_copy(update={"good_tokens": 0, "output_tokens_per_s": 40.0, "duration_s": 50.0, "requests": 100})
    assert assess(none, spec).objective_s == pytest.approx(30.0 / 10.0), "as half a request of 20 tokens"


def test_a_cost_is_the_time_per_thousand_tokens_at_the_largest_load() -> None:
    spec = StudyCreate(pool="p", objective="cost", constraints=[Limit(metric="ttft", q=0.95, limit_s=0.5)])
    carried = CarriedLoad(load=2.0, low=1.0, high=3.0, request_s=0.25, tokens_per_request=50.0, replays=[])
    found = _measured(1, 3).model_copy(update={"carried": carried})
    assert assess(found, spec) == Assessment(5.0, {"errors": -1.0}) and spec.held == []


def test_further_objectives_stand_beside_the_first_and_limits_are_by_the_first() -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=0.5)]
    also = [Objective(objective="goodput"), Objective(objective="tpot", objective_q=0.5)]
    spec = StudyCreate(pool="p", objective="e2e", objective_q=0.95, also=also, constraints=limits)
    measured = _measured(1, 3).model_copy(update={"good": 60, "span_s": 30.0})
    found = assess(measured, spec)
    assert found.objective_s is not None and found.also == {"goodput": 0.5}, "nobody measured tpot"
    assert found.violations.keys() == {"errors", "ttft:0.95"}
    assert needed_quantiles(spec) == [("e2e", 0.95), ("tpot", 0.5), ("ttft", 0.95)] and good_by(spec) == limits
    both = mean_assessment([Assessment(1.0, {}, {"goodput": 0.5}), Assessment(1.0, {}, {"goodput": 2.0})])
    assert both.also == {"goodput": pytest.approx(1.0)}


def test_the_largest_load_is_the_time_per_request_that_it_carries() -> None:
    spec = StudyCreate(pool="p", objective="max_load", constraints=[Limit(metric="ttft", q=0.95, limit_s=0.5)])
    carried = CarriedLoad(load=2.0, low=1.0, high=3.0, request_s=0.25, replays=[])
    found = _measured(1, 3).model_copy(update={"carried": carried})
    assert assess(found, spec) == Assessment(0.25, {"errors": -1.0})
    assert assess(_measured(1, 3), spec).objective_s is None
    assert needed_quantiles(spec) == [("ttft", 0.95)] and not good_by(spec)
