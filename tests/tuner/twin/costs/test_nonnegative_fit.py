"""The fit finds the costs behind noisy rows, none negative, and neither high nor low."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.twin.costs.nonnegative_fit import Row, fit
from tuner.twin.costs.step_terms import StepCost, Terms

TRUTH = StepCost((0.004, 5e-5, 2e-4, 0.0, 1e-6, 3e-8))


def rows(noise: float, count: int, seed: int) -> list[Row]:
    """Steps of decodes and of prompts, each with a relative error that is right on average."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        decodes, prompt = int(random.integers(0, 17)), int(random.choice([0, 0, 64, 256, 900]))
        context = float(decodes * random.integers(50, 900) + prompt)
        terms: Terms = (1.0, decodes + prompt, max(1, decodes), max(1, decodes), context, prompt * prompt / 2)
        factor = random.lognormal(-(noise**2) / 2, noise) if noise else 1.0
        found.append(Row(terms, TRUTH.seconds(terms) * float(factor)))
    return found


def test_without_noise_it_is_exact() -> None:
    exact = rows(0.0, 200, 1)
    found = fit(exact)
    assert found.median_error < 1e-6
    assert [found.cost.seconds(row.terms) for row in exact] == pytest.approx([row.seconds for row in exact], rel=1e-6)


def test_noise_makes_it_neither_high_nor_low() -> None:
    """Errors relative to what was observed would make it 20 % low here."""
    found = fit(rows(0.5, 4000, 2))
    clean = rows(0.0, 300, 3)
    ratio = sum(found.cost.seconds(row.terms) for row in clean) / sum(row.seconds for row in clean)
    assert ratio == pytest.approx(1.0, abs=0.05)


def test_where_a_slow_pace_comes_with_many_requests_they_are_not_what_is_dear() -> None:
    """Open traffic: where steps take twice as long, twice as many requests run at once."""
    random, found = np.random.default_rng(5), []
    for stretch in range(12):
        pace = float(np.exp(random.normal(0.0, 0.4)))
        for _ in range(6):
            decodes = max(1.0, 4.0 * pace * float(random.lognormal(0.0, 0.3)))
            terms: Terms = (1.0, decodes, 0.0, decodes, 300.0 * decodes, 0.0)
            found.append(Row(terms, pace * TRUTH.seconds(terms) * float(random.lognormal(0.0, 0.02)), stretch))
    seconds_of_a_step = fit(found).cost.seconds_each[0]
    blind = fit([Row(row.terms, row.seconds) for row in found]).cost.seconds_each[0]
    assert blind < 0.5 * TRUTH.seconds_each[0]
    assert seconds_of_a_step == pytest.approx(TRUTH.seconds_each[0], rel=0.2)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30), st.floats(0.0, 1.0))
def test_nothing_costs_less_than_nothing(seed: int, count: int, noise: float) -> None:
    found = fit(rows(noise, count, seed), draws=3, seed=seed)
    assert len(found.draws) == 3
    assert all(each >= 0.0 for cost in (found.cost, *found.draws) for each in cost.seconds_each)
