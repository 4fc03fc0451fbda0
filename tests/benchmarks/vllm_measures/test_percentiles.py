import math

import pytest

from benchmarks.vllm_measures.percentiles import QUANTILES, REQUESTS, error


@pytest.mark.parametrize(
    ("told", "exact", "expected"), [(1.02, 1.0, 0.02), (0.98, 1.0, 0.02), (0.0, 0.0, 0.0), (1.0, 0.0, math.inf)]
)
def test_errors_are_relative_to_the_exact_value(told: float, exact: float, expected: float) -> None:
    assert error(told, exact) == pytest.approx(expected)


def test_an_answer_that_is_missing_is_no_agreement() -> None:
    assert math.isnan(error(math.nan, 1.0))


@pytest.mark.parametrize("count", REQUESTS)
def test_burst_sizes_leave_no_room_for_definitions_of_a_quantile(count: int) -> None:
    for q in QUANTILES:
        assert (100 * q * (count - 1)) % 100 == 0
