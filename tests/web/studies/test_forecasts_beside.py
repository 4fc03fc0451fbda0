"""The twin beside a study's runs: how far off it was, by class, with each forecast, on the page and in the report."""

from typing import Any

from controlplane.contract.bodies.studies import TwinBeside
from controlplane.contract.planning.whatif import last_tried, tried_says
from tests.web.studies.several_objectives import studied, tried
from web.frame.rendering import templates
from web.studies.forecasts_beside import beside_rows
from web.studies.studies_page import findings

BEYOND: dict[str, Any] = {"calibrated": False, "because": ["contexts are longer than those that were seen"]}


def told(number: int, value_s: float, measured_s: float, **more: Any) -> TwinBeside:
    span = {"low_s": 0.8 * value_s, "high_s": 1.2 * value_s}
    return TwinBeside(**{"number": number, "name": "ttft:0.95", "calibrated": True, **span, **more},
                      value_s=value_s, measured_s=measured_s)  # fmt: skip


TOLD = [told(0, 0.30, 0.40), told(2, 0.11, 0.10), told(3, 0.10, 0.10), told(4, 0.50, 0.25, **BEYOND)]


def drawn(twin: list[TwinBeside]) -> str:
    study = studied()
    assert study.result is not None
    study = study.model_copy(update={"result": study.result.model_copy(update={"twin": twin})})
    return templates.get_template("parts/study.html").render(findings(study, tried()))


def test_each_class_tells_what_its_forecasts_were_off_by_and_how_many_held() -> None:
    result = studied().result
    assert result is not None
    result = result.model_copy(update={"twin": TOLD})
    says = tried_says(result.twin)
    assert says.startswith("Within what the pool had served half of 3 forecasts were off by 10 % at most, and 2 held")
    assert "beyond it half of 1 forecasts were off by 100 % at most, and 0 held" in says
    assert [row.within for row in beside_rows(result)] == [False, True, True, False]
    assert beside_rows(result)[3].of_class == "extrapolated: contexts are longer than those that were seen"


def test_the_page_shows_them_and_nothing_where_the_twin_could_not_tell() -> None:
    assert "The twin beside it" in drawn(TOLD) and 'data-twin="4 ttft p95"' in drawn(TOLD)
    assert "The twin beside it" not in drawn([])
    assert not beside_rows(None)


def test_a_question_of_the_pool_is_told_what_its_last_study_found() -> None:
    older, newer, other = (studied().model_copy(update={"id": number}) for number in (3, 5, 7))
    assert older.result is not None
    older = older.model_copy(update={"result": older.result.model_copy(update={"twin": TOLD})})
    other = older.model_copy(update={"id": 9, "spec": older.spec.model_copy(update={"pool": "else"})})
    assert last_tried([other, newer, older], older.spec.pool).startswith("Held against the runs of study 3: Within")
    assert last_tried([newer], older.spec.pool) == "" == tried_says([])
