"""An interval over time stays within its drawing, whatever was known, and says how it closed."""

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from web.drawing.closing_band import Known, closing_band
from web.drawing.line_chart import HEIGHT, WIDTH

ends = st.tuples(st.floats(0.05, 20), st.floats(0.05, 20), st.floats(0.05, 20)).map(sorted)


@given(st.lists(ends, min_size=1, max_size=20), st.floats(1.0, 2.0), st.booleans())
def test_all_of_it_is_within_the_drawing(found: list[list[float]], bound: float, first_open: bool) -> None:
    known = [Known(5.0 * place, ratio, low, high) for place, (low, ratio, high) in enumerate(found)]
    if first_open:
        known[0] = Known(0.0, known[0].ratio, 0.0, math.inf)
    chart = closing_band(known, bound)
    for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", chart.line + " " + chart.band):
        assert 0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT
    assert all(0 <= one.share <= 1 for one in chart.bounds)
    assert len(chart.rows["rows"]) == len(known)


def test_it_says_how_it_closed() -> None:
    wide, narrow = Known(0.0, 1.1, 0.8, 1.4), Known(60.0, 1.02, 0.98, 1.06)
    said = "The interval closed from 60 % to 8 % wide; the ratio is 1.02×."
    assert closing_band([wide, narrow], 1.1).sentence == said
    still_open = Known(60.0, 1.1, 0.0, 1.4)
    assert closing_band([still_open], 1.1).sentence == "The interval is still open; the ratio is 1.1×."
    assert closing_band([], 1.1).sentence == "Nothing is known yet."
