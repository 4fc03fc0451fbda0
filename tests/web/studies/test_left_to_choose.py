"""What is left to choose among: who is on the front, with its values, and the way to a rollout of each."""

from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.studies import FINALIST
from tests.web.part_html import part_html
from tests.web.studies.measured_study import BEGAN, DEFAULT, WINNER, MeasuredStudy
from tests.web.studies.several_objectives import member, studied, tried
from web.rollouts.proposal_fields import filled
from web.studies import studies_page
from web.studies.left_to_choose import front_charts, front_rows
from web.studies.study_report import study_report

SEARCH = [trial for trial in tried() if trial.kind != FINALIST]


def test_each_row_has_its_values_and_leads_to_a_filled_in_proposal() -> None:
    first, second = front_rows(studied())
    assert first.sign == "winner" and first.values == [
        "450 ms (405 ms to 495 ms)",
        "12 ms (10.8 ms to 13.2 ms)",
        "4.10 s a node for 1,000 tokens (3.69 s to 4.51 s)",
    ]
    assert (second.changes, second.sign) == ("max_num_batched_tokens 256, prefill_chunk_size 128", "")
    address = urlsplit(second.proposal)
    said = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert address.path == "/rollouts/new" and said["reason"] == "trial 3 of study 12"
    proposal = filled(said).proposal
    assert proposal is not None and (proposal.pool, proposal.revision) == ("chat", 3)
    assert proposal.knobs == {"max_num_batched_tokens": 256, "prefill_chunk_size": 128}


def test_the_default_may_be_on_the_front_and_is_no_proposal() -> None:
    found = studied()
    assert found.result is not None
    result = found.result.model_copy(update={"front": [member(0, DEFAULT, 0.7, 0.01, 6.2)]})
    (row,) = front_rows(found.model_copy(update={"result": result}))
    assert (row.sign, row.changes, row.proposal) == ("default", "none", "")


def test_two_objectives_are_joined_at_what_is_believed_and_three_are_drawn_by_twos() -> None:
    ((title, chart),) = front_charts(studied(two=True), SEARCH)
    assert title == "E2E p95 against TPOT p50" and len(chart.front) == 2
    marks = {mark.what: mark.words for mark in chart.marks}
    assert marks["front"].endswith("on the front") and "default" in marks and "broke" in marks
    assert any("trial 2: E2E p95 450 ms, TPOT p50 12 ms" in mark.words for mark in chart.marks), "not 440 ms"
    three = front_charts(studied(), SEARCH)
    assert [title for title, _ in three] == [
        "E2E p95 against TPOT p50",
        "E2E p95 against node time per 1,000 tokens",
        "TPOT p50 against node time per 1,000 tokens",
    ]
    assert all(chart.front == [] and len(chart.ends) == 4 for _, chart in three)


def test_before_there_is_a_result_the_front_is_what_no_trial_beats() -> None:
    assert front_rows(studied(finished=False)) == []
    ((_, chart),) = front_charts(studied(two=True, finished=False), SEARCH)
    front = sorted(mark.words.split(":")[0] for mark in chart.marks if mark.what == "front")
    assert front == ["trial 2", "trial 3"] and chart.ends == []
    assert "The default is not." in chart.sentence


class OnePage(MeasuredStudy):
    """The calls of the page."""

    scope = Scope.READ


def test_the_page_shows_all_of_it_and_the_report_without_a_link() -> None:
    client = OnePage(studied(), tried())
    page = " ".join(part_html(studies_page.PAGE, "study", client, study="12").split())
    for words in (
        "minimise e2e p95 and tpot p50 and node time per 1,000 tokens ·",
        "<h3>What is left to choose among</h3>",
        'href="/rollouts/new?',
        "propose trial 3",
        "10 ms by default, 10.4 ms with the winner: tpot p50 rises by 4.0 %",
        "6.20 s of a node for 1,000 output tokens (5.50 s to 7.10 s), 3.44 EUR for a million (3.06 to 3.94)",
        "7.2 node hours a day less (5.1 to 9.3), 14.40 EUR (10.20 to 18.60), at 12.3 million output tokens a day",
    ):
        assert words in page
    assert page.count('class="drawing trials fronts"') == 3
    report = " ".join(study_report(cast(Client, client), 12, BEGAN).split())
    assert 'id="front">What is left to choose among</h2>' in report and "propose trial" not in report
    assert report.count('class="drawing trials fronts"') == 3 and "14.40 EUR" in report
    alone: Any = OnePage(studied(two=True, finished=False), [])
    assert "left to choose" not in part_html(studies_page.PAGE, "study", alone, study="12")
    assert WINNER in [one.knobs for one in SEARCH]
