"""What a rollout's end says of the step that it was."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.contract.bodies.rollouts import Rollout, RolloutPhase, Verdict
from controlplane.contract.planning.online_mode import OnlineStep, StepOutcome
from controlplane.studies.online.step_outcome import canary_s, ended_step, is_stranded, outcome_of

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def rollout(phase: RolloutPhase, verdict: Verdict | None = None, **more: Any) -> Rollout:
    spec = {"pool": "chat", "revision": 2, "objective": "ttft", "objective_q": 0.95}
    told = {"id": 7, "phase": phase, "verdict": verdict, "spec": spec, "created_by": "tailwright", "created_at": NOW}
    return Rollout.model_validate({**told, **more})


@pytest.mark.parametrize(
    ("phase", "verdict", "outcome"),
    [
        (RolloutPhase.JUDGING, Verdict.BETTER, None),
        (RolloutPhase.PAUSED, None, None),
        (RolloutPhase.AWAITING_APPROVAL, None, None),
        (RolloutPhase.PROMOTED, Verdict.BETTER, StepOutcome.BETTER),
        (RolloutPhase.ROLLED_BACK, Verdict.NOT_WORSE, StepOutcome.SAFE),
        (RolloutPhase.ROLLED_BACK, Verdict.WORSE, StepOutcome.WORSE),
        (RolloutPhase.ROLLED_BACK, Verdict.INCONCLUSIVE, StepOutcome.STOPPED),  # Its canary failed.
        (RolloutPhase.ROLLED_BACK, Verdict.BETTER, StepOutcome.STOPPED),  # A later wave broke off.
        (RolloutPhase.ROLLED_BACK, None, StepOutcome.STOPPED),
        (RolloutPhase.FAILED, None, StepOutcome.STOPPED),
        (RolloutPhase.CANCELLED, None, StepOutcome.STOPPED),
    ],
)
def test_only_what_was_promoted_is_better(
    phase: RolloutPhase, verdict: Verdict | None, outcome: StepOutcome | None
) -> None:
    assert outcome_of(rollout(phase, verdict)) is outcome


def test_what_its_traffic_has_not_decided_is_inconclusive() -> None:
    why = "pool chat runs revision 1 again: inconclusive: not enough evidence within 120 s"
    ended = rollout(RolloutPhase.ROLLED_BACK, Verdict.INCONCLUSIVE, message=why)
    assert outcome_of(ended) is StepOutcome.INCONCLUSIVE


def test_nodes_that_went_neither_on_nor_back_strand_it() -> None:
    assert is_stranded(rollout(RolloutPhase.FAILED, told_nodes=["a"]))
    assert not is_stranded(rollout(RolloutPhase.FAILED))  # Its validation refused it.
    assert not is_stranded(rollout(RolloutPhase.ROLLED_BACK, told_nodes=["a"]))


@pytest.mark.parametrize(
    ("lines", "ratio", "interval"),
    [
        ({}, None, None),
        ({"lines": {"p95": {"ratio": 0.8, "interval": [0.7, 0.9]}}}, 0.8, (0.7, 0.9)),
        ({"lines": {"p95": {"ratio": None, "interval": [None, 0.9]}}}, None, (None, 0.9)),
    ],
)
def test_a_step_tells_what_was_seen_of_the_objective(
    lines: dict[str, Any], ratio: float | None, interval: tuple[float | None, float | None] | None
) -> None:
    account = {"control": {"p50": 0.1, "p95": 0.5}, "canary": {"p50": 0.1, "p95": 0.4}, **lines}
    ended = rollout(RolloutPhase.PROMOTED, Verdict.BETTER, evidence={"metrics": {"ttft": account}}, message="done")
    found = ended_step(OnlineStep(knob="max_num_seqs", before=4, value=8, rollout_id=7), ended)
    assert (found.outcome, found.verdict, found.message) == (StepOutcome.BETTER, Verdict.BETTER, "done")
    assert (found.control_s, canary_s(ended), found.ratio, found.interval) == (0.5, 0.4, ratio, interval)


def test_one_that_was_never_judged_tells_nothing() -> None:
    ended = rollout(RolloutPhase.FAILED)
    found = ended_step(OnlineStep(knob="max_num_seqs", before=4, value=8, rollout_id=7), ended)
    assert (found.control_s, canary_s(ended), found.ratio, found.interval) == (None, None, None, None)
