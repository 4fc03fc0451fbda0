"""A search that is told forecasts after its first trials: what it makes of right ones, of none, and of wrong ones."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from benchmarks.tuner_measures.from_forecasts.surface_forecasts import NAMES
from benchmarks.tuner_measures.from_trials.told_search import (
    AFTER,
    LEAST_OFF,
    SIDES,
    Told,
    ToldSearch,
    dealt_anew,
    told_by,
)
from benchmarks.tuner_measures.known_surfaces import Surface
from benchmarks.tuner_measures.measured_surface import full_weights
from benchmarks.tuner_measures.search_rivals import constraints_of, make_search, played, product
from controlplane.contract.knobs import canonical_json
from tuner.search.belief import TOLD_NOISE
from tuner.search.search import Outcome
from tuner.search.surrogate import Surrogate

SEEDS = (1, 2, 3)


def quiet(seed: int) -> Surface:
    """One whose runs measure the truth."""
    surface = full_weights(seed)
    return replace(surface, runs=np.zeros((1, len(NAMES))))


def truth(surface: Surface, seed: int, outcomes: Sequence[Outcome]) -> Told:
    """Seconds for a multiple of a limit: by how much forecasts are off besides is learnt."""
    return {
        key: [math.log(one.objective) + 3.0, *(math.log(one.limits[name]) - 2.0 for name in NAMES[1:])]
        for key, one in surface.seen.items()
    }


def nothing(surface: Surface, seed: int, outcomes: Sequence[Outcome]) -> Told:
    """The same of each."""
    return {key: [0.7, -0.3, 0.2] for key in surface.seen}


def measured(player: Any, surface: Surface, seed: int, trials: int) -> list[str]:
    """What a player measures, in order."""
    asked: list[str] = []

    class Watched(type(surface)):  # type: ignore[misc]
        def measure(self, knobs: Any, *more: Any, **named: Any) -> Any:
            asked.append(canonical_json(knobs))
            return super().measure(knobs, *more, **named)

    watched = Watched(**{name: getattr(surface, name) for name in surface.__dataclass_fields__})
    list(islice(player(watched, seed), trials))
    return asked


@pytest.mark.parametrize("seed", SEEDS)
def test_until_it_is_told_it_is_the_studys_search_and_it_is_told_once(seed: int) -> None:
    heard: list[tuple[int, list[str]]] = []

    def teller(surface: Surface, own: int, outcomes: Sequence[Outcome]) -> Told:
        heard.append((own, [canonical_json(one.knobs) for one in outcomes]))
        return truth(surface, own, outcomes)

    surface = full_weights(seed)
    own = measured(told_by(teller, points=1, prior=True, leaves_out=True), surface, seed, AFTER + 3)
    assert own[:AFTER] == measured(product, surface, seed, AFTER)
    assert heard == [(seed, own[:AFTER])]


@pytest.mark.parametrize("seed", SEEDS)
def test_by_right_forecasts_the_fifth_is_the_best_that_was_not_measured(seed: int) -> None:
    surface = quiet(seed)
    own = measured(told_by(truth, points=1), surface, seed, AFTER + 1)
    left = {key: one for key, one in surface.seen.items() if key not in own[:AFTER] and one.feasible}
    assert own[AFTER] == min(left, key=lambda key: left[key].objective)


@pytest.mark.parametrize("seed", SEEDS)
def test_where_none_would_keep_the_limits_the_fifth_is_the_nearest(seed: int) -> None:
    strict = quiet(seed)
    table = {
        key: replace(one, limits={name: 50.0 * value for name, value in one.limits.items()})
        for key, one in strict.seen.items()
    }
    surface = replace(strict, seen=table, fresh=table)
    own = measured(told_by(truth, points=1), surface, seed, AFTER + 1)
    left = {key: max(one.limits.values()) for key, one in table.items() if key not in own[:AFTER]}
    assert left[own[AFTER]] == pytest.approx(min(left.values()))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_forecast_to_break_a_limit_is_left_out(seed: int) -> None:
    surface, bound = quiet(seed), math.exp(SIDES * LEAST_OFF) * (1 + 1e-9)
    own = measured(told_by(truth, leaves_out=True), surface, seed, 14)
    assert all(max(surface.seen[key].limits.values()) <= bound for key in own[AFTER:])


def test_without_being_told_some_of_that_is_measured() -> None:
    bound = math.exp(SIDES * LEAST_OFF)
    over = [
        key
        for seed in SEEDS
        for key in measured(product, quiet(seed), seed, 14)[AFTER:]
        if max(quiet(seed).seen[key].limits.values()) > bound
    ]
    assert over


@pytest.mark.parametrize("seed", SEEDS)
def test_forecasts_that_tell_all_alike_change_no_choice(seed: int) -> None:
    surface = full_weights(seed)
    assert measured(told_by(nothing, prior=True), surface, seed, 12) == measured(product, surface, seed, 12)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_prior_mean_that_is_right_leaves_less_to_learn_and_its_level_tells_nothing(seed: int) -> None:
    surface = quiet(seed)
    search = ToldSearch(
        surface.space, surface.default, constraints=constraints_of(surface.limits), seed=seed, max_trials=40
    )
    list(islice(played(search, surface, seed), 6))
    told, runs = truth(surface, seed, []), [(one.knobs, one.assessment) for one in search.outcomes]
    values = [told[canonical_json(knobs)][0] for knobs, _ in runs]
    asked = search._candidates
    real = np.array([told[canonical_json(knobs)][0] for knobs in asked])
    places = surface.space.places([knobs for knobs, _ in runs])
    plain = Surrogate(places, np.array(values), noise=TOLD_NOISE, ordered=surface.space.ordered)
    alone = plain.at(surface.space.places(asked))

    def mixed(level: float, slope: float) -> Any:
        search.told = {key: [level + slope * one[0], *one[1:]] for key, one in told.items()}
        return search._mixed(runs, values, asked, 0)

    right, raised, flat = mixed(0.0, 1.0), mixed(5.0, 1.0), mixed(5.0, 0.0)
    assert np.abs(right.mean - real).mean() < 0.8 * np.abs(alone.mean - real).mean()
    np.testing.assert_allclose(raised.mean, right.mean, atol=1e-6)
    np.testing.assert_allclose(flat.mean, alone.mean, atol=1e-6)
    np.testing.assert_allclose(flat.sd, alone.sd, atol=1e-6)
    assert right.noise > 0 and (right.sd > 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_forecasts_dealt_anew_are_the_same_ones_and_those_of_the_trials_their_own(seed: int) -> None:
    surface = quiet(seed)
    search = make_search(surface, seed)
    list(islice(played(search, surface, seed), AFTER))
    ran = {canonical_json(one.knobs) for one in search.outcomes}
    before, after = truth(surface, seed, []), dealt_anew(truth)(surface, seed, search.outcomes)
    assert after.keys() == before.keys() and all(after[key] == before[key] for key in ran)
    assert sorted(map(tuple, after.values())) == sorted(map(tuple, before.values()))
    moved = sum(after[key] != before[key] for key in before)
    assert moved > 0.9 * (len(before) - len(ran))
