"""What a study's page argues: the re-measured winner, not the luckiest search measurement."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import (
    Evaluation,
    RandomSearch,
    Study,
    StudyCreate,
    StudyResult,
    StudyState,
    StudyVerdict,
    Trial,
    TrialState,
)
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.planning.measurement import CarriedLoad, Carries, Measurement
from controlplane.contract.planning.online_mode import OnlineMode, OnlineStep, StepOutcome
from tests.web.part_html import part_html
from web.pages import now_page
from web.studies import studies_page
from web.studies.remeasured import Arm, arms_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PAGE_OF = {"study": studies_page.PAGE, "studies": studies_page.LIST, "activity": now_page.PAGE}
DEFAULT = EngineConfig().knobs()
WINNER = {**DEFAULT, "max_num_seqs": 64, "quantization": "int8"}
LUCKY = {**DEFAULT, "max_num_seqs": 8}
RESULT = StudyResult(
    verdict=StudyVerdict.BETTER,
    winner=WINNER,
    default=DEFAULT,
    winner_objective_s=0.146,
    default_objective_s=0.73,
    improvement=0.8,
    interval=(0.71, 0.86),
    repeats=3,
    summary="int8 with 64 sequences is 80 % faster",
)


def trial(number: int, kind: str, knobs: dict[str, Any], objective_s: float | None) -> Trial:
    state = TrialState.FAILED if objective_s is None else TrialState.COMPLETE
    about: dict[str, Any] = {"kind": kind, "knobs": knobs, "state": state, "feasible": objective_s is not None}
    return Trial(id=number + 10, study_id=1, number=number, objective_s=objective_s, reported_at=NOW, **about)


SEARCH = [trial(0, "default", DEFAULT, 0.7), trial(1, "search", WINNER, 0.15), trial(2, "search", LUCKY, 0.06)]
AGAIN = [(DEFAULT, 0.72), (WINNER, 0.140), (WINNER, 0.150), (DEFAULT, 0.74), (DEFAULT, 0.73), (WINNER, 0.148)]
FINALISTS = [trial(3 + place, "finalist", knobs, value) for place, (knobs, value) in enumerate(AGAIN)]


SPEC = StudyCreate(pool="chat", max_trials=6)


class OneStudy:
    """The calls that the page makes."""

    def __init__(self, trials: Sequence[Trial], result: StudyResult | None, spec: StudyCreate = SPEC) -> None:
        finalists = sum(trial.kind == "finalist" for trial in trials)
        self._trials = trials
        self._study = Study(
            id=1,
            state=StudyState.RUNNING if result is None else StudyState.FINISHED,
            spec=spec,
            created_by="ann",
            created_at=NOW,
            trials_done=len(trials) - finalists,
            finalist_runs=finalists,
            result=result,
        )

    def study(self, number: int) -> Study:
        return self._study

    def studies(self) -> list[Study]:
        return [self._study]

    scope = Scope.READ

    def own_session(self) -> Any:
        return self

    def rollouts(self) -> list[Any]:
        return []

    def trials(self, number: int) -> list[Trial]:
        return list(reversed(self._trials))


def rendered(name: str, trials: Sequence[Trial], result: StudyResult | None = RESULT, spec: StudyCreate = SPEC) -> str:
    return " ".join(part_html(PAGE_OF[name], name, OneStudy(trials, result, spec), study="1").split())


def test_the_remeasured_winner_is_highlighted_and_no_search_measurement_is() -> None:
    again, search = rendered("study", [*SEARCH, *FINALISTS]).split("<h3>Search</h3>")
    assert again.count('class="picked"') == 1 and '<tr data-arm="winner" class="picked">' in again
    winner = again.split('data-arm="winner"')[1]
    for wanted in ("146 ms", "140 ms to 150 ms", "80.0 % (71.0 % to 86.0 %)", ">64<", ">int8<"):
        assert wanted in winner
    assert "720 ms to 740 ms" in again.split('data-arm="default"')[1].split("data-arm")[0]
    assert "picked" not in search and search.count('<span class="tag">winner</span>') == 1
    assert "Each row is one run: the fastest of them is also the luckiest" in search
    assert search.count("<tr data-key=") == 3 and "finalist" not in search


def test_traffic_that_was_not_captured_is_told() -> None:
    named = rendered("study", SEARCH, None, SPEC.model_copy(update={"workload": "profile:rag@4"}))
    assert "· replays profile rag at 4 requests a second" in named and "· replays" not in rendered("study", SEARCH)


def test_a_quantized_winner_is_shown_with_its_quality_and_the_evaluation() -> None:
    own = Evaluation(name="mmlu", margin=0.01, error="of the default: it said nothing")
    quality = {"top1_agreement": 0.957, "logprob_drop": 0.0104, "logprob_drop_high": 0.0152}
    shown = rendered("study", SEARCH, RESULT.model_copy(update={"quality": quality, "evaluation": own}))
    assert "held-out text is 0.010 nats a token less likely (0.015 at most)" in shown
    assert "evaluation mmlu has no score: of the default: it said nothing" in shown
    assert "Own evaluation" not in rendered("study", SEARCH, RESULT)


def test_the_gain_is_held_against_what_chance_would_have_found() -> None:
    assert "Random search" not in rendered("study", SEARCH)
    chance = RandomSearch(trials=7, improvement=0.12, low=0.0, high=0.31)
    shown = rendered("study", SEARCH, RESULT.model_copy(update={"random_search": chance}))
    assert "Random search would have measured 7 configurations in the same time, and found 12.0 % on average" in shown
    assert "(0.0 % to 31.0 % in eight of ten cases), by what the study believes after all its trials.</p>" in shown
    told = RESULT.model_copy(update={"random_search": chance.model_copy(update={"own": 0.4})})
    assert "before it was measured again, this study's winner improves by 40.0 %" in rendered("study", SEARCH, told)


def test_goodput_is_told_as_a_rate_beside_the_time_that_was_compared() -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=0.8)]
    spec = StudyCreate(pool="chat", objective="goodput", constraints=limits, load=2.5)
    shown = rendered("study", [*SEARCH, *FINALISTS], spec=spec)
    assert "minimise time per good request · ttft ≤ 800 ms · at 2.5 times the rate" in shown
    default, winner = (f"{1 / value:.3g}" for value in (RESULT.default_objective_s, RESULT.winner_objective_s) if value)
    assert f"{default} good requests a second by default, {winner} with the winner" in shown
    assert "<dt>Less time per good request</dt>" in shown and "<dt>Improvement</dt>" not in shown
    assert "time per good request, mean" in shown
    assert "time per good request" in rendered("studies", SEARCH, spec=spec)
    assert "Goodput" not in rendered("study", SEARCH)


def test_the_largest_load_is_told_of_both_within_its_limits_and_of_each_trial() -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=0.5)]
    spec = StudyCreate(pool="chat", objective="max_load", constraints=limits)
    winner, default = Carries(load=2.4, low=2.1, high=2.7), Carries(load=1.6, low=1.5)
    result = RESULT.model_copy(update={"winner_carries": winner, "default_carries": default})
    carried = CarriedLoad(load=1.7, low=1.3, high=1.9, request_s=0.7, replays=[])
    measured = Measurement(
        requests=9, errors=0, duration_s=1, quantiles={}, output_tokens_per_s=1, span_s=1, carried=carried
    )
    tried = [SEARCH[0].model_copy(update={"measurement": measured}), *SEARCH[1:]]
    shown = rendered("study", [*tried, *FINALISTS], result, spec=spec)
    assert "minimise time per request at the largest load · ttft p95 ≤ 500 ms" in shown
    assert (
        "1.6 times the captured load (1.5 or more) by default, "
        "2.4 times the captured load (2.1 to 2.7) with the winner, within ttft p95 &lt;= 500 ms"
    ) in shown
    assert "700 ms, 1.7 times the captured load (1.3 to 1.9)" in shown
    assert "<dt>Less time per request at the largest load</dt>" in shown
    assert "captured load (" not in rendered("study", SEARCH)


def test_before_the_result_nothing_has_won() -> None:
    text = rendered("study", [*SEARCH, *FINALISTS[:2]], None)
    assert "picked" not in text and 'class="tag">winner' not in text
    assert 'data-arm="default"' in text and 'data-arm="candidate"' in text
    assert "Measured again" not in rendered("study", SEARCH, None)


def test_a_result_without_a_remeasurement_does_not_claim_one() -> None:
    unproven = StudyResult(
        verdict=StudyVerdict.NOT_BETTER,
        winner=LUCKY,
        default=DEFAULT,
        winner_objective_s=0.06,
        default_objective_s=0.7,
        summary="Keep what runs now",
    )
    text = rendered("study", SEARCH, unproven)
    assert "re-measured" not in text and "Best candidate, one search measurement" in text
    assert "picked" not in text and 'class="tag">winner' not in text


def test_finalist_runs_are_no_trials_of_the_search() -> None:
    running = rendered("activity", [*SEARCH, *FINALISTS], None)
    assert "3 of at most 6 trials, then 6 runs of the finalists" in running
    assert "3 of at most 6 trials <p>" in rendered("activity", SEARCH, None)
    told = rendered("studies", [*SEARCH, *FINALISTS])
    assert 'data-label="Trials">3 of 6</td>' in told and 'data-label="Finalist runs">6</td>' in told


def test_an_arm_is_of_its_own_fresh_runs_only() -> None:
    failed = trial(9, "finalist", WINNER, None)
    default, winner = arms_of(RESULT, [*SEARCH, *FINALISTS, failed])
    assert default == Arm("default", DEFAULT, 3, 0, pytest.approx(0.73), 0.72, 0.74)
    assert winner == Arm("winner", WINNER, 3, 1, pytest.approx(0.146), 0.140, 0.150)
    nothing = arms_of(None, [SEARCH[0], failed])
    assert nothing == [Arm("candidate", WINNER, 0, 1, None, None, None)]
    assert arms_of(RESULT, SEARCH) == []


def test_trials_under_way_say_where_they_are_and_who_was_lost() -> None:
    about: dict[str, Any] = {"study_id": 1, "kind": "search", "knobs": LUCKY, "node": "trial-2", "worker": "tuner-b"}
    running = Trial(id=20, number=3, state=TrialState.RUNNING, **about)
    waiting = Trial(id=21, number=4, state=TrialState.WAITING, takings=2, **about)
    text = rendered("study", [*SEARCH, running, waiting], None)
    first, second = text.split('data-key="trial-20"')[1].split('data-key="trial-21"')
    assert "running" in first and "trial-2 by tuner-b" in first and "taken" not in first
    assert "waiting" in second and "taken 2 times" in second
    paired = Trial(id=22, number=5, state=TrialState.RUNNING, **{**about, "kind": "finalist"})
    assert arms_of(None, [*SEARCH, paired]) == []


class Columns(HTMLParser):
    """For each table the alignment of its heads, and of each row's cells: "number" or "" for words."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td") and "colspan" not in dict(attrs):
            self.tables[-1][-1].append("number" if "number" in (dict(attrs).get("class") or "").split() else "")


@pytest.mark.parametrize("name", ["study", "studies"])
def test_heads_stand_above_their_columns(name: str) -> None:
    tables = Columns(rendered(name, [*SEARCH, *FINALISTS])).tables
    assert tables
    for head, *rows in tables:
        assert rows and all(row == head for row in rows)
        assert "number" in head and "" in head


def in_production(number: int, value: int, outcome: StepOutcome | None, **told: Any) -> Trial:
    step = OnlineStep(knob="max_num_seqs", before=4, value=value, rollout_id=number + 20, outcome=outcome, **told)
    return trial(number, "step", {**DEFAULT, "max_num_seqs": value}, 0.25).model_copy(update={"step": step})


def test_steps_in_production_are_shown_with_their_rollouts_and_nothing_of_replays() -> None:
    spec = StudyCreate(pool="chat", max_trials=6, online=OnlineMode(step=1.5))
    steps = [
        in_production(
            1, 8, StepOutcome.BETTER, ratio=0.82, interval=(0.74, 0.9), control_s=0.5, message="<pool runs it>"
        ),
        in_production(2, 16, None),
    ]
    summary = "1 of 2 steps were better"
    ended = StudyResult(verdict=StudyVerdict.BETTER, winner=WINNER, default=DEFAULT, summary=summary)
    shown = rendered("study", steps, ended, spec)
    first, second = shown.split('data-key="trial-11"')[1].split('data-key="trial-12"')
    for wanted in ("max_num_seqs 4 to 8", "better", "500 ms", "250 ms", "0.82 (0.74 to 0.9)", "&lt;pool runs it&gt;"):
        assert wanted in first
    assert '<a href="/rollouts/21">rollout 21</a>' in first and "running" in second
    assert "by at most 1.5 times a step; at most 6 steps" in shown and summary in shown
    for absent in ("<h3>Search</h3>", "luckiest", "Default, ", "TTFT p95"):
        assert absent not in shown
    assert "No step yet." in rendered("study", [], None, spec)
    assert "Steps in production" not in rendered("study", SEARCH)
