"""A canary whose drafts deliver several tokens a step: longer gaps, and far better by everything a user waits for.

The figures are of a vLLM node with drafts of 4: ttft p50 159 to 37 ms, e2e p50 192 to 72 ms, median gap 5.4 to 7.6 ms,
and 536 gaps where the control had 881 for as many tokens.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from controlplane.contract.bodies.rollouts import RolloutCreate, Verdict
from controlplane.contract.bodies.slo import Limit
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.judge import Judge
from controlplane.rollouts.judging.judging_plan import plan_of

MakeSketch = Callable[..., Sketch]
TOKENS_PER_REQUEST = 9
STUDY: dict[str, Any] = {
    "objective": "e2e",
    "objective_q": 0.95,
    "limits": [Limit(metric="itl", q=0.99, limit_s=0.05)],
    "study_id": 1,
}


class Arms:
    """Windows of both arms: medians in seconds, `held` tokens a delivery of the canary."""

    def __init__(self, make: MakeSketch, seed: int) -> None:
        self.make, self.rng = make, np.random.default_rng(seed)

    def values(self, median_s: float, count: int, sigma: float = 0.3) -> dict[str, Sketch]:
        return {"<=128": self.make(median_s * np.exp(sigma * self.rng.normal(size=count)))}

    def gaps(self, median_s: float, tokens: int, held: float) -> tuple[dict[str, Sketch], int]:
        return self.values(median_s, round(tokens / held)), tokens

    def tick(self, canary: dict[str, float], *, told: bool = True) -> dict[str, Window]:
        control = {"ttft": 0.159, "e2e": 0.192, "tpot": 0.0054, "itl": 0.0054}
        requests = int(self.rng.poisson(15))
        tokens = TOKENS_PER_REQUEST * requests
        windows = {
            metric: Window(self.values(control[metric], requests), self.values(canary[metric], requests))
            for metric in ("ttft", "e2e", "tpot")
        }
        a, a_tokens = self.gaps(control["itl"], tokens, 1.0)
        b, b_tokens = self.gaps(canary["itl"], tokens, canary["held"])
        windows["itl"] = Window(a, b, a_tokens, b_tokens) if told else Window(a, b)
        return windows


EQUAL = {"ttft": 0.159, "e2e": 0.192, "tpot": 0.0054, "itl": 0.0054, "held": 1.0}
DRAFTS = {"ttft": 0.037, "e2e": 0.072, "tpot": 0.0046, "itl": 0.0076, "held": 881 / 536}


def judged(make: MakeSketch, canary: dict[str, float], ticks: int = 120, seed: int = 1, **wanted: Any) -> Judge:
    plan = plan_of(RolloutCreate.model_validate({"pool": "p", "revision": 2, **wanted}))
    assert plan is not None
    judge, arms = Judge.start(plan, control="concurrent"), Arms(make, seed)
    past = [arms.tick(EQUAL) for _ in range(60)]
    judge.rehearse({metric: [windows[metric] for windows in past] for metric in judge.metrics})
    for _ in range(ticks):
        judge = Judge.model_validate_json(judge.model_dump_json())
        windows = arms.tick(canary)
        judge.feed({metric: windows[metric] for metric in judge.metrics})
    return judge


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [{}, STUDY], ids=["the default", "the study's own"])
def test_longer_gaps_that_hold_more_tokens_are_better_not_worse(
    make_sketch: MakeSketch, wanted: dict[str, Any]
) -> None:
    for seed in range(5):
        judge = judged(make_sketch, DRAFTS, seed=seed, **wanted)
        assert judge.verdict() is Verdict.BETTER, judge.evidence()


@pytest.mark.slow
def test_the_evidence_says_how_many_tokens_a_delivery_held(make_sketch: MakeSketch) -> None:
    itl = judged(make_sketch, DRAFTS).evidence()["metrics"]["itl"]
    assert itl["tokens_per_delivery"]["control"] == 1.0
    assert itl["tokens_per_delivery"]["canary"] == pytest.approx(881 / 536, rel=0.02)
    assert [level["q"] for level in itl["exceedances"]] == [0.99]


@pytest.mark.slow
def test_more_time_per_token_is_still_worse(make_sketch: MakeSketch) -> None:
    slower = {**EQUAL, "tpot": 0.0076, "itl": 0.0076, "e2e": 0.21}
    judge = judged(make_sketch, slower)
    assert judge.verdict() is Verdict.WORSE
    assert judge.evidence()["metrics"]["tpot"]["finding"] == "worse"


@pytest.mark.slow
def test_stalls_beyond_what_deliveries_hold_are_worse(make_sketch: MakeSketch) -> None:
    judge = judged(make_sketch, {**EQUAL, "itl": 0.0216, "held": 881 / 536}, ticks=240)
    assert judge.verdict() is Verdict.WORSE
    assert judge.evidence()["metrics"]["itl"]["finding"] == "worse"


def test_a_winner_that_is_slower_by_its_objective_is_worse(make_sketch: MakeSketch) -> None:
    assert judged(make_sketch, {**DRAFTS, "e2e": 0.35}, **STUDY).verdict() is Verdict.WORSE


@pytest.mark.slow
def test_a_winner_that_breaks_the_studys_limit_is_worse(make_sketch: MakeSketch) -> None:
    judge = judged(make_sketch, {**DRAFTS, "itl": 0.06}, ticks=240, **STUDY)
    assert judge.verdict() is Verdict.WORSE
    assert judge.evidence()["limits"][0]["finding"] == "broken"
