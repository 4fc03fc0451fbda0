"""What a rollout of ours means to others."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.contract.bodies.rollouts import ENDED, Rollout, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.changes.verdicts import Outcome
from controlplane.rollouts.verdicts.verdict_answer import of_rollout

NOW = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)


def line(worse: float, ratio: float | None, *, beyond: float | None = 1.1) -> dict[str, Any]:
    return {
        "ratio": ratio,
        "interval": [0.9, None],
        "alpha": 0.001,
        "worse_beyond": beyond,
        "log_e": {"worse": worse, "not_worse": 0.0},
    }


EVIDENCE: dict[str, Any] = {
    "alpha": 0.01,
    "tolerance": 0.1,
    "log_bounds": {"worse": 6.0},
    "judged_from": NOW.isoformat(),
    "judged_until": NOW.isoformat(),
    "judged_s": 120.0,
    "needed_s": 30.0,
    "metrics": {
        "ttft": {
            "finding": "leaning_worse",
            "by": "itself before",
            "judged": {"control": 900, "canary": 300},
            "strata": {"<=2k hit": [500, 200], "<=2k miss": [400, 100]},
            "lines": {"typical": line(-1.0, 1.02), "p99": line(4.0, 1.4), "tail": line(6.0, None, beyond=None)},
        },
        "tpot": {
            "finding": "undecided",
            "judged": {"control": 10, "canary": 10},
            "exceedances": [{"q": 0.5, "ratio": 1.1, "log_e": {"worse": 1.0}}],
        },
    },
    "served": {"finding": "undecided"},
    "limits": [{"metric": "itl", "q": 0.99, "limit_s": 0.2, "finding": "broken"}],
    "leaning_to_harm": {"ttft": ["p99"]},
    "held_back": ["both arms are overloaded"],
}


def rollout(phase: RolloutPhase, verdict: Verdict | None, **evidence: Any) -> Rollout:
    spec = RolloutCreate(pool="chat", revision=2)
    more = {"message": "news", "created_by": "p", "created_at": NOW}
    return Rollout(id=7, phase=phase, verdict=verdict, spec=spec, evidence=evidence, **more)


@pytest.mark.parametrize(
    ("phase", "verdict", "outcome"),
    [
        (RolloutPhase.PROPOSED, None, Outcome.INCONCLUSIVE),
        (RolloutPhase.JUDGING, None, Outcome.INCONCLUSIVE),
        (RolloutPhase.PROMOTING, Verdict.NOT_WORSE, Outcome.PASS),
        (RolloutPhase.PROMOTED, Verdict.BETTER, Outcome.PASS),
        (RolloutPhase.PROMOTED, Verdict.UNJUDGED, Outcome.INCONCLUSIVE),
        (RolloutPhase.ROLLING_BACK, Verdict.WORSE, Outcome.FAIL),
        (RolloutPhase.ROLLED_BACK, Verdict.WORSE, Outcome.FAIL),
        (RolloutPhase.ROLLED_BACK, Verdict.INCONCLUSIVE, Outcome.INCONCLUSIVE),
        (RolloutPhase.ROLLING_BACK, Verdict.NOT_WORSE, Outcome.INCONCLUSIVE),
        (RolloutPhase.ROLLED_BACK, Verdict.BETTER, Outcome.INCONCLUSIVE),
        (RolloutPhase.FAILED, None, Outcome.FAIL),
        (RolloutPhase.CANCELLED, None, Outcome.INCONCLUSIVE),
    ],
)
def test_each_end_means_one_thing(phase: RolloutPhase, verdict: Verdict | None, outcome: Outcome) -> None:
    found = of_rollout(rollout(phase, verdict))
    assert (found.verdict, found.final) == (outcome, phase in ENDED)
    assert found.says == [f"rollout 7 is {phase.value}: news"]


@pytest.mark.parametrize("phase", sorted(ENDED - {RolloutPhase.PROMOTED}))
def test_what_was_taken_back_never_passes(phase: RolloutPhase) -> None:
    assert all(of_rollout(rollout(phase, verdict)).verdict is not Outcome.PASS for verdict in (None, *Verdict))


def test_the_line_that_leans_most_to_harm_is_told() -> None:
    found = of_rollout(rollout(RolloutPhase.JUDGING, None, **EVIDENCE))
    assert (found.metric, found.line, found.ratio, found.interval) == ("ttft", "p99", 1.4, [0.9, None])
    assert (found.counts.control, found.counts.canary) == (900, 300)
    assert [stratum.name for stratum in found.strata] == ["<=2k hit", "<=2k miss"]
    assert (found.metrics["tpot"].by, found.metrics["tpot"].line, found.metrics["tpot"].ratio) == ("counts", "p50", 1.1)
    assert (found.judged_s, found.needed_s) == (120.0, 30.0)
    assert found.says[1:] == [
        "limit: itl p99 at most 0.2 s is broken",
        "ttft leans to harm: p99",
        "both arms are overloaded",
    ]


def test_a_wave_that_was_worse_tells_its_own_evidence() -> None:
    wave = {**EVIDENCE, "nodes": ["a", "b"], "judged_s": 300.0}
    canary = {**EVIDENCE, "waves": [wave]}
    assert of_rollout(rollout(RolloutPhase.ROLLED_BACK, Verdict.WORSE, **canary)).judged_s == 300.0
    assert of_rollout(rollout(RolloutPhase.PROMOTED, Verdict.BETTER, **canary)).judged_s == 120.0
