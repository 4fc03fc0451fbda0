"""The interval holds at every look, narrows with time, and counts dependence in."""

from typing import Any

import numpy as np
import pytest

from controlplane.contract.histogram import AXIS_LENGTH, axis_position
from controlplane.evidence.shifts.anytime_quantile import anytime_quantile, anytime_ratio
from controlplane.evidence.sketch import Sketch
from tests.soak import soak


def sketch_of(values: Any) -> Sketch:
    counts = np.bincount([axis_position(float(value)) for value in values], minlength=AXIS_LENGTH)
    return Sketch(counts, 0, float(values.sum()), float(values.min()), float(values.max()))


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("q", [0.5, 0.95, 0.99])
def test_the_interval_holds_at_all_looks_at_once(q: float) -> None:
    """25 or 100 series, each looked at 20 times; a rate of 5 % exceeds 4, or 11, with 1 %."""
    chance, wrong = np.random.default_rng(1), 0
    true = float(np.exp(-2.0 + 0.6 * {0.5: 0.0, 0.95: 1.644854, 0.99: 2.326348}[q]))
    for _ in range(soak(25, 100)):
        values = chance.lognormal(-2.0, 0.6, 4000)
        looks = [anytime_quantile(sketch_of(values[:upto]), q) for upto in range(200, 4001, 200)]
        wrong += any(look is not None and not look.low <= true <= look.high for look in looks)
    assert wrong <= soak(4, 11)


def test_more_requests_say_it_better_and_dependent_ones_less() -> None:
    values = np.random.default_rng(2).lognormal(-2.0, 0.6, 20_000)
    few, many = (anytime_quantile(sketch_of(values[:count]), 0.95) for count in (1000, 20_000))
    tempered = anytime_quantile(sketch_of(values), 0.95, phi=4.0)
    assert few is not None and many is not None and tempered is not None
    assert many.high - many.low < tempered.high - tempered.low < few.high - few.low


def test_the_factor_of_a_slowdown() -> None:
    chance = np.random.default_rng(3)
    before, during = chance.lognormal(-2.0, 0.6, 6000), 1.5 * chance.lognormal(-2.0, 0.6, 3000)
    found = anytime_ratio(sketch_of(before), sketch_of(during), 0.95)
    assert found is not None and 1.0 < found.low < 1.5 < found.high < 2.2


@pytest.mark.parametrize("count", [0, 1, 50])
def test_too_few_have_none(count: int) -> None:
    values = np.ones(count)
    sketch = sketch_of(values) if count else Sketch()
    assert anytime_quantile(sketch, 0.99) is None
    assert anytime_ratio(sketch, sketch, 0.99) is None
