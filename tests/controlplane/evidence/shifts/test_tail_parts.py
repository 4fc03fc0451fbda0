"""Parts that add up to the tail's growth; a part that slows the tail alone is named, and its mean would hide it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.evidence.shifts.tail_parts import LEAST, Timed, tail_parts


def requests(seed: int, count: int, queue: float = 1.0, prefill: float = 1.0, slow_share: float = 0.0) -> Timed:
    """Queue, prefill, and a little that nobody tells; a share of the requests waits three seconds more in the queue."""
    chance = np.random.default_rng(seed)
    waits = 0.05 * queue * chance.lognormal(0.0, 0.5, count) + 3.0 * (chance.random(count) < slow_share)
    works = 0.2 * prefill * chance.lognormal(0.0, 0.5, count)
    return Timed(waits + works + 0.001, np.stack([waits, works], axis=1))


@settings(max_examples=20, deadline=None)
@given(
    count=st.integers(LEAST, 2000),
    queue=st.floats(0.1, 9.0),
    prefill=st.floats(0.1, 9.0),
    q=st.sampled_from([0.5, 0.9, 0.99]),
)
def test_parts_add_up_to_the_growth_of_the_tail(count: int, queue: float, prefill: float, q: float) -> None:
    found = tail_parts(requests(1, count), requests(2, count, queue, prefill), q)
    assert found is not None
    assert sum(part.grown.value for part in found.parts) == pytest.approx(found.grown, abs=1e-9)
    assert found.q <= q and (1.0 - found.q) * count >= 19.0


def test_the_part_that_the_tail_waited_for_is_named() -> None:
    """2 % of the requests wait: the mean of prefill grew by more than that of the queue, the tail's did not."""
    before, during = requests(1, 6000), requests(2, 6000, prefill=1.5, slow_share=0.02)
    means = during.parts.mean(axis=0) - before.parts.mean(axis=0)
    assert means[1] > means[0]
    found = tail_parts(before, during, 0.99)
    assert found is not None
    queue, prefill, left = found.parts
    assert queue.grown.low > 0.9 * found.grown and abs(prefill.grown.value) < 0.2 * found.grown
    assert left.grown.value == pytest.approx(0.0, abs=1e-9)


@pytest.mark.slow
def test_nothing_planted_has_intervals_that_hold_zero() -> None:
    """Of 60 pairs, a rate of 5 % exceeds 7 with 1 %."""
    wrong = 0
    for seed in range(60):
        found = tail_parts(requests(seed, 2000), requests(1000 + seed, 600), 0.95, seed)
        assert found is not None
        told = found.parts[:2]
        wrong += any(part.grown.low > 0.0 or part.grown.high < 0.0 for part in told)
    assert wrong <= 7


@pytest.mark.parametrize("few", [0, LEAST - 1])
def test_too_few_requests_have_no_tail(few: int) -> None:
    many: Any = requests(1, 500)
    assert tail_parts(many, requests(2, few), 0.9) is None
