"""Curves of canary and control: asked by their nodes, over the rollout's own time, of what it judges alone."""

from datetime import timedelta
from typing import Any

import pytest

from controlplane.contract.bodies.rollouts import Rollout, RolloutPhase
from controlplane.contract.bodies.telemetry import QuantilesAnswer
from controlplane.rollouts.judging.judging_plan import plan_of
from tests.web.part_html import NOW, part_html
from tests.web.rollouts.judged_evidence import SPEC
from web.drawing.line_chart import Line
from web.rollouts.arm_charts import MOST_NODES, beside
from web.rollouts.rollout_page import PAGE

STARTED = NOW - timedelta(minutes=10)


class Telemetry:
    """A rollout under way, and quantiles that are the same always; what was asked is kept."""

    def __init__(self, **more: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        told = {"id": 3, "phase": "judging", "spec": SPEC, "plan": plan_of(SPEC), "canary_nodes": ["gpu-1"]}
        told |= {"control_nodes": ["gpu-2"], "created_by": "ann", "created_at": STARTED, "started_at": STARTED}
        self.found = Rollout.model_validate(told | more)

    def rollout(self, _: int) -> Rollout:
        return self.found

    def quantiles(self, metric: str, q: tuple[float, ...], **asked: Any) -> QuantilesAnswer:
        self.asked.append({"metric": metric, "q": q, **asked})
        points = [
            {"time": STARTED + timedelta(seconds=30 * at), "count": 9, "quantiles": {f"{q[0]:g}": 0.2}}
            for at in range(10)
        ]
        series = {"labels": {}, "count": 90, "quantiles": {}, "points": points}
        span = {"start": asked.get("start", STARTED), "end": asked.get("end", NOW)}
        return QuantilesAnswer.model_validate(
            {"metric": metric, "unit": "s", "relative_error": 0.011, "series": [series], **span}
        )


def test_both_arms_are_asked_by_their_nodes_from_before_the_start() -> None:
    client = Telemetry()
    text = part_html(PAGE, "arms-ttft", client, rollout="3")
    assert [one["node"] for one in client.asked] == [["gpu-2"], ["gpu-1"]]
    assert {one["q"] for one in client.asked} == {(0.9,)}
    assert client.asked[0]["window"] == "900s", "half as long before as it lasts"
    assert "canary p90" in text and "control p90" in text and "started" in text


def test_an_ended_one_is_shown_to_its_end_with_its_marks() -> None:
    ended = STARTED + timedelta(minutes=4)
    client = Telemetry(phase=RolloutPhase.ROLLED_BACK, ended_at=ended, judging_since=STARTED + timedelta(minutes=1))
    text = part_html(PAGE, "arms-ttft", client, rollout="3")
    assert (client.asked[0]["start"], client.asked[0]["end"]) == (STARTED - timedelta(minutes=2), ended)
    assert "rolled back" in text and "judging" in text


def test_what_is_not_judged_is_not_asked_for() -> None:
    for client, part in ((Telemetry(), "arms-e2e"), (Telemetry(plan=None), "arms-ttft")):
        assert "no data in this span" in part_html(PAGE, part, client, rollout="3")
        assert client.asked == []


def test_of_a_large_arm_some_nodes_stand_for_all_and_that_is_said() -> None:
    client = Telemetry(control_nodes=[f"gpu-{number}" for number in range(2, 300)])
    text = part_html(PAGE, "arms-ttft", client, rollout="3")
    assert len(client.asked[0]["node"]) == MOST_NODES and f"control: {MOST_NODES} of 298 nodes" in text


def line(name: str, *values: float) -> Line:
    return Line(name, [(STARTED.timestamp() + 10.0 * place, value) for place, value in enumerate(values)])


@pytest.mark.parametrize(
    ("canary", "words"),
    [
        ((9.0, 0.05, 0.05, 7.0), "canary p90 is 50 % below the control's: 50 ms against 100 ms."),
        ((0.01, 0.2, 0.2, 0.2), "canary p90 is 100 % above the control's: 200 ms against 100 ms."),
        ((0.01, 0.104, 0.104, 0.104), "canary p90 is as the control's: 104 ms against 100 ms."),
    ],
)
def test_a_sentence_compares_both_arms_since_they_are_judged(canary: tuple[float, ...], words: str) -> None:
    since = STARTED + timedelta(seconds=10)
    control = line("control p90", 5.0, 0.1, 0.1, 0.1)
    assert beside([control, line("canary p90", *canary)], since) == f"Since it is judged, {words}"


def test_beside_a_control_of_nothing_there_is_no_share() -> None:
    told = beside([line("control p90", 0.0), line("canary p90", 0.05)], STARTED)
    assert told is not None and told.startswith("Since it is judged, canary p90 is above the control's: 50 ms against")


def test_it_says_nothing_before_both_were_seen() -> None:
    control, canary = line("control p90", 0.1, 0.1), line("canary p90", 0.1)
    assert beside([control, canary], STARTED + timedelta(seconds=5)) is None
    assert beside([canary], STARTED) is None
    client = Telemetry(judging_since=STARTED)
    text = part_html(PAGE, "arms-ttft", client, rollout="3")
    assert "Since it is judged, canary p90 is as the control&#39;s: 200 ms against 200 ms." in text
    assert "Since it is judged" not in part_html(PAGE, "arms-ttft", Telemetry(), rollout="3")
