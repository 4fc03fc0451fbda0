"""Whole studies by a study's own finish."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from benchmarks.tuner_measures.known_surfaces import flat
from benchmarks.tuner_measures.measured_surface import LIMITS
from benchmarks.tuner_measures.whole_studies import EQUALS, WORLDS, Ended, _spec, decided, study
from tuner.search.objective import Assessment, crashed
from tuner.search.search import Outcome

FINALISTS = [Outcome(arm, {"arm": arm}, Assessment(1.0, {}), gain=0.2, feasible=0.9) for arm in (1, 2)]
Figures = dict[int, tuple[float, float]]


def ended(figures: Figures, *, crashes: bool = False) -> Ended:
    """By figures without noise: the objective, and the figure over the limit in all runs but the first four."""
    runs = 0

    def measure(knobs: Mapping[str, Any]) -> Assessment:
        nonlocal runs
        runs += 1
        took, over = figures[knobs["arm"]]
        jitter = 1.0 + 0.01 * (runs % 3)
        held = 0.5 if runs <= 4 else over
        return crashed() if crashes and runs > 6 else Assessment(took * jitter, {LIMITS[0]: held * jitter - 1.0})

    return decided(FINALISTS, {"arm": 0}, measure, _spec(LIMITS[:1]))


def test_the_next_finalist_is_proven_where_a_limit_was_in_the_way() -> None:
    told = ended({0: (2.0, 0.5), 1: (1.0, 1.5), 2: (1.05, 0.5)})
    assert told.better == {"arm": 2} and told.runs == 4 + 6 + 6


@pytest.mark.parametrize(
    "figures", [{0: (1.0, 0.5), 1: (1.0, 0.5), 2: (1.0, 0.5)}, {0: (2.0, 0.5), 1: (1.0, 1.5), 2: (1.0, 1.5)}]
)
def test_what_is_no_faster_or_breaks_a_limit_is_not_better(figures: Figures) -> None:
    assert ended(figures).better is None


def test_what_cannot_be_measured_again_is_not_better() -> None:
    told = ended({0: (2.0, 0.5), 1: (1.0, 0.5), 2: (1.2, 0.5)}, crashes=True)
    assert told == Ended(None, 7)


def test_a_whole_study_finds_what_is_far_better() -> None:
    surface = flat(gain=0.5)
    better, winner, runs = study(surface, seed=0, trials=6)
    assert better and winner != surface.default and 6 < runs < 6 + 6 + 24


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", EQUALS)
def test_one_of_the_equal_is_as_fast_as_the_default(world: str, name: str) -> None:
    """Else calling it better would be no error."""
    figures = EQUALS[name]
    surface, noise = WORLDS[world](figures), np.random.default_rng(0)
    logs = {arm: [surface.measure({"arm": arm}, noise).objective_s or 0.0 for _ in range(400)] for arm in (0, 3)}
    assert figures[0][0] == figures[3][0] == 1.0
    assert np.median(logs[0]) == pytest.approx(np.median(logs[3]), rel=0.05)
