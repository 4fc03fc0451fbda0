"""Each limit says what was wanted, what the winner's fresh runs had, and in how many of them it held."""

from controlplane.contract.bodies.studies import FINALIST, Trial
from tests.web.studies.measured_study import DEFAULT, RESULT, SPEC, WINNER, trials
from web.frame.states import Kind
from web.studies.limits_held import LimitHeld, limits_held


def test_every_limit_of_the_study_is_told_with_its_runs() -> None:
    itl, ttft, lost, agreement, drop, evaluation = limits_held(SPEC, RESULT, trials())
    assert itl == LimitHeld("ITL p99", "≤ 200 ms", "150 ms", "150 ms", "150 ms", 4, 4)
    assert (ttft.name, ttft.limit) == ("TTFT p95", "≤ 1.00 s")
    assert (lost.name, lost.limit, lost.worst, lost.kind) == ("Requests lost", "≤ 2.0 %", "0.0 %", Kind.GOOD)
    assert (agreement.limit, agreement.default, agreement.worst) == ("≥ 90.0 %", "–", "95.7 %")
    assert itl.says == "held in 4 of 4 runs"
    assert (drop.limit, drop.default, drop.worst, drop.kind) == ("≤ 0.05 nats", "–", "0.0104 nats", Kind.GOOD)
    scores = ("Evaluation mmlu", "≥ default − 0.01", "0.615 ± 0.002", "0.612 ± 0.002")
    assert (evaluation.name, evaluation.limit, evaluation.default, evaluation.typical) == scores
    assert evaluation.says == "held in 1 of 1 runs"


def test_a_run_that_broke_one_counts_and_another_configurations_does_not() -> None:
    def broken(trial: Trial, knobs: object) -> Trial:
        breaks = trial.kind == FINALIST and trial.knobs == knobs and trial.number < 9
        return trial.model_copy(update={"violations": trial.violations | {"itl:0.99": 0.2}}) if breaks else trial

    (itl, *_) = limits_held(SPEC, RESULT, [broken(trial, WINNER) for trial in trials()])
    assert (itl.held, itl.runs, itl.kind) == (3, 4, Kind.WARN)
    (itl, *_) = limits_held(SPEC, RESULT, [broken(trial, DEFAULT) for trial in trials()])
    assert (itl.held, itl.kind) == (4, Kind.GOOD)


def test_without_fresh_runs_nothing_is_said_to_have_held() -> None:
    search = [trial for trial in trials() if trial.kind != FINALIST]
    for result in (None, RESULT.model_copy(update={"repeats": 0, "winner": None, "evaluation": None})):
        found = limits_held(SPEC, result, search)
        assert [one.says for one in found] == ["not measured"] * 3
        assert {one.kind for one in found} == {Kind.UNKNOWN} and {one.worst for one in found} == {"–"}
