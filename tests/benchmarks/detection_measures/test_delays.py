"""Delays are told with how far they scatter."""

import math

import pytest

from benchmarks.detection_measures.delays import told

MISSED = math.inf


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([30.0, 10.0, 20.0, 50.0, 40.0], "30, 20 to 40"),
        ([10.0, 10.0, 900.0, 905.0], "900, 10 to 905"),
        ([MISSED, 15.0, 10.0, 20.0], "20, 15 to missed (1)"),
        ([MISSED, 15.0, MISSED], "missed, 15 to missed (2)"),
        ([25.0], "25, 25 to 25"),
    ],
)
def test_a_median_stands_with_its_quartiles(found: list[float], text: str) -> None:
    assert told(found) == text
