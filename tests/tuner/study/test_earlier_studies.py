"""What is remembered of earlier studies, and what is not."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.contract.bodies.studies import Study, StudyCreate, StudyResult, StudyState, StudyVerdict
from controlplane.contract.knobs import EngineConfig
from tuner.search.search import Search
from tuner.search.space import Capabilities, build_space
from tuner.study.earlier_studies import ALIKE, MOST, are_alike, fingerprint, remembered
from tuner.workload.capture import describe
from tuner.workload.generate import CONV, fitted, generate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENGINE = {"backend": "embedded", "model": "m", "version": "1"}
WORKLOAD = generate(fitted(CONV, max_input=256, max_output=8), seed=1, rate_per_s=12, requests=60)
SUMMARY = {"slice": describe(WORKLOAD)}
DEFAULT = EngineConfig(max_num_batched_tokens=24).knobs()


def _winner(tokens: int) -> dict[str, Any]:
    return EngineConfig(max_num_batched_tokens=tokens).knobs()


def _study(number: int, tokens: int | None, **other: Any) -> Study:
    verdict = StudyVerdict.NOT_BETTER if tokens is None else StudyVerdict.BETTER
    winner = _winner(96 if tokens is None else tokens)
    wanted: dict[str, Any] = {
        "id": number,
        "state": StudyState.FINISHED,
        "spec": StudyCreate(pool="p"),
        "created_by": "ann",
        "created_at": NOW,
        "result": StudyResult(verdict=verdict, winner=winner, default=DEFAULT, summary="s"),
        "workload_summary": {**SUMMARY, "engine": ENGINE},
    }
    return Study.model_validate(wanted | other)


OWN = _study(99, None, state=StudyState.RUNNING, result=None)


def test_the_newest_winners_of_studies_alike_each_once() -> None:
    studies = [_study(1, 128), _study(2, 256), _study(3, 512), _study(4, 512), _study(5, None)]
    found = remembered(studies, OWN, ENGINE, SUMMARY)
    assert [(one.study_id, one.knobs) for one in found] == [(4, _winner(512)), (2, _winner(256))]
    assert len(found) == MOST


@pytest.mark.parametrize(
    "other",
    [
        {"workload_summary": {**SUMMARY, "engine": {**ENGINE, "version": "2"}}},
        {"workload_summary": {"engine": ENGINE}},
        {"workload_summary": {"slice": {**SUMMARY["slice"], "rate_per_s": 99.0}, "engine": ENGINE}},
        {"spec": StudyCreate(pool="p", objective="ttft")},
        {"result": None},
    ],
    ids=["another engine", "nothing told", "other traffic", "another objective", "no result"],
)
def test_what_is_not_alike_is_not_remembered(other: dict[str, Any]) -> None:
    assert remembered([_study(1, 128, **other)], OWN, ENGINE, SUMMARY) == []
    assert remembered([_study(1, 128)], OWN, ENGINE, SUMMARY)


def test_traffic_is_alike_up_to_a_ratio_both_ways() -> None:
    one = fingerprint(SUMMARY)
    assert one is not None and are_alike(one, one)
    for name in one:
        if name != "prefix_share":
            for ratio in (ALIKE * 1.01, 1 / (ALIKE * 1.01)):
                assert not are_alike(one, one | {name: one[name] * ratio})
            assert are_alike(one, one | {name: one[name] * 1.4})
    assert not are_alike(one, one | {"prefix_share": one["prefix_share"] + 0.21})


def test_what_is_remembered_is_measured_first_and_the_usual_points_fill_up() -> None:
    space = build_space({}, DEFAULT, Capabilities())
    search = Search(space, DEFAULT, constraints=[], remembered=[_winner(96)])
    pending: dict[int, dict[str, Any]] = {0: DEFAULT}
    while True:
        search.catch_up([], pending)
        candidate = search.ask()
        if candidate is None:
            break
        pending[candidate.number] = candidate.knobs
    assert pending[1] == _winner(96) and len(pending) == 4
    usual = Search(space, DEFAULT, constraints=[])
    usual.catch_up([], {0: DEFAULT})
    first = usual.ask()
    assert first is not None and pending[2] == first.knobs
