"""What is said of runs that never settled, and of drafts in production."""

from typing import Any

import pytest

from controlplane.contract.planning.measurement import Measurement
from tests.web.studies.several_objectives import studied, tried
from web.frame.rendering import templates
from web.studies.studies_page import findings
from web.studies.trial_remarks import production_says, unsettled_says

BASE: dict[str, Any] = {"requests": 40, "errors": 0, "duration_s": 10.0, "quantiles": {}, "output_tokens_per_s": 9.0}


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"lead_in": 10, "settled_after": 5}, ""),
        ({"lead_in": 10}, ""),
        ({"lead_in": 10, "settled_after": 25}, "settled after 25 of 50 requests, 15 of them counted"),
        ({"lead_in": 10, "grew": True}, "more and more requests were under way up to the end of 50: it never settled"),
    ],
)
def test_a_run_says_whether_it_had_settled(told: dict[str, Any], says: str) -> None:
    assert Measurement(**BASE, **told).unsettled == says


def test_each_trial_has_each_objective_its_drafts_and_its_remark() -> None:
    trials = tried()
    told = Measurement(**BASE, lead_in=10, grew=True, drafted=200, accepted=90)
    trials[0] = trials[0].model_copy(update={"measurement": told})
    production = {"drafts_in_production": {"drafted": 900, "accepted": 540, "share": 0.6, "error": 0.01}}
    study = studied().model_copy(update={"workload_summary": production})
    html = templates.get_template("parts/study.html").render(findings(study, trials))
    head, row = html.partition("Trials, one by one")[2].split("<tbody>")[:2]
    assert all(f"{name}, one run" in head for name in ("e2e p95", "tpot p50", "node time per 1,000 tokens"))
    first = row.partition("</tr>")[0]
    assert '<td class="number" data-objective="tpot:0.5">10 ms</td>' in first
    assert '<td class="number" data-objective="cost">6.20 s a node for 1,000 tokens</td>' in first
    assert ">45.0 %<" in first and ">10<" in first and "never settled" in first
    assert "In production 60.0 % ± 2.0 % of draft tokens are accepted." in html
    measured = sum(trial.measurement is not None for trial in trials)
    assert f"In 1 of {measured} runs more and more requests" in html
    assert unsettled_says(trials[1:]) == ""


@pytest.mark.parametrize("summary", [{}, {"drafts_in_production": None}, {"drafts_in_production": {"share": "many"}}])
def test_of_what_nobody_told_nothing_is_said(summary: dict[str, Any]) -> None:
    assert production_says(summary) == ""
