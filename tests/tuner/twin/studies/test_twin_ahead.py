"""Which forecasts a study begins with: of which studies the twin is asked, about what, and what its answers become."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import Study, StudyCreate, StudyState
from controlplane.contract.planning.whatif import Forecasted, OtherForecast
from tuner.twin.studies.twin_ahead import LEAST_STUDY_S, question_ahead, told_ahead, why_none_ahead

AT = datetime(2030, 1, 1, tzinfo=UTC)
SPEC: dict[str, Any] = {"pool": "chat", "max_duration_s": 1800}
DEFAULT = {"max_num_batched_tokens": 2048, "max_num_seqs": 128, "quantization": "none"}
SMALL = DEFAULT | {"max_num_batched_tokens": 256}
SEARCHED = ["max_num_batched_tokens", "max_num_seqs"]


def study(**asked: Any) -> Study:
    spec = StudyCreate(**{**SPEC, **asked})
    return Study(id=1, state=StudyState.RUNNING, spec=spec, created_by="o", created_at=AT, started_at=AT)


def told(knobs: dict[str, Any], **quantiles: float) -> OtherForecast:
    found = {
        f"{name}:0.95": Forecasted(value_s=value, low_s=value / 2, high_s=value * 2)
        for name, value in quantiles.items()
    }
    return OtherForecast(knobs=knobs, quantiles=found)


@pytest.mark.parametrize(
    ("asked", "searched", "backend", "why"),
    [
        ({}, SEARCHED, "vllm", ""),
        ({}, SEARCHED, "embedded", "embedded engine"),
        ({}, [*SEARCHED, "watermark"], "vllm", "nothing of watermark"),
        ({}, [*SEARCHED, "quantization"], "vllm", "nothing of quantization"),
        ({"workload": "azure"}, SEARCHED, "vllm", "not the pool's own"),
        ({"max_duration_s": LEAST_STUDY_S - 1}, SEARCHED, "vllm", "no time"),
        (
            {"objective": "max_load", "constraints": [Limit(metric="ttft", q=0.95, limit_s=1.0)]},
            SEARCHED,
            "vllm",
            "one load alone",
        ),
    ],
)
def test_of_which_studies_it_is_asked(asked: dict[str, Any], searched: list[str], backend: str, why: str) -> None:
    said = why_none_ahead(study(**asked), searched, backend)
    assert (said == "") if not why else (why in said)


def test_it_is_asked_about_one_node_under_the_studys_load_on_it_and_the_default_first() -> None:
    asked = question_ahead(study(load=2.0, workload_s=300), [SMALL], serving=4)
    assert (asked.load, asked.replicas, asked.window_s, asked.end) == (0.5, 1, 300, AT)
    assert asked.others == [{}, {name: SMALL[name] for name in SEARCHED}], "what its scheduler plans by, and no more"
    assert not asked.intervals
    assert question_ahead(study(), [], serving=1000).load == 0.05, "what the API takes at least"


def test_ratios_to_the_default_are_kept_and_what_is_refused_is_not() -> None:
    found = told_ahead(
        DEFAULT,
        [SMALL, DEFAULT | {"max_num_seqs": 1}],
        [told({}, ttft=0.4, e2e=2.0), told({}, ttft=0.1, itl=0.1), OtherForecast(knobs={}, refused="no")],
    )
    assert [one.knobs for one in found] == [DEFAULT, SMALL]
    assert found[0].ratios == {"ttft:0.95": 0.0, "e2e:0.95": 0.0}
    assert found[1].ratios == {"ttft:0.95": pytest.approx(math.log(0.25))}


def test_a_default_that_is_refused_tells_nothing() -> None:
    assert told_ahead(DEFAULT, [SMALL], [OtherForecast(knobs={}, refused="no"), told({}, ttft=0.1)]) == []
