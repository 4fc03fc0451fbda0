"""What a rollout's page says at a glance: whom it reached, what was found, what comes and how long it can take."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase, Wave
from controlplane.contract.changes.blast_radius import BlastRadius
from tests.web.rollouts.judged_evidence import SPEC, judged
from web.rollouts.four_answers import comes_next, finding, hurts, left_words
from web.rollouts.judgements import judgements

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RADIUS = BlastRadius(
    nodes=8,
    nodes_at_once=2,
    traffic_share=None,
    traffic_share_at_once=None,
    tenants=0,
    unavailable_s=0.0,
    says=["8 nodes, at most 2 at once"],
)
WAVES = [Wave(nodes=size, of=8, says=f"{size} of 8 nodes") for size in (2, 4, 8)]


def rollout(phase: RolloutPhase, told: int = 0, spec: RolloutCreate = SPEC, **more: Any) -> Rollout:
    nodes = [f"n{place}" for place in range(told)]
    fields = {"previous_revision": 1, "canary_nodes": nodes[:2], "told_nodes": nodes, "waves": WAVES if told else []}
    return Rollout(id=1, phase=phase, spec=spec, created_by="ann", created_at=NOW, **(fields | more))


def test_whom_it_can_hurt_is_told_before_and_under_way_and_whom_it_reached_afterwards() -> None:
    assert hurts(rollout(RolloutPhase.PROPOSED), RADIUS) == RADIUS.says
    assert hurts(rollout(RolloutPhase.JUDGING, 2), RADIUS) == ["2 of 8 nodes were told: n0, n1", *RADIUS.says]
    (back,) = hurts(rollout(RolloutPhase.ROLLED_BACK, 2), RADIUS)
    assert back == "2 of 8 nodes were told, and taken back: n0, n1"
    assert hurts(rollout(RolloutPhase.CANCELLED), RADIUS) == ["no node was told"]
    many = rollout(RolloutPhase.PROMOTED, 10, waves=[])
    assert hurts(many, None) == ["10 nodes were told: n0, n1, n2, n3, n4, n5, n6, n7 and 2 more"]


def found(one: Rollout) -> tuple[str, str]:
    told = finding(one, judgements(one))
    return told.word, " ".join(told.says)


@pytest.mark.slow
def test_the_finding_is_that_of_the_newest_verdict_and_what_came_after_it_is_told() -> None:
    watched = judged(1.0, 20, past=False) | {"compares": False, "verdict": None, "nodes": ["n2"]}
    evidence = judged() | {"waves": [judged(1.0, 3) | {"nodes": ["n2"]}, watched]}
    word, says = found(rollout(RolloutPhase.PROMOTED, 8, evidence=evidence, ended_at=NOW))
    assert word == "not worse" and says.startswith("Canary, judged for 300 s: TTFT ")
    assert "Wave 1: no harm shown. It was watched for its time" in says
    assert "Wave 2: watched. Nothing was there to compare latencies with" in says and "inconclusive" not in says


@pytest.mark.slow
def test_harm_is_told_by_the_line_that_shows_it() -> None:
    word, says = found(rollout(RolloutPhase.ROLLED_BACK, 2, evidence=judged(1.8, 90), ended_at=NOW))
    assert word == "worse" and "TTFT typical worse, " in says and "% higher" in says


def test_what_is_not_decided_says_how_long_it_takes() -> None:
    word, says = found(rollout(RolloutPhase.JUDGING, 2, evidence=judged(1.0, 3)))
    assert word == "not decided yet" and "more would decide an equal one." in says
    ended = rollout(RolloutPhase.ROLLED_BACK, 2, evidence=judged(1.0, 3), ended_at=NOW)
    assert found(ended)[0] == "inconclusive"
    assert found(rollout(RolloutPhase.CANARY, 2)) == ("no evidence", "Nothing is judged yet.")
    emergency = SPEC.model_copy(update={"emergency": True, "reason": "fire"})
    assert found(rollout(RolloutPhase.PROMOTED, 8, spec=emergency, ended_at=NOW))[0] == "unjudged"


def test_what_comes_next_has_its_place_and_its_time() -> None:
    under_way = rollout(RolloutPhase.JUDGING, 4, next="4 more nodes are told", until=NOW + timedelta(minutes=5))
    told = comes_next(under_way, NOW)
    assert (told.words, told.left, told.place) == ("4 more nodes are told", "at most 5 min left", "Wave 2 of 3")
    ended = comes_next(rollout(RolloutPhase.PROMOTED, 8, ended_at=NOW, until=NOW), NOW)
    assert ended.words.startswith("nothing: the pool runs revision 2; revert") and ended.left == ended.place == ""
    back = comes_next(rollout(RolloutPhase.ROLLED_BACK, 2, ended_at=NOW), NOW)
    assert back.words.startswith("nothing: the pool runs revision 1; trying again")


@pytest.mark.parametrize(
    ("left_s", "words"),
    [
        (30, "at most 30 s left"),
        (119, "at most 119 s left"),
        (600, "at most 10 min left"),
        (86_400, "at most 24 h left"),
    ],
)
def test_time_left_is_told_in_a_fitting_unit(left_s: float, words: str) -> None:
    assert left_words(NOW + timedelta(seconds=left_s), NOW) == words
    assert "over" in left_words(NOW, NOW)
