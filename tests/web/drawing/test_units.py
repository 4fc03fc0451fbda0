"""Values of a chart in words, each unit in its own."""

import pytest

from web.drawing.trends import sentence
from web.drawing.units import COUNT, PER_SECOND, SECONDS, SHARE, Unit


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [
        (SECONDS, 0.25, "250 ms"),
        (SHARE, 0.0, "0 %"),
        (SHARE, 0.004, "0.4 %"),
        (SHARE, 0.256, "26 %"),
        (COUNT, 1234.6, "1,235"),
        (COUNT, 2.0, "2"),
        (COUNT, 2.125, "2.12"),
        (PER_SECOND, 12.34, "12.3 /s"),
        (PER_SECOND, None, "–"),
        (SHARE, None, "–"),
    ],
)
def test_a_value_is_written_in_its_unit(unit: Unit, value: float | None, words: str) -> None:
    assert unit.words(value) == words


def test_what_rose_from_nothing_is_told_without_a_share() -> None:
    points = [(float(time), 0.0 if time < 5 else 0.05) for time in range(9)]
    assert sentence("failed", points, SHARE) == "failed rose from 0 % to 5.0 %."
