"""Objective, violations and score."""

import math

from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import Measurement, StudyCreate
from tuner.search.objective import assess, constraint_value, crashed, score

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
    assert not assess(_measured(1, 1), _spec(2), {"top1_agreement": 0.5}).feasible
