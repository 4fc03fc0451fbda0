"""Which runs of a study are held against the twin, by which quantiles, and of which it is not asked."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import Study, StudyCreate, StudyState, Trial, TrialState
from controlplane.contract.planning.measurement import Measurement
from controlplane.contract.planning.whatif import ForecastClass, Forecasted, OtherForecast, WhatIfCreate
from tuner.twin.studies.twin_beside import held_against, question_of

AT = datetime(2030, 1, 1, tzinfo=UTC)
SPEC: dict[str, Any] = {"pool": "chat", "objective": "ttft", "constraints": [Limit(metric="itl", q=0.99, limit_s=0.2),
                        Limit(metric="e2e", q=0.95, limit_s=2.0)]}  # fmt: skip
DEFAULT, FEW, INT8 = {"max_num_seqs": 32}, {"max_num_seqs": 4}, {"max_num_seqs": 32, "quantization": "int8"}


def study(**asked: Any) -> Study:
    spec = StudyCreate(**{**SPEC, **asked})
    return Study(id=1, state=StudyState.RUNNING, spec=spec, created_by="o", created_at=AT, started_at=AT)


def trial(number: int, knobs: dict[str, Any], ttft_s: float | None, **more: Any) -> Trial:
    state = TrialState.FAILED if ttft_s is None else TrialState.COMPLETE
    quantiles = {"ttft:0.95": ttft_s or 0.0, "itl:0.99": 0.1, "e2e:0.95": 1.0}
    measured = Measurement(requests=9, errors=0, duration_s=9.0, quantiles=quantiles, output_tokens_per_s=1.0)
    return Trial(id=number, study_id=1, number=number, knobs=knobs, state=state, objective_s=ttft_s,
                 measurement=None if ttft_s is None else measured, **more)  # fmt: skip


def told_of(asked: WhatIfCreate) -> list[OtherForecast]:
    """Of all that does not change the weights' format."""
    quantiles = {name: Forecasted(value_s=0.5, low_s=0.4, high_s=0.6) for name in ("ttft:0.95", "e2e:0.95")}
    return [
        OtherForecast(knobs=knobs, refused="no")
        if "quantization" in knobs
        else OtherForecast(knobs=knobs, forecast_class=ForecastClass.CALIBRATED, quantiles=quantiles)
        for knobs in asked.others
    ]


TRIALS = [trial(0, DEFAULT, 0.5), trial(1, FEW, 0.9), trial(2, INT8, 0.3), trial(3, DEFAULT, 0.55), trial(4, FEW, None),
          trial(5, {"max_num_seqs": 8}, 0.7, ended_early="hopeless")]  # fmt: skip


def test_runs_are_held_against_what_is_forecast_of_the_traffic_from_before_the_study() -> None:
    own = study(load=2.0, workload_s=120)
    asked = question_of(own, TRIALS, "embedded")
    assert asked is not None and (asked.load, asked.window_s, asked.end) == (2.0, 120, AT)
    assert asked.others == [DEFAULT, FEW, INT8], "each once, and none that ended early"
    rows = held_against(own.spec, TRIALS, told_of(asked))
    assert [(one.number, one.name) for one in rows] == [
        (0, "ttft:0.95"), (0, "e2e:0.95"), (1, "ttft:0.95"), (1, "e2e:0.95"), (3, "ttft:0.95"), (3, "e2e:0.95")
    ]  # fmt: skip
    assert [one.measured_s for one in rows if one.name == "ttft:0.95"] == [0.5, 0.9, 0.55]
    assert all(one.calibrated and one.low_s < one.value_s < one.high_s for one in rows)


def test_of_vllm_the_middle_alone_is_asked_for() -> None:
    asked, embedded = (question_of(study(), TRIALS, backend) for backend in ("vllm", "embedded"))
    assert asked is not None and embedded is not None
    assert not asked.intervals and embedded.intervals and asked.others == embedded.others


@pytest.mark.parametrize(
    ("asked", "backend"),
    [({}, "triton"), ({"workload": "friday"}, "embedded"), ({"objective": "max_load"}, "embedded")],
)
def test_what_the_twin_does_not_serve_is_not_asked(asked: dict[str, Any], backend: str) -> None:
    assert question_of(study(**asked), TRIALS, backend) is None
    assert question_of(study(), TRIALS[4:], "embedded") is None, "nothing was measured whole"
