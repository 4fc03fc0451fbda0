"""The drop of log-probabilities: its bounds, and what an engine is asked."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from controlplane.contract.errors import Unavailable
from tests.tuner.search.asked_engine import asked_engine
from tuner.search.logprob_drop import DROP, LEVEL, LogprobDrop, bounds, passage_logprobs

Draw = Callable[[np.random.Generator, int], np.ndarray]
WORLDS: dict[str, Draw] = {
    "normal": lambda random, count: random.normal(0.0, 1.0, count),
    "skewed": lambda random, count: random.gamma(1.0, 1.0, count) - 1.0,
    "a few very wrong": lambda random, count: random.gamma(0.25, 1.0, count) - 0.25,
}
"""Drops of a passage, with mean 0."""


def test_of_what_is_not_skewed_the_bounds_are_students() -> None:
    values = np.array([-2.0, -1.0, 0.0, 1.0, 2.0] * 4)
    low, high = bounds(list(values))
    wanted = stats.t.interval(1 - 2 * LEVEL, len(values) - 1, loc=values.mean(), scale=stats.sem(values))
    assert (low, high) == pytest.approx(wanted)
    assert bounds([0.25] * 20) == (0.25, 0.25), "what is the same everywhere is known"


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_the_upper_bound_covers_a_long_tail(world: str) -> None:
    """5 % of them may lie below the truth; the limit is three standard deviations above."""
    random, rounds, passages = np.random.default_rng(5), 1500, 120
    draws = [WORLDS[world](random, passages) for _ in range(rounds)]
    missed = sum(bounds(list(own))[1] < 0.0 for own in draws) / rounds
    assert missed < 0.067
    t = float(stats.t.ppf(1 - LEVEL, passages - 1))
    students = sum(own.mean() + t * stats.sem(own) < 0.0 for own in draws) / rounds
    assert world == "normal" or missed < students, "what Student's bound alone misses is more"


def _drop(mean: float, random: np.random.Generator) -> LogprobDrop:
    drops = mean + 0.06 * (random.gamma(1.0, 1.0, 120) - 1.0)
    return LogprobDrop.between([0.0] * 120, list(-drops))


def test_what_drops_too_far_is_seldom_let_through_and_what_does_not_is_seldom_refused() -> None:
    random = np.random.default_rng(3)
    passed = [sum(_drop(mean, random).violation(0.05) <= 0 for _ in range(600)) for mean in (0.05, 0.03, 0.08)]
    assert passed[0] <= 30 + 3 * 30**0.5 and passed[1] > 510 and passed[2] == 0


def test_a_drop_is_told_with_its_bounds_and_held_to_the_upper_one() -> None:
    found = LogprobDrop.between([-1.0, -2.0], [-1.5, -2.5])
    assert found.told == {DROP: 0.5, f"{DROP}_low": 0.5, f"{DROP}_high": 0.5, "passages": 2.0}
    assert found.violation(0.05) == pytest.approx(9.0) and found.violation(1.0) == pytest.approx(-0.5)
    spread = LogprobDrop.between([-1.0] * 10, [-1.0, -1.2] * 5)
    assert spread.low < spread.mean == pytest.approx(0.1) and spread.high > spread.mean
    with pytest.raises(ValueError, match="zip"):
        LogprobDrop.between([-1.0], [-1.0, -2.0])


def test_an_engine_is_asked_for_the_prompts_own_log_probabilities() -> None:
    known = [None, {"8": {"logprob": -1.0}}, {"9": {"logprob": -3.0}, "1": {"logprob": -0.1}}]

    def choice(body: dict[str, Any]) -> dict[str, Any]:
        return {"text": "", "prompt_logprobs": known if body["prompt"] == [7, 8, 9] else None}

    with asked_engine(choice) as (url, asked):
        assert passage_logprobs(url, "m", [[7, 8, 9]]) == [-2.0], "the real token's, not the likeliest's"
        with pytest.raises(Unavailable, match="most_logprob_drop 0 does not ask"):
            passage_logprobs(url, "m", [[7, 8]])
    told = {"max_tokens": 1, "temperature": 0.0, "ignore_eos": True, "prompt_logprobs": 0}
    assert asked[0] == {"model": "m", "prompt": [7, 8, 9]} | told
