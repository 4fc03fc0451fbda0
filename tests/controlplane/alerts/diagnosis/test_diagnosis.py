"""Stage, share and cause on cases made by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.alerts.diagnosis.causes import Context, Level, RevisionSeen, causes
from controlplane.alerts.diagnosis.diagnosis import Measured, Shift, diagnose

ONSET = datetime(2030, 1, 1, 14, 3, 10, tzinfo=UTC)
USUAL = {"receive": 0.001, "tokenize": 0.002, "queue": 0.02, "prefill": 0.1, "decode": 0.4, "send": 0.001}
STEPS = {"step_schedule": 0.001, "step_forward": 0.018, "step_sample": 0.002, "step_commit": 0.001}


@pytest.fixture
def measured(sketch: Any) -> Any:
    def make(**factors: float) -> Measured:
        usual = {**USUAL, **STEPS}
        before = {part: sketch([value] * 20) for part, value in usual.items()}
        during = {part: sketch([value * factors.get(part, 1.0)] * 20) for part, value in usual.items()}
        return Measured(before, during)

    return make


def shift(metric: str) -> Shift:
    return Shift(metric, 0.99, 0.21, 1.9, ONSET)


@pytest.mark.parametrize(
    ("metric", "slow", "stage"),
    [
        ("ttft", {"queue": 50.0, "prefill": 1.2}, "queue"),
        ("ttft", {"prefill": 9.0, "queue": 2.0}, "prefill"),
        ("ttft", {"tokenize": 200.0}, "tokenize"),
        ("e2e", {"decode": 3.0, "prefill": 1.5}, "decode"),
        ("e2e", {"send": 500.0}, "send"),
        ("itl", {"step_forward": 3.0}, "decode"),
        ("itl", {"decode": 2.0}, "decode"),
    ],
)
def test_names_the_stage(measured: Any, metric: str, slow: dict[str, float], stage: str) -> None:
    found = diagnose(shift(metric), measured(**slow), Context())
    assert found.stage == stage
    assert sum(part.share_of_increase for part in found.stages) == pytest.approx(1.0, abs=1e-3)


def test_the_sentence_for_a_tired_reader(measured: Any) -> None:
    old = RevisionSeen(1, 1.0, 0.0, None, {"max_num_batched_tokens": 512, "max_num_seqs": 32})
    new = RevisionSeen(2, 0.0, 1.0, ONSET - timedelta(seconds=12), {"max_num_batched_tokens": 32, "max_num_seqs": 32})
    found = diagnose(shift("ttft"), measured(prefill=9.0, queue=9.0), Context(revisions=[old, new]))
    assert found.summary == (
        "TTFT p99 rose from 0.21 s to 1.90 s since 14:03:10 UTC; 83% of it is prefill; configuration revision 2 "
        "(max_num_batched_tokens 512 -> 32) reached the pool 12 s before."
    )
    assert found.causes[0]["changed"] == {"max_num_batched_tokens": [512, 32]}


def test_without_anything_to_go_by(measured: Any) -> None:
    found = diagnose(Shift("ttft", 0.95, None, None, ONSET), Measured(), Context())
    assert found.stage is None and [cause["cause"] for cause in found.causes] == ["unknown"]
    nothing_grew = diagnose(shift("ttft"), measured(), Context())
    assert nothing_grew.stage is None


@pytest.mark.parametrize(
    ("context", "cause"),
    [
        (Context(rate=Level(5.0, 12.0), waiting=Level(0.0, 40.0)), "load"),
        (Context(prompt_before={"<=128": 1.0}, prompt_during={"<=128": 0.4, "<=8k": 0.6}), "prompt_mix"),
        (Context(cache_before={"hit": 0.8, "miss": 0.2}, cache_during={"hit": 0.1, "miss": 0.9}), "cache_miss"),
        (Context(preemptions=Level(0.0, 1.5), kv_usage=Level(0.5, 0.99)), "preemption"),
        (Context(kv_usage=Level(0.5, 0.97)), "kv_pressure"),
        (Context(node_growth_s={"a": 0.001, "b": 0.4, "c": -0.01}), "one_node"),
        (Context(rate=Level(5.0, 5.5), prompt_before={"<=8k": 1.0}, prompt_during={"<=128": 1.0}), "unknown"),
    ],
)
def test_names_the_cause(context: Context, cause: str) -> None:
    found = causes(context, ONSET)
    assert found[0]["cause"] == cause and found[0]["message"]


def test_a_change_of_configuration_just_before_comes_first() -> None:
    revisions = [RevisionSeen(1, 1.0, 0.1), RevisionSeen(2, 0.0, 0.9, ONSET - timedelta(seconds=5))]
    found = causes(Context(revisions=revisions, rate=Level(5.0, 15.0)), ONSET)
    assert [cause["cause"] for cause in found] == ["config_change", "load"]
