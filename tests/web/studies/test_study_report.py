"""A report says all of a study in its order, and nothing in it leads out of it."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import cast

import pytest

from controlplane.client import Client
from controlplane.contract.bodies.studies import Study, StudyCreate, StudyState, Trial
from controlplane.contract.planning.online_mode import OnlineMode, OnlineStep, StepOutcome
from tests.web.studies.measured_study import RESULT, SPEC, SUMMARY, MeasuredStudy, study, trials
from web.studies.asked_again import asked_again
from web.studies.study_report import Cost, cost_of, study_report

NOW = datetime(2030, 1, 2, tzinfo=UTC)
ORDER = [
    "Verdict",
    "What was changed",
    "Paired differences",
    "Limits",
    "What traffic it was measured on",
    "Trials",
    "What was left out of the search",
    "What it cost, and when it pays back",
    "Versions, and the study again",
]
ADDRESSES = {"href", "src", "srcset", "action", "formaction", "data", "poster", "ping", "xlink:href", "background"}
"""Attributes by which a document asks for something else, or leads there."""
QUIET = {"script", "link", "base", "iframe", "object", "embed", "img", "audio", "video", "form", "a", "button"}
"""Elements that a report has none of."""


class Read(HTMLParser):
    """A document's elements, what its addresses are, and the text of each section by its heading."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.styles: list[str] = []
        self.sections: dict[str, str] = {}
        self._heading, self._within = "", ""
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ADDRESSES]
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]
        self._within = tag
        self.styles += [""] * (tag == "style")
        if tag == "h2":
            self._heading = ""

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "style":
            self.styles[-1] += data
        if self._within == "h2" and not self._heading:
            self._heading = data.strip()
        if self._heading:
            self.sections[self._heading] = f"{self.sections.get(self._heading, '')} {data.strip()}"


def report(found: Study | None = None, measured: list[Trial] | None = None) -> str:
    client = MeasuredStudy(found or study(), trials() if measured is None else measured)
    return study_report(cast(Client, client), 12, NOW)


def test_nothing_in_it_asks_for_anything_or_leads_away() -> None:
    document = report()
    read = Read(document)
    assert QUIET.isdisjoint(read.elements)
    assert read.addresses and all(re.fullmatch(r"#is-\w+", one) for one in read.addresses)
    assert read.handlers == []
    assert len(read.styles) == 5 and not re.search(r"@import|url\(|image-set|src\s*:", "".join(read.styles))
    assert not re.search(r"https?:|//[\w.]+/", re.sub(r"/\*.*?\*/", "", document))
    assert """content="default-src 'none'; style-src 'unsafe-inline'">""" in document


def test_it_says_what_a_report_says_in_its_order() -> None:
    sections = Read(report()).sections
    assert list(sections) == ORDER
    assert RESULT.summary in sections["Verdict"] and "36 % lower (40 % lower to 31 % lower)" in sections["Verdict"]
    for words in ("max_num_batched_tokens", "512", "1024", "live", "quantization", "int8", "swap", "revision 3"):
        assert words in sections["What was changed"]
    assert "4 of 4 pairs were faster" in sections["Paired differences"]
    assert "held in 4 of 4 runs" in sections["Limits"]
    assert "Fresh slice of the pairs" in sections["What traffic it was measured on"]
    for words in (
        "Trials in their order",
        "Trials, knob by knob",
        "the engine ran out of memory",
        "21.2 % on average (5.0 %",
    ):
        assert words in sections["Trials"]
    assert "the trial node's engine does not run it" in sections["What was left out of the search"]
    assert "1520 s of serving" in sections["What it cost, and when it pays back"]
    versions = sections["Versions, and the study again"]
    assert all(words in versions for words in ("9.8.7", "1.4", "tiny", "none, int8", "trial-1", asked_again(SPEC)))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"forecasts": 64}, "what the pool's twin forecasts of 64 configurations"),
        ({"forecasts": 0, "why_no_forecasts": "the twin was <busy>"}, "without forecasts: the twin was <busy>."),
    ],
)
def test_it_says_whether_the_search_was_told_forecasts(told: dict[str, object], said: str) -> None:
    section = "What was left out of the search"
    summary = {**SUMMARY, "space": {**SUMMARY["space"], **told}}
    assert said in Read(report(study(workload_summary=summary))).sections[section]
    assert "forecasts" not in Read(report()).sections[section], "an older study has told neither"


def test_it_says_which_traffic_was_replayed() -> None:
    traffic = "What traffic it was measured on"
    assert "What the pool served in the" in Read(report()).sections[traffic]
    named = Read(report(study(spec=SPEC.model_copy(update={"workload": "friday"})))).sections[traffic]
    assert "Workload friday, replayed on" in named and "What the pool served" not in named
    assert "Captured of the pool" not in named


def test_what_others_have_written_is_text() -> None:
    hostile = '"><script>alert(1)</script><img src=http://there/x>'
    spec = SPEC.model_copy(update={"reason": hostile, "pool": hostile})
    result = RESULT.model_copy(update={"summary": hostile})
    summary = {"engine": {"model": hostile}, "space": {"left_out": [{"knob": hostile, "why": hostile}]}}
    broken = [trial.model_copy(update={"error": hostile, "node": hostile}) for trial in trials()]
    read = Read(report(study(spec=spec, result=result, workload_summary=summary, created_by=hostile), broken))
    assert QUIET.isdisjoint(read.elements) and read.handlers == []


@pytest.mark.parametrize(
    "more",
    [
        {"state": StudyState.QUEUED, "result": None},
        {"state": StudyState.FAILED, "result": None, "error": "no trial node"},
        {"result": RESULT.model_copy(update=dict.fromkeys(("winner", "interval", "payback_s")) | {"repeats": 0})},
    ],
)
def test_a_study_without_a_winner_has_a_report_too(more: dict[str, object]) -> None:
    sections = Read(report(study(workload_summary={}, default_revision=None, **more), [])).sections
    assert list(sections) == ORDER
    assert "other configuration was found" in sections["What was changed"]
    repaid = "nothing to repay it with" if more.get("result") else "not known without a result"
    assert repaid in sections["What it cost, and when it pays back"]


def test_the_cost_is_of_all_runs() -> None:
    assert cost_of(trials()) == Cost(6, pytest.approx(123.0), 8, pytest.approx(164.0), pytest.approx(5.6), 520)


def test_a_report_of_steps_in_production_has_each_step_and_nothing_of_replays() -> None:
    step = OnlineStep(
        knob="max_num_seqs", before=32, value=40, rollout_id=9, outcome=StepOutcome.SAFE, message="not worse"
    )
    spec = StudyCreate(pool="chat", online=OnlineMode())
    told = trials()[0].model_copy(update={"kind": "step", "step": step, "node": None, "worker": None})
    ended = RESULT.model_copy(update={"winner": None, "repeats": 0, "verdict": "not_better"})
    found = study(spec=spec, result=ended, trial_node=None, rollout_id=None, workload_summary={})
    read = Read(study_report(cast(Client, MeasuredStudy(found, [told])), 12, NOW))
    assert list(read.sections) == [
        "Verdict",
        "What was changed",
        "Steps in production",
        "Versions, and the study again",
    ]
    assert "max_num_seqs 32 to 40" in read.sections["Steps in production"]
    assert "rollout 9" in read.sections["Steps in production"] and "a" not in read.elements
    assert '"online"' in read.sections["Versions, and the study again"]
    assert "It begins with what the pool runs by then." in read.sections["Versions, and the study again"]
