"""A study's winner is judged by its objective: at its quantile, and for being faster beside it."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.judge import Judge
from controlplane.rollouts.judging.judging_plan import plan_of
from tests.soak import soak

Floats = NDArray[np.float64]
MakeSketch = Callable[..., Sketch]
HISTORY, TICKS, REQUESTS = 36, 60, 9.0


def equal(z: Floats) -> Floats:
    return np.ones_like(z)


def faster_below(z: Floats) -> Floats:
    return np.where(z < 0.4, 0.6, 1.0)


def said(make: MakeSketch, seed: int, slower: Callable[[Floats], Floats], *, alpha: float = 0.01) -> tuple[str, int]:
    """The verdict, "" for none, and after how many ticks. slower: by what the canary's requests take longer, of their
    places in a wide lognormal, as of prompts of very different lengths, with a load common to both arms."""
    rng, level = np.random.default_rng(seed), 0.0
    spec = RolloutCreate(pool="p", revision=2, objective="ttft", objective_q=0.5, tolerance=0.2, alpha=alpha)
    plan = plan_of(spec)
    assert plan is not None
    judge = Judge.start(plan, control="concurrent")

    def arm(of: Callable[[Floats], Floats]) -> dict[str, Sketch]:
        z = rng.normal(size=rng.poisson(REQUESTS))
        return {"<=512": make(0.06 * np.exp(0.8 * z + level) * of(z))}

    def window(of: Callable[[Floats], Floats]) -> Window:
        nonlocal level
        level = 0.9 * level + rng.normal() * 0.03
        return Window(arm(equal), arm(of))

    judge.rehearse({"ttft": [window(equal) for _ in range(HISTORY)]})
    for tick in range(1, TICKS + 1):
        judge.feed({"ttft": window(slower)})
        judge.look()
        if (found := judge.verdict()) is not None:
            return found.value, tick
    return "", TICKS


def test_one_that_is_faster_below_its_median_is_better_soon(make_sketch: MakeSketch) -> None:
    found = [said(make_sketch, seed, faster_below) for seed in range(10)]
    assert [verdict for verdict, _ in found] == ["better"] * 10
    assert float(np.median([ticks for _, ticks in found])) <= 24


@pytest.mark.soak
def test_equal_canaries_are_hardly_ever_called_better_or_worse(make_sketch: MakeSketch) -> None:
    verdicts = [said(make_sketch, seed, equal, alpha=0.1)[0] for seed in range(soak(10, 40))]
    assert "better" not in verdicts and "worse" not in verdicts


@pytest.mark.parametrize("upper", [1.5, 2.0])
def test_a_gain_below_the_median_hides_no_loss_at_it(make_sketch: MakeSketch, upper: float) -> None:
    # A third of the requests are twice as fast; the median and what is above it are slower beyond the tolerance.
    def mixed(z: Floats) -> Floats:
        return np.where(z < -0.5, 0.5, upper)

    z = np.random.default_rng(0).normal(size=100_000)
    control = np.exp(0.8 * z)
    canary = control * mixed(z)
    assert np.quantile(canary, 0.25) < 0.6 * np.quantile(control, 0.25)
    assert np.median(canary) > 1.2 * np.median(control)
    verdicts = [said(make_sketch, seed, mixed)[0] for seed in range(10)]
    assert not {"better", "not_worse"} & set(verdicts)
    assert "worse" in verdicts


def test_the_evidence_says_what_counts_where(make_sketch: MakeSketch) -> None:
    plan = plan_of(RolloutCreate(pool="p", revision=2, objective="e2e", objective_q=0.95, tolerance=0.2))
    assert plan is not None
    judge = Judge.start(plan, control="concurrent")
    rng = np.random.default_rng(4)
    for _ in range(20):
        judge.feed(
            {"e2e": Window({"": make_sketch(rng.exponential(size=20))}, {"": make_sketch(rng.exponential(size=20))})}
        )
    levels = judge.evidence()["metrics"]["e2e"]["exceedances"]
    assert [(level["q"], sorted(level["log_e"])) for level in levels] == [
        (0.8636, ["faster"]),
        (0.95, ["faster", "not_worse", "worse"]),
        (0.9828, ["faster"]),
    ]
