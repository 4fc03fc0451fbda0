"""A share reads alike wherever it is told."""

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
