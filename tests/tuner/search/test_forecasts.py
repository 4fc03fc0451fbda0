"""A search that is told forecasts begins where they point to, believes them as far as runs bear them out, and forgets
those that runs do not."""

import math
from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.knobs import EngineConfig, canonical_json
from controlplane.contract.planning.trial_leases import ForecastAhead
from tuner.search.forecasts import FEWEST, Forecasts, Guided
from tuner.search.objective import Assessment
from tuner.search.search import Candidate, Search
from tuner.search.space import Capabilities, Space, build_space
from tuner.search.surrogate import Surrogate
from tuner.search.well_spread import well_spread

E2E, TPOT = "e2e:0.5", "tpot:0.95"
DEFAULT = EngineConfig(max_num_batched_tokens=32, max_num_seqs=32).knobs()
SPACE: Space = build_space({}, DEFAULT, Capabilities(quantization=("none",)))


def truth(knobs: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds end to end, and between tokens: small budgets make requests wait, large ones stall decoding."""
    tokens, drafts = knobs["max_num_batched_tokens"], knobs["num_speculative_tokens"]
    piece = min(knobs["prefill_chunk_size"] or tokens, tokens)
    return 0.2 + 40.0 / tokens + 0.02 * abs(drafts - 2), 0.01 + 0.00005 * piece


def told(sign: float = 1.0, most: int = 40) -> list[ForecastAhead]:
    """What is true, or the contrary of it, of a few."""
    base = np.log(truth(DEFAULT))
    asked = [DEFAULT, *well_spread(SPACE, DEFAULT, most)]
    return [
        ForecastAhead(knobs=knobs, ratios=dict(zip((E2E, TPOT), sign * (np.log(truth(knobs)) - base), strict=True)))
        for knobs in asked
    ]


def measured(knobs: Mapping[str, Any], noise: np.random.Generator) -> Assessment:
    factor = math.exp(0.05 * noise.standard_normal())
    e2e, tpot = truth(knobs)
    return Assessment(e2e * factor, {TPOT: tpot * factor / 0.02 - 1.0})


def chosen(forecasts: Forecasts | None, trials: int, seed: int = 0) -> tuple[list[dict[str, Any]], float]:
    """What was measured, and how far the choice is from the best that keeps the limit (log ratio)."""
    search = Search(
        SPACE, DEFAULT, constraints=[TPOT], seed=seed, max_trials=trials, forecasts=forecasts, objective=E2E
    )
    noise, ran = np.random.default_rng(seed), list[dict[str, Any]]()
    while (candidate := search.ask()) is not None:
        ran.append(candidate.knobs)
        search.tell(candidate, measured(candidate.knobs, noise))
    best = search.best()
    assert best is not None
    kept = [truth(knobs)[0] for knobs in search._candidates if truth(knobs)[1] <= 0.02]
    e2e, tpot = truth(best.knobs)
    return ran, math.log((e2e if tpot <= 0.02 else truth(DEFAULT)[0]) / min(kept))


def test_the_first_trial_after_the_default_is_where_forecasts_point_to() -> None:
    ran, regret = chosen(Forecasts(SPACE, told()), 2)
    assert ran[0] == DEFAULT and truth(ran[1])[1] <= 0.02, "it keeps the limit"
    assert regret < 0.1
    assert len(ran) == len({canonical_json(knobs) for knobs in ran})


def test_forecasts_that_hold_find_more_and_wrong_ones_cost_little() -> None:
    right, wrong, none = (
        np.mean([chosen(forecasts, 5, seed)[1] for seed in range(4)])
        for forecasts in (Forecasts(SPACE, told()), Forecasts(SPACE, told(-1.0)), None)
    )
    assert right < none and right < 0.06
    late = np.mean([chosen(Forecasts(SPACE, told(-1.0)), 12, seed)[1] for seed in range(4)])
    assert late < 0.1 and late < wrong + 1e-9, "runs outweigh them"


def test_what_nothing_is_forecast_of_is_believed_as_ever() -> None:
    few = Forecasts(SPACE, told(most=FEWEST - 2))
    assert E2E not in few and "ttft:0.95" not in Forecasts(SPACE, told())
    assert chosen(few, 6) == chosen(None, 6)


def test_a_limit_that_none_keeps_points_to_the_nearest() -> None:
    forecasts, candidates = Forecasts(SPACE, told()), SPACE.configurations(Random(0))
    far = Assessment(truth(DEFAULT)[0], {TPOT: 40.0})
    found = forecasts.best(SPACE, candidates, DEFAULT, far, E2E)
    assert found is not None
    assert truth(found)[1] == pytest.approx(min(truth(knobs)[1] for knobs in candidates), rel=0.05)
    assert forecasts.best(SPACE, candidates, DEFAULT, far, "goodput") is None, "of that nothing is forecast"
    assert forecasts.best(SPACE, [], DEFAULT, far, E2E) is None


@settings(max_examples=25, deadline=None)
@given(st.floats(-2.0, 2.0), st.integers(0, 50))
def test_a_constant_added_to_all_forecasts_changes_nothing(added: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    places = SPACE.places([one.knobs for one in told()])
    values = random.standard_normal(6) * 0.3
    more = [one.model_copy(update={"ratios": {name: v + added for name, v in one.ratios.items()}}) for one in told()]
    both = [
        Guided(places[:6], values, partial(Forecasts(SPACE, ahead).at, E2E), noise=0.08, ordered=SPACE.ordered).at(
            places
        )
        for ahead in (told(), more)
    ]
    assert both[0].mean == pytest.approx(both[1].mean, abs=1e-6)
    assert both[0].sd == pytest.approx(both[1].sd, rel=1e-4)


def test_forecasts_that_say_that_all_is_alike_are_none() -> None:
    flat = [ForecastAhead(knobs=one.knobs, ratios={E2E: 0.0}) for one in told()]
    places = SPACE.places([one.knobs for one in flat])
    values = np.linspace(-0.5, 0.5, 6)
    guided = Guided(places[:6], values, partial(Forecasts(SPACE, flat).at, E2E), noise=0.08, ordered=SPACE.ordered)
    plain = Surrogate(places[:6], values, noise=0.08, ordered=SPACE.ordered)
    assert guided.at(places).mean == pytest.approx(plain.at(places).mean, abs=1e-6)
    assert guided.noise == pytest.approx(plain.noise)


def test_functions_drawn_lie_about_what_is_believed() -> None:
    ahead = told()
    places = SPACE.places([one.knobs for one in ahead])
    values = np.array([one.ratios[E2E] for one in ahead[:6]])
    guided = Guided(places[:6], values, partial(Forecasts(SPACE, ahead).at, E2E), noise=0.05, ordered=SPACE.ordered)
    random = np.random.default_rng(1)
    drawn = np.array([guided.draw(places[:12], random) for _ in range(400)])
    believed = guided.at(places[:12])
    assert drawn.mean(axis=0) == pytest.approx(believed.mean, abs=0.08)
    assert drawn.std(axis=0) == pytest.approx(believed.sd, rel=0.4, abs=0.03)


def test_who_has_measured_it_already_is_not_sent_there_again() -> None:
    forecasts = Forecasts(SPACE, told())
    search = Search(SPACE, DEFAULT, constraints=[TPOT], seed=0, max_trials=4, forecasts=forecasts, objective=E2E)
    noise = np.random.default_rng(0)
    search.tell(Candidate(0, DEFAULT), measured(DEFAULT, noise))
    first = search.ask()
    assert first is not None
    search.tell(first, measured(first.knobs, noise))
    second = search.ask()
    assert second is not None and second.knobs != first.knobs


def test_what_somebody_suggests_is_measured_before() -> None:
    own = SPACE.complete(SPACE.chosen(DEFAULT) | {"max_num_batched_tokens": 2048})
    search = Search(
        SPACE,
        DEFAULT,
        constraints=[TPOT],
        suggested=[own],
        forecasts=Forecasts(SPACE, told()),
        objective=E2E,
    )
    search.tell(Candidate(0, DEFAULT), measured(DEFAULT, np.random.default_rng(0)))
    first = search.ask()
    assert first is not None and first.knobs == own
