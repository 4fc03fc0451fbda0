import math

import pytest

from benchmarks.vllm_measures.interval import Change, change
from benchmarks.vllm_measures.throughput import verdict


def test_equal_rounds_show_no_change() -> None:
    found = change([10.0, 20.0, 30.0], [10.0, 20.0, 30.0])

    assert (found.mean, found.low, found.high) == (0.0, 0.0, 0.0)


def test_a_loss_is_negative_and_paired_round_by_round() -> None:
    # Each round lost a tenth, however different the rounds were: no spread at all.
    found = change([9.0, 90.0, 0.9], [10.0, 100.0, 1.0])

    assert found.mean == pytest.approx(-0.1)
    assert found.high - found.low == pytest.approx(0.0, abs=1e-12)


def test_the_interval_is_students_on_logarithms() -> None:
    # Logarithms 0 and 0.2: mean 0.1, standard error 0.1, t(1) = 12.706.
    found = change([1.0, math.exp(0.2)], [1.0, 1.0])

    assert found.mean == pytest.approx(math.expm1(0.1))
    assert found.low == pytest.approx(math.expm1(0.1 - 1.2706))
    assert found.high == pytest.approx(math.expm1(0.1 + 1.2706))


def test_one_round_has_no_interval() -> None:
    found = change([99.0], [100.0])

    assert found.mean == pytest.approx(-0.01)
    assert found.high == math.inf
    assert found.told == "-1.00 %"


@pytest.mark.parametrize("rounds", [([], []), ([1.0], [1.0, 2.0])])
def test_rounds_that_cannot_be_paired_are_refused(rounds: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError, match="rounds against"):
        change(*rounds)


@pytest.mark.parametrize(
    ("low", "high", "begins"),
    [(-0.009, 0.02, "reached"), (-0.05, -0.011, "NOT reached"), (-0.02, 0.01, "not decided"), (-0.02, -0.009, "not")],
)
def test_a_loss_is_judged_by_its_whole_interval(low: float, high: float, begins: str) -> None:
    assert verdict(Change((low + high) / 2, low, high, 10)).startswith(begins)
