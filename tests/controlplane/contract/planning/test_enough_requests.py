"""A study's quantile must be one that its trials' requests can tell; the refusal says what to do."""

from typing import Any

import pytest

from controlplane.contract.bodies.slo import Limit, UseCase, limits_of
from controlplane.contract.bodies.studies import Objective, StudyCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.study_checks import check_spec, fewest_requests, thin_limits
from web.studies.study_outline import does


@pytest.mark.parametrize(("q", "fewest"), [(0.5, 4), (0.9, 20), (0.95, 40), (0.99, 200), (0.999, 2000)])
def test_two_requests_lie_beyond_it(q: float, fewest: int) -> None:
    assert fewest_requests(q) == fewest
    check_spec(StudyCreate(pool="chat", objective_q=q, trial_requests=max(5, fewest)))
    if fewest > 5:
        with pytest.raises(BadRequest, match=f"replay at least {fewest} a trial") as refused:
            check_spec(StudyCreate(pool="chat", objective_q=q, trial_requests=fewest - 1))
        assert refused.value.detail["field"] == "trial_requests"


def test_the_refusal_names_both_mends() -> None:
    with pytest.raises(BadRequest) as refused:
        check_spec(StudyCreate(pool="chat", objective="ttft", objective_q=0.99))
    assert refused.value.message == (
        "trial_requests: ttft p99 of 40 requests rests on its slowest alone; replay at least 200 a trial, or ask for "
        "p95 at most"
    )


def test_each_further_objective_has_to_be_told_too() -> None:
    with pytest.raises(BadRequest, match="trial_requests: tpot p99 of 40 requests"):
        check_spec(StudyCreate(pool="chat", also=[Objective(objective="tpot", objective_q=0.99)]))


@pytest.mark.parametrize(
    "free",
    [
        {"objective": "itl", "objective_q": 0.99},
        {"objective": "goodput", "constraints": [Limit(metric="ttft", q=0.99, limit_s=1)]},
        {"objective": "max_load", "constraints": [Limit(metric="ttft", q=0.99, limit_s=1)]},
        {"constraints": limits_of(UseCase.AGENT, [])},
    ],
)
def test_what_has_many_values_a_request_or_no_quantile_is_free(free: dict[str, Any]) -> None:
    check_spec(StudyCreate.model_validate({"pool": "chat"} | free))


def test_a_coarse_limit_is_told_and_taken() -> None:
    limits = [Limit(metric="e2e", q=0.99, limit_s=30), Limit(metric="itl", q=0.99, limit_s=0.2)]
    study = StudyCreate(pool="chat", constraints=limits)
    assert thin_limits(study) == limits[:1]
    assert does(study)[-1].endswith("is coarse: of fewer than 200 requests a trial it rests on the slowest alone")
    assert thin_limits(study.model_copy(update={"trial_requests": 200})) == []
