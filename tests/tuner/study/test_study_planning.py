"""A study's plan holds the twin's forecasts, or why there are none; without any it goes on all the same."""

from datetime import UTC, datetime
from typing import Any, cast

import httpx
import pytest

from controlplane.client import Client
from controlplane.contract.bodies.studies import Study, StudyCreate, StudyState
from controlplane.contract.errors import Overloaded
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.planning.trial_leases import LONGEST_WHY, StudyPlan
from controlplane.contract.planning.whatif import Forecasted, OtherForecast, WhatIfCreate
from tuner.search.space import Capabilities, build_space
from tuner.study.study_planning import with_forecasts
from tuner.twin.studies.twin_ahead import MOST_AHEAD

AT = datetime(2030, 1, 1, tzinfo=UTC)
DEFAULT = EngineConfig(max_num_batched_tokens=64).knobs()
SPACE = build_space({}, DEFAULT, Capabilities(quantization=("none",)))
SPEC = StudyCreate(pool="p", max_duration_s=1800)
STUDY = Study(id=1, state=StudyState.RUNNING, spec=SPEC, created_by="o", created_at=AT, started_at=AT)


class Answer:
    def __init__(self, others: list[OtherForecast]) -> None:
        self.others = others


class Twin:
    """Tells more seconds the more tokens a step has, or raises what it is given."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def what_if(self, asked: WhatIfCreate) -> Answer:
        if self.error is not None:
            raise self.error
        self.asked = asked
        return Answer([self._told(knobs) for knobs in asked.others])

    def _told(self, knobs: dict[str, Any]) -> OtherForecast:
        value = float(knobs.get("max_num_batched_tokens", 64))
        return OtherForecast(knobs=knobs, quantiles={"e2e:0.5": Forecasted(value_s=value, low_s=value, high_s=value)})


def planned(backend: str, twin: Twin) -> StudyPlan:
    plan = StudyPlan(default=DEFAULT, traffic="", seen={}, fresh={}, serving=2, engine={"backend": backend})
    return with_forecasts(cast(Client, twin), STUDY, plan, SPACE)


def test_a_pool_of_vllm_is_forecast_and_its_default_is_the_measure() -> None:
    twin = Twin()
    plan = planned("vllm", twin)
    assert plan.why_no_forecasts == "" and len(plan.forecasts) == 1 + MOST_AHEAD == len(twin.asked.others)
    assert plan.forecasts[0].knobs == DEFAULT and plan.forecasts[0].ratios == {"e2e:0.5": 0.0}
    for one in plan.forecasts:
        assert (one.ratios["e2e:0.5"] > 0) == (one.knobs["max_num_batched_tokens"] > 64)
    assert StudyPlan.model_validate_json(plan.model_dump_json()) == plan


@pytest.mark.parametrize(
    "error", [Overloaded("another is being made", retry_after_s=5.0), httpx.ReadTimeout("x" * 900)]
)
def test_a_twin_that_cannot_tell_costs_the_study_nothing(error: Exception) -> None:
    plan = planned("vllm", Twin(error))
    assert plan.forecasts == [] and plan.why_no_forecasts
    assert len(plan.why_no_forecasts) <= LONGEST_WHY


def test_the_embedded_engine_is_not_asked_about() -> None:
    twin = Twin(AssertionError("it was asked"))
    assert "embedded" in planned("embedded", twin).why_no_forecasts
