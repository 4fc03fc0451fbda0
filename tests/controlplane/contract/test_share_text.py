"""A share reads alike wherever it is told."""

import math

from controlplane.contract.share_text import share_text
from web.frame.format import percent


def test_a_share_is_in_hundredths_with_a_space() -> None:
    assert [share_text(0.964), share_text(0.0), share_text(1.5), share_text(0.0123, 1)] == [
        "96 %",
        "0 %",
        "150 %",
        "1.2 %",
    ]
    assert percent(0.964) == share_text(0.964) and percent(None) == "–"


def test_what_nobody_would_read_to_the_digit_is_not_told_so() -> None:
    assert share_text(100.0) == "10000 %" and share_text(-1.5, 1) == "-150.0 %"
    assert share_text(100.1) == share_text(math.inf, 1) == "over 10,000 %"
    assert share_text(-1886969.899, 1) == "under -10,000 %"


def test_nothing_has_no_sign() -> None:
    assert share_text(-0.004) == share_text(0.004) == "0 %"
    assert share_text(-0.004, 1) == "-0.4 %"
