"""What a wanted study would do, and what bounds it, before there is one."""

from typing import Any

import pytest

from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import KnobRange, Objective, StudyCreate
from controlplane.contract.on_call.rollout_policies import Hours
from controlplane.contract.planning.online_mode import OnlineMode
from tests.web.columns_of import columns_of
from web.studies.study_outline import becomes, bounds, does, keeps, trial_nodes


def node(name: str, pool: str, role: NodeRole, **told: Any) -> NodeView:
    of: dict[str, Any] = {"backend": "embedded", "model": "m", "connected": True, "healthy": True, "effective": None}
    return NodeView(node=name, pool=pool, role=role, **{**of, **told})


SERVING = node("a", "chat", NodeRole.SERVING)
TRIAL = node("t", "chat-trial", NodeRole.TRIAL)


def test_what_it_does_is_told_in_order() -> None:
    space = {"max_num_seqs": KnobRange(minimum=16, maximum=128, log=True), "quantization": KnobRange(choices=["int8"])}
    study = StudyCreate(pool="chat", objective="ttft", max_duration_s=7200, space=space, suggested=[{}, {}])
    said = does(study)
    assert said[0].startswith("Replays the newest 5m of pool chat's traffic")
    assert said[1] == "Tries at most 12 configurations in at most 2h, for a lower TTFT p95"
    assert said[2] == (
        "Searches max_num_seqs 16 to 128 on a logarithmic scale; quantization int8: "
        "other knobs stay as the pool runs them"
    )
    assert said[3] == "Measures 2 of your own first, and searches their values, too"
    assert said[4].startswith("Runs heats of 3 finalists") and said[4].endswith("3 pairs")
    assert does(StudyCreate(pool="chat", finalists=1))[-1].startswith("Runs pairs of the best")
    assert "Searches the tuner's own knobs" in does(StudyCreate(pool="chat"))


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ("friday", "Replays workload friday, as if pool chat had served it, at 2 times the rate at which it came to a"),
        ("profile:rag@4", "Replays profile rag at 4 requests a second, as if pool chat had served it, at 2 times the"),
    ],
)
def test_named_traffic_is_told_in_place_of_the_newest(workload: str, said: str) -> None:
    assert does(StudyCreate(pool="chat", workload=workload, load=2))[0].startswith(said)


def test_goodput_is_what_keeps_every_limit_at_the_load_that_was_asked_for() -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=1), Limit(metric="itl", q=0.99, limit_s=0.2)]
    study = StudyCreate(pool="chat", objective="goodput", constraints=limits, load=2)
    said = does(study)
    assert "of pool chat's traffic at 2 times the rate at which it came to a trial node" in said[0]
    assert said[1].endswith(
        "for more requests a second of which each keeps its TTFT at most 1s, and its ITL at most 200ms"
    )
    assert keeps(study)[0] == "at most 2 % of its requests lost"


def test_the_largest_load_is_sought_by_several_replays_a_trial() -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=1), Limit(metric="itl", q=0.99, limit_s=0.2)]
    said = does(StudyCreate(pool="chat", objective="max_load", constraints=limits, load_replays=9))
    assert said[0].endswith("at most 40 requests a replay")
    assert said[1] == "Replays it up to 9 times a trial, each time at another rate"
    assert said[2].endswith("for the largest load that keeps TTFT p95 at most 1s and ITL p99 at most 200ms")


def test_several_objectives_are_sought_together_and_a_winner_is_hardly_worse_in_any() -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=1)]
    also = [Objective(objective="goodput_tokens"), Objective(objective="tpot", objective_q=0.5)]
    study = StudyCreate(pool="chat", objective="cost", also=also, constraints=limits)
    said = does(study)
    assert said[2].endswith(
        "for cheaper output tokens at the largest load that keeps TTFT p95 at most 1s and more output tokens a second "
        "of requests of which each keeps its TTFT at most 1s and a lower TPOT p50"
    )
    assert said[3] == "Seeks all that cannot be had better in one of these without being worse in another"
    assert "goodput in tokens at most 10 % worse than what the pool runs" in keeps(study)
    assert "TPOT p50 at most 10 % worse than what the pool runs" in keeps(study)


def test_what_a_winner_must_hold() -> None:
    study = StudyCreate(pool="chat", constraints=[Limit(metric="itl", q=0.99, limit_s=0.2)])
    assert keeps(study)[:2] == ["ITL p99 at most 200ms", "at most 2 % of its requests lost"]
    drop = ", and held-out text at most 0.05 nats a token less likely"
    assert keeps(study)[2:] == [f"where it is quantized, 90 % of next tokens as without{drop}"]
    own = StudyCreate(pool="chat", most_logprob_drop=0, evaluation="mmlu", evaluation_margin=0.02)
    assert keeps(own)[1:] == [
        "where it is quantized, 90 % of next tokens as without",
        "by evaluation mmlu, a score at most 0.02 below what the pool runs has",
    ]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, "A better winner becomes a rollout that waits for a person"),
        (
            {"auto_start_rollout": True, "rollout": {"soak_s": 60}},
            "A better winner becomes a rollout that begins at once, with its own soak",
        ),
        ({"propose_rollout": False, "rollout": {"soak_s": 60}}, "A better winner is told, and nothing is proposed"),
    ],
)
def test_what_becomes_of_its_winner(told: dict[str, Any], words: str) -> None:
    assert becomes(StudyCreate(pool="chat", **told)) == words


@pytest.mark.parametrize(
    ("trial", "able"),
    [
        (TRIAL, ["t"]),
        (node("t", "elsewhere", NodeRole.TRIAL), ["t"]),
        (node("t", "chat-trial", NodeRole.TRIAL, model="other"), []),
        (node("t", "chat-trial", NodeRole.TRIAL, connected=False), []),
        (node("t", "chat", NodeRole.SERVING), []),
    ],
)
def test_a_trial_node_is_well_and_runs_the_pools_model(trial: NodeView, able: list[str]) -> None:
    assert trial_nodes("chat", columns_of([SERVING, trial])) == able


def test_without_a_trial_node_it_is_said_what_mends_it() -> None:
    assert bounds("chat", columns_of([SERVING, TRIAL]), [], []) == []
    (words, address), *more = bounds("chat", columns_of([SERVING]), [], [])
    assert "pool chat-trial" in words and address == "/fleet" and more == []


def test_in_production_it_is_told_what_moves_and_what_bounds_it() -> None:
    hours = Hours(opens="22:00", closes="06:00", zone="Europe/London", days=["tue", "wed"])
    space = {"max_num_seqs": KnobRange(minimum=16, maximum=128)}
    study = StudyCreate(pool="chat", space=space, online=OnlineMode(step=1.5, max_taken_back=2, hours=hours))
    said = does(study)
    assert said[0] == (
        "Moves max_num_seqs 16 to 128 of pool chat, one at a time, by at most 1.5 times a step or to the next value"
    )
    assert said[2] == "Takes at most 12 steps in at most 1d, and ends when 2 were worse, undecided or stopped"
    assert said[3].startswith("Begins steps tue, wed, from 22:00 to 06:00 (Europe/London), within the pool's own hours")
    usual = StudyCreate(pool="chat", online=OnlineMode())
    assert does(usual)[0].startswith("Moves every knob that changes live of pool chat")
    assert "lost" not in " ".join(keeps(usual)) and "stays in production" in becomes(usual)


def test_in_production_no_trial_node_is_wanted() -> None:
    fleet = columns_of([SERVING])
    assert bounds("chat", fleet, [], [], online=True) == []
    assert bounds("chat", fleet, [], [])[0][0].startswith("No trial node can run it")
