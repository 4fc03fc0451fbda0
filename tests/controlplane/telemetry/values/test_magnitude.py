"""What a value may be so that no number of them adds up to infinity."""

import math

import numpy as np
import pytest

from controlplane.telemetry.values.magnitude import LARGEST, all_that_fit, fits


@pytest.mark.parametrize(
    ("value", "fitting"),
    [
        (0.0, True),
        (-LARGEST, True),
        (LARGEST, True),
        (math.nextafter(LARGEST, math.inf), False),
        (1.7e308, False),
        (math.inf, False),
        (-math.inf, False),
        (math.nan, False),
    ],
)
def test_a_value_fits_alone_and_in_a_column(value: float, fitting: bool) -> None:
    assert fits(value) is fitting and all_that_fit(np.array([value])).tolist() == [fitting]


def test_more_of_them_than_any_store_holds_add_up_to_a_finite_number() -> None:
    assert math.isfinite(LARGEST * 2.0**128)
