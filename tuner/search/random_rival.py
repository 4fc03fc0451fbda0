"""What random search would have found in the time that a search took, by what is believed after all its runs. Pure.

It is what a study's gain has to be held against: where most configurations are better than the default, anything finds
one. Functions are drawn from the belief, and on each a search at random is played through: configurations in a random
order, each as long as a run and the change to it take, its figures with the noise of a run; the best of those that keep
the limits is its winner, and counts by its true figure. That it is told which truly keep the limits favours it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.search.belief import Models
from tuner.search.space import Space
from tuner.search.surrogate import Array

GAMES = 200
MOST_TRIALS = 60
"""Of one game: drawing takes the cube of it."""


@dataclass(frozen=True)
class RandomRival:
    """trials: in the middle of all games; improvement over the default: the mean, and between which values four of five
    games lie; own: the mean of the study's own winner, by the same belief; None: it has none."""

    trials: int
    improvement: float
    low: float
    high: float
    own: float | None = None


def random_rival(
    space: Space,
    models: Models,
    default: Mapping[str, Any],
    candidates: Sequence[Mapping[str, Any]],
    *,
    spent_s: float,
    run_s: float,
    change_s: Callable[[Mapping[str, Any], Mapping[str, Any]], float],
    worse_by: float = 0.0,
    winner: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> RandomRival | None:
    """spent_s: on the search, the default's run too; change_s: of going from one configuration to another; worse_by:
    than the default in any further objective, a log ratio; winner: of the search that it is held against. None where
    there is nothing to choose from.
    """
    others = [knobs for knobs in candidates if knobs != default]
    if not others:
        return None
    random = np.random.default_rng(seed)
    trials, gains = [], []
    for _ in range(GAMES):
        drawn = (others[place] for place in random.permutation(len(others))[:MOST_TRIALS])
        tried = [default, *_tried(default, drawn, spent_s - run_s, run_s, change_s)]
        trials.append(len(tried) - 1)
        gains.append(_gain(models, space.places(tried), random, worse_by))
    low, high = np.quantile(gains, (0.1, 0.9))
    own = None
    if winner is not None:
        places = space.places([default, winner])
        own = float(np.mean([_improvement(models.draw(places, random)[0], 1) for _ in range(GAMES)]))
    return RandomRival(int(np.median(trials)), float(np.mean(gains)), float(low), float(high), own)


def _tried(
    default: Mapping[str, Any],
    drawn: Iterable[Mapping[str, Any]],
    left_s: float,
    run_s: float,
    change_s: Callable[[Mapping[str, Any], Mapping[str, Any]], float],
) -> Iterator[Mapping[str, Any]]:
    """Of those drawn, as many as the time left is enough for."""
    before = default
    for knobs in drawn:
        left_s -= run_s + change_s(before, knobs)
        if left_s < 0.0:
            return
        yield knobs
        before = knobs


def _gain(models: Models, places: Array, random: np.random.Generator, worse_by: float) -> float:
    """The winner's improvement over the default, whose place is the first; 0 where nothing looked better."""
    values, keeps = models.draw(places, random, worse_by=worse_by)
    seen = values + models.objective.noise * random.standard_normal(len(places))
    keeps[0] = True  # What runs now is what is kept where nothing is better.
    return _improvement(values, int(np.where(keeps, seen, np.inf).argmin()))


def _improvement(values: Array, place: int) -> float:
    """Over the first; values: log ratios."""
    return 1.0 - float(np.exp(values[place] - values[0]))
