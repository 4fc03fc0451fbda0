"""The score of a drift, by its definition, and how often its interval holds."""

import numpy as np
import pytest

from controlplane.evidence.mix_drift import FEWEST_VALUES, shifts


def test_a_score_is_of_ranks_and_turns_with_its_sides() -> None:
    random = np.random.default_rng(1)
    then = {"prompts": random.lognormal(6, 1, 600).tolist()}
    now = {"prompts": random.lognormal(6.7, 1, 600).tolist()}
    found, back = shifts(then, now)["prompts"], shifts(now, then)["prompts"]
    assert found.score == pytest.approx(-back.score) and found.low < found.score < found.high
    above = np.sign(np.subtract.outer(now["prompts"], then["prompts"])).mean()
    assert found.score == pytest.approx(above), "by its definition"
    logs = {side: {"prompts": np.log(values["prompts"]).tolist()} for side, values in (("a", then), ("b", now))}
    assert shifts(logs["a"], logs["b"])["prompts"] == found, "whatever the unit"


@pytest.mark.slow
def test_the_interval_holds_what_it_says_for_values_that_come_in_runs() -> None:
    """Of 200 pairs of sides with autocorrelated values, whose true score is 0, at most 10 (of 95 %) lie beyond."""
    beyond = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        sides = []
        for _ in range(2):
            noise, level, values = random.standard_normal(600), 0.0, []
            for one in noise:
                level = 0.7 * level + float(one)
                values.append(level)
            sides.append({"prompts": values})
        found = shifts(*sides, seed=seed)["prompts"]
        beyond += not found.low <= 0 <= found.high
    assert beyond <= 20, beyond


def test_equal_values_are_alike_to_the_last() -> None:
    same = {"repeated": [0.0] * FEWEST_VALUES}
    found = shifts(same, same)["repeated"]
    assert (found.score, found.low, found.high, found.drifted) == (0.0, 0.0, 0.0, False)
