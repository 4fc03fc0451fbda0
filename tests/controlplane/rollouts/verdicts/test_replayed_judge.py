"""Arms of others, judged by replay: what is said depends on the windows alone, and is said at the judge's rates."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from controlplane.contract.changes.verdicts import ArmAsked, Outcome, VerdictAnswer, VerdictAsked
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import WINDOW_S
from controlplane.rollouts.verdicts.asked_arms import LONGEST_S
from controlplane.rollouts.verdicts.replayed_judge import LAG_S, LOOK_TICKS, verdict_on
from tests.controlplane.telemetry.fake_reader import FakeReader

START = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)
WINDOW = timedelta(seconds=WINDOW_S)


def world(factor: float, *, windows: int = 60, seed: int = 3, lost: float = 0.0) -> FakeReader:
    """Five minutes of the control alone; then a canary beside it whose requests take `factor` times as long."""
    telemetry, rng = FakeReader(), np.random.default_rng(seed)
    for place in range(-60, windows):
        time = START + place * WINDOW
        for node, slower, share in (("old-1", 1.0, 0.0), ("old-2", 1.0, 0.0), ("new-1", factor, lost)):
            if node == "new-1" and place < 0:
                continue
            values = 0.1 * slower * np.exp(0.4 * rng.normal(size=25))
            labels = {"node": node, "pool": "chat", "prompt_bucket": "<=128"}
            telemetry.add("ttft", time, values.tolist(), **labels)
            gone = round(share * 25)
            telemetry.add("requests", time, 25 - gone, **labels, finish_reason="stop")
            telemetry.add("requests", time, gone, **labels, finish_reason="timeout")
    return telemetry


def asked(**more: Any) -> VerdictAsked:
    arms = {"control": ArmAsked(node=["old-*"]), "canary": ArmAsked(node=["new-*"])}
    settings: dict[str, Any] = {"metrics": ["ttft"], "settle_s": 0, "tolerance": 0.3, "start": START}
    return VerdictAsked(**{**settings, **arms, **more})


def after(windows: int) -> datetime:
    return START + windows * WINDOW + timedelta(seconds=LAG_S)


def test_a_slow_canary_fails_and_the_answer_says_by_what() -> None:
    found = verdict_on(world(2.0), asked(), after(60))
    assert (found.verdict, found.final) == (Outcome.FAIL, True)
    assert (found.metric, found.interval) == ("ttft", None)
    assert found.ratio == pytest.approx(2.0, rel=0.15)
    assert found.counts.canary == sum(stratum.canary for stratum in found.strata) > 1000
    assert "ttft: worse" in found.says


def test_an_equal_canary_passes_and_can_still_turn() -> None:
    found = verdict_on(world(1.0), asked(), after(60))
    assert (found.verdict, found.final) == (Outcome.PASS, False)
    assert found.ratio == pytest.approx(1.0, rel=0.3)  # At p99, which is told for leaning most to harm.


def test_a_canary_that_loses_requests_fails_whatever_the_rest_takes() -> None:
    found = verdict_on(world(0.9, lost=0.2), asked(), after(24))
    assert found.verdict is Outcome.FAIL
    assert "served share: worse" in found.says


@pytest.mark.slow
def test_an_answer_depends_on_the_windows_alone() -> None:
    """Whoever asked before and however often: the same state of the world has the same answer, between looks too."""
    telemetry = world(1.25)
    patient = verdict_on(telemetry, asked(), after(48))
    verdict_on(telemetry, asked(), after(13))
    between = [verdict_on(telemetry, asked(), after(48 + more)) for more in (0, 1, LOOK_TICKS - 1)]
    assert between == [patient] * 3


@pytest.mark.slow
def test_what_failed_once_stays_failed() -> None:
    telemetry = world(1.6, windows=24)
    rng = np.random.default_rng(5)
    for place in range(24, 60):  # It recovers, and is then even faster than the control.
        time = START + place * WINDOW
        for node, slower in (("old-1", 1.0), ("old-2", 1.0), ("new-1", 0.6)):
            values = (0.1 * slower * np.exp(0.4 * rng.normal(size=25))).tolist()
            telemetry.add("ttft", time, values, node=node, pool="chat", prompt_bucket="<=128")
    verdicts = [verdict_on(telemetry, asked(), after(windows)).verdict for windows in (24, 42, 60)]
    assert verdicts == [Outcome.FAIL] * 3


@pytest.mark.slow
def test_asked_again_and_again_an_equal_canary_fails_no_more_often_than_alpha() -> None:
    """Six worlds at alpha 0.05, each asked at three moments: one of them may fail by chance, and two hardly."""
    failed = 0
    for seed in range(6):
        telemetry = world(1.0, windows=36, seed=seed)
        wanted = asked(alpha=0.05, tolerance=0.1)
        outcomes = {verdict_on(telemetry, wanted, after(windows)).verdict for windows in (12, 24, 36)}
        failed += Outcome.FAIL in outcomes
    assert failed <= 1


def test_it_passes_not_before_the_least_time() -> None:
    found = verdict_on(world(1.0), asked(min_judge_s=600), after(60))
    assert found.verdict is Outcome.INCONCLUSIVE
    assert found.says[0] == "good so far; it passes after 600 s"


def test_a_time_that_is_over_has_a_final_answer() -> None:
    over = asked(end=START + 36 * WINDOW)
    found = verdict_on(world(1.0), over, after(60))
    assert found.final
    assert found.judged_s == 36 * WINDOW_S
    assert not verdict_on(world(1.0), over, after(30)).final


def test_a_node_beside_the_time_before() -> None:
    telemetry = world(1.0, windows=0)
    rng = np.random.default_rng(8)
    for place in range(60):
        values = (0.2 * np.exp(0.4 * rng.normal(size=50))).tolist()
        telemetry.add("ttft", START + place * WINDOW, values, node="old-1", prompt_bucket="<=128")
    same = {"control": ArmAsked(node=["old-1"]), "canary": ArmAsked(node=["old-1"])}
    before = {"control_start": START - 60 * WINDOW, "control_end": START}
    assert verdict_on(telemetry, asked(**same, **before), after(60)).verdict is Outcome.FAIL


@pytest.mark.parametrize(
    ("telemetry", "says"),
    [
        (FakeReader(), "the control has reported nothing yet"),
        (world(1.0, windows=0), "the canary has reported nothing yet"),
    ],
)
def test_what_has_not_reported_is_waited_for(telemetry: FakeReader, says: str) -> None:
    if telemetry.latest() is not None:
        telemetry.add("kv_usage", START + 60 * WINDOW, 0.1, node="old-1")
        telemetry.add("ttft", START + 2 * WINDOW, [0.1], node="old-1")
    found = verdict_on(telemetry, asked(), after(30))
    assert (found.verdict, found.final, found.says) == (Outcome.INCONCLUSIVE, False, [says])


def test_a_settling_canary_is_waited_for() -> None:
    found = verdict_on(world(3.0), asked(settle_s=300), after(30))
    assert found == VerdictAnswer(
        verdict=Outcome.INCONCLUSIVE, final=False, says=["nothing has been compared yet: the canary settles"]
    )


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"metrics": ["kv_usage"]}, "metrics[0]"),
        ({"end": START}, "end"),
        ({"control_start": START}, "control_end"),
        ({"control_start": START, "control_end": START - WINDOW}, "control_end"),
        ({"control_start": START, "control_end": START + 30 * WINDOW}, "control_end"),
        ({"start": START - timedelta(seconds=LONGEST_S + 3600)}, "end"),
        ({"levels": {"ttft": [1.5]}}, "levels.ttft"),
    ],
)
def test_what_cannot_be_asked_is_refused(more: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as raised:
        verdict_on(world(1.0), asked(**more), after(60))
    assert raised.value.detail["field"] == field
