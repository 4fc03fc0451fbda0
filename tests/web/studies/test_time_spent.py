"""How long a study has been at it, how long it may still be, and what that costs."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.contract.bodies.studies import Study, StudyCreate, StudyState
from controlplane.contract.planning.online_mode import OnlineMode
from tests.web.studies.several_objectives import studied, tried
from web.frame.rendering import templates
from web.studies.studies_page import findings
from web.studies.time_spent import spent_says


def study(active_s: float, state: StudyState = StudyState.RUNNING, **asked: Any) -> Study:
    spec = StudyCreate(pool="chat", max_duration_s=900, **asked)
    at = datetime(2030, 1, 1, tzinfo=UTC)
    return Study(id=1, state=state, spec=spec, created_by="ops", created_at=at, active_s=active_s)


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (study(0.0, StudyState.QUEUED), ""),
        (study(95.0), "95 s of 15 min taken, at most 13 min left."),
        (study(910.0), "15 min of 15 min taken, it ends with the run under way."),
        (study(1800.0, node_hour_price=3.0, currency="EUR"), "30 min of 15 min taken, it ends with the run under way"
         ", 1.50 EUR at 3 an hour."),
        (study(1200.0, StudyState.FINISHED), "It took 20 min of a trial node."),
        (study(7200.0, StudyState.FAILED, node_hour_price=3.0, currency="EUR"), "It took 2 h of a trial node, 6.00 EUR"
         " at 3 an hour."),
        (study(95.0, online=OnlineMode()), ""),
    ],
)  # fmt: skip
def test_time_is_told_with_what_is_left_of_it_and_what_it_cost(of: Study, says: str) -> None:
    assert spent_says(of) == says


def test_a_studys_page_tells_it() -> None:
    done = studied().model_copy(update={"active_s": 480.0})
    drawn = templates.get_template("parts/study.html").render(findings(done, tried()))
    assert "It took 8 min of a trial node, 0.27 EUR at 2 an hour." in drawn
