"""A study's outcome in one short sentence with its figure and interval."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.contract.bodies.studies import Study, StudyCreate, StudyResult, StudyState, StudyVerdict
from controlplane.contract.planning.objective_text import result_in_short


def study(objective: str = "ttft", **told: Any) -> Study:
    spec = StudyCreate(pool="chat", objective=objective)
    made = {"id": 1, "state": StudyState.FINISHED, "spec": spec, "created_by": "ann"}
    return Study.model_validate({**made, "created_at": datetime(2026, 1, 1, tzinfo=UTC), **told})


def result(improvement: float | None, interval: tuple[float, float] | None, *, better: bool = True) -> StudyResult:
    return StudyResult(
        verdict=StudyVerdict.BETTER if better else StudyVerdict.NOT_BETTER,
        default={},
        improvement=improvement,
        interval=interval,
        repeats=0 if improvement is None else 3,
        summary="Keep what runs now: nothing was better. The default carries 1.2 times the load; and more.",
    )


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"result": result(0.12, (0.08, 0.155))}, "ttft p95 falls by 12.0 % (8.0 % to 15.5 %)"),
        (
            {"result": result(-0.02, (-0.05, 0.01), better=False)},
            "not better: ttft p95 rises by 2.0 % (-1.0 % to 5.0 %)",
        ),
        ({"result": result(0.2, None)}, "ttft p95 falls by 20.0 %"),
        ({"result": result(0.2, (0.1, 0.5)), "objective": "goodput"}, "goodput rises by 25.0 % (11.1 % to 100.0 %)"),
        ({"result": result(None, None, better=False)}, "Keep what runs now: nothing was better"),
        ({"error": "no trial node for pool chat: none. Start one"}, "no trial node for pool chat: none"),
        ({"progress": "trial 3 of at most 12: max_num_seqs=0.5"}, "trial 3 of at most 12: max_num_seqs=0.5"),
        ({}, ""),
    ],
)
def test_an_outcome_is_a_short_sentence(told: dict[str, Any], says: str) -> None:
    assert result_in_short(study(**told)) == says
