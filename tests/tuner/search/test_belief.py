"""What is believed of configurations: limits by the expected figure, crashes beside what crashed."""

from typing import Any

import numpy as np
import pytest

from controlplane.contract.knobs import EngineConfig
from tuner.search.belief import Belief, believe
from tuner.search.objective import Assessment, crashed
from tuner.search.space import Capabilities, build_space
from tuner.search.surrogate import Posterior

DEFAULT = EngineConfig(max_num_batched_tokens=64).knobs()
SPACE = build_space({}, DEFAULT, Capabilities(quantization=("none", "int8")))
LIMIT = "itl:0.99"


def tokens(count: int) -> dict[str, Any]:
    return DEFAULT | {"max_num_batched_tokens": count}


def run(objective_s: float, excess: float) -> Assessment:
    return Assessment(objective_s, {LIMIT: excess})


def test_one_run_within_a_limit_is_outweighed_by_two_beyond() -> None:
    runs = [(tokens(64), run(1.0, -0.5)), *((tokens(512), run(0.5, excess)) for excess in (-0.02, 0.2, 0.25))]
    belief = believe(SPACE, runs, [tokens(64), tokens(512)], [LIMIT], 1.0)
    assert belief is not None
    assert belief.feasible[0] > 0.9 > 0.2 > belief.feasible[1]


def test_what_lies_beside_a_crash_is_doubted_and_far_from_it_less() -> None:
    runs = [(tokens(64), run(1.0, -0.5)), (tokens(128), run(0.9, -0.5)), (tokens(2048), crashed())]
    belief = believe(SPACE, runs, [tokens(96), tokens(1536), tokens(2048)], [LIMIT], 1.0)
    assert belief is not None
    near, beside, there = belief.feasible
    assert near > 0.8 and near > beside > there and there < 0.3


def test_nothing_is_believed_before_anything_was_measured() -> None:
    assert believe(SPACE, [(tokens(64), crashed())], [tokens(128)], [LIMIT], None) is None


@pytest.mark.parametrize(
    ("means", "feasible", "chosen"),
    [
        ([0.0, -0.70, -0.65], [0.01, 0.55, 0.99], 2),  # A little slower, and the limits are kept.
        ([0.0, -0.70, -0.10], [0.01, 0.55, 0.99], 1),  # What is sure is hardly better than what runs now.
        ([0.0, 0.50, 0.90], [0.01, 0.90, 0.99], 1),  # All that keeps the limits is slower than what breaks them.
        ([0.0, 0.00, 0.00], [1e-9, 1e-9, 1e-6], 2),  # Nothing keeps them: the likeliest to.
        ([0.0, -0.03, -0.01], [1.0, 0.50, 1.0], 2),  # A small gain is no reason to break a limit.
    ],
)
def test_what_is_worth_most_is_fast_and_keeps_the_limits(
    means: list[float], feasible: list[float], chosen: int
) -> None:
    """The first is what runs now."""
    objective = Posterior(np.array(means), np.full(len(means), 0.05), 0.08)
    assert Belief(objective, np.log(feasible)).log_worth.argmax() == chosen


@pytest.mark.parametrize(
    ("means", "others", "feasible", "offered"),
    [
        ([0.0, -0.3], [0.0, -0.3], [1.0, 1.0], [False, True]),  # Beaten in both, and for certain.
        ([0.0, -0.3], [0.0, 0.3], [1.0, 1.0], [True, True]),
        ([0.0, -0.02], [0.0, -0.02], [1.0, 1.0], [True, True]),  # Within the noise of a run nobody knows.
        ([0.0, -0.3], [0.0, -0.3], [1.0, 0.5], [True, True]),  # What may break a limit takes nothing away.
        ([0.0, -0.3], [0.0, -0.3], [1.0, 0.4], [True, False]),
    ],
)
def test_of_a_front_all_is_offered_that_nothing_likely_beats(
    means: list[float], others: list[float], feasible: list[float], offered: list[bool]
) -> None:
    objective, other = (Posterior(np.array(one), np.full(2, 0.05), 0.08) for one in (means, others))
    assert Belief(objective, np.log(feasible), [other]).offered.tolist() == offered
