"""What nodes run, wave by wave: what they ran then is the rollout's, what they run now is theirs."""

from datetime import UTC, datetime
from typing import Any

from controlplane.contract.bodies.rollouts import Rollout, RolloutPhase, Wave
from tests.web.rollouts.judged_evidence import SPEC, judged
from web.rollouts.judgements import judgements
from web.rollouts.wave_rows import WaveRow, ran_at_end, wave_rows

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NODES = [f"n{place}" for place in range(8)]
WAVES = [Wave(nodes=size, of=8) for size in (2, 4, 8)]


def rollout(phase: RolloutPhase, told: int, **more: Any) -> Rollout:
    fields = {"previous_revision": 1, "canary_nodes": NODES[:2], "control_nodes": NODES[2:], "told_nodes": NODES[:told]}
    fields |= {"waves": WAVES}
    return Rollout(id=1, phase=phase, spec=SPEC, created_by="ann", created_at=NOW, **(fields | more))


def rows(one: Rollout, runs: dict[str, int | None]) -> list[WaveRow]:
    return wave_rows(one, judgements(one), runs)


def told(found: list[WaveRow]) -> list[tuple[str, str, str, str, str, str]]:
    return [(one.title, one.nodes, one.before, one.then, one.runs, one.word) for one in found]


def test_each_wave_has_its_own_nodes_and_the_rest_is_not_told_yet() -> None:
    evidence = judged() | {"waves": [judged(1.0, 3) | {"nodes": NODES[:4]}]}
    runs: dict[str, int | None] = dict.fromkeys(NODES[:4], 2) | dict.fromkeys(NODES[4:], 1)
    assert told(rows(rollout(RolloutPhase.JUDGING, 4, evidence=evidence), runs)) == [
        ("Canary", "n0, n1", "1", "2", "2", "not worse"),
        ("Wave 1", "n2, n3", "1", "2", "2", "not decided yet"),
        ("Not told yet", "n4, n5, n6, n7", "1", "–", "1", ""),
    ]


def test_nodes_that_differ_are_counted_and_one_that_told_nothing_is_no_guess() -> None:
    runs: dict[str, int | None] = {"n0": 2, "n1": None}
    (canary, rest) = rows(rollout(RolloutPhase.CANARY, 2), runs)
    assert canary.runs == "2 (1), – (1)" and rest.runs == "–" and canary.kind is None


def test_what_was_run_at_the_end_is_what_the_rollout_wrote_down() -> None:
    kept = {"n0": {"revision": 1, "knobs": {}}, "n1": None}
    ended = rollout(RolloutPhase.ROLLED_BACK, 2, evidence={"nodes_at_end": kept}, ended_at=NOW)
    assert ran_at_end(ended) == {"n0": 1, "n1": None}
    assert ran_at_end(rollout(RolloutPhase.ROLLED_BACK, 2, ended_at=NOW)) == {}
    assert rows(ended, ran_at_end(ended))[1].title == "Not told"


def test_a_wave_says_of_which_group_it_is() -> None:
    by_region = [Wave(nodes=2, of=8, group="eu-1"), Wave(nodes=4, of=8, group="eu-1"), Wave(nodes=8, of=8)]
    found = rows(rollout(RolloutPhase.PROMOTING, 8, waves=by_region), {})
    assert [row.title for row in found] == ["Canary, eu-1", "Wave 1, eu-1", "Wave 2"]


def test_nothing_is_told_of_what_has_not_begun_and_an_emergency_has_no_canary() -> None:
    assert rows(rollout(RolloutPhase.PROPOSED, 0, waves=[]), {}) == []
    emergency = SPEC.model_copy(update={"emergency": True, "reason": "fire"})
    one = rollout(RolloutPhase.PROMOTING, 8, waves=[Wave(nodes=8, of=8)]).model_copy(update={"spec": emergency})
    assert [row.title for row in rows(one, {})] == ["All"]


def test_an_older_rollout_without_waves_is_told_by_its_canary_and_the_others() -> None:
    found = rows(rollout(RolloutPhase.PROMOTED, 8, waves=[]), dict.fromkeys(NODES, 2))
    assert [(one.title, one.nodes) for one in found] == [("Canary", "n0, n1"), ("Wave 1", "n2, n3, n4, n5, n6, n7")]
