"""Waterfalls of several requests: one scale, no overlap, and words that say where the time went."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.drawing.waterfall import PARTS, Request, waterfalls
from web.frame.rendering import templates

parts = st.dictionaries(st.sampled_from(PARTS), st.floats(0, 1e3), max_size=len(PARTS))


@given(st.lists(parts, max_size=5), st.one_of(st.none(), parts))
def test_bars_follow_each_other_on_one_scale(of: list[dict[str, float]], usual: dict[str, float] | None) -> None:
    chart = waterfalls([Request(str(at), one) for at, one in enumerate(of)], usual)
    widths = set()
    for row, given_parts in zip(chart.rows, of, strict=True):
        assert [bar.part for bar in row.bars] == sorted((bar.part for bar in row.bars), key=PARTS.index)
        for before, after in pairwise(row.bars):
            assert after.share == pytest.approx(before.share + before.width)
        for bar in row.bars:
            assert 0 <= bar.share <= bar.share + bar.width <= 1 + 1e-9
            if given_parts.get(bar.part, 0) > 1e-9:
                widths.add(round(bar.width / given_parts[bar.part], 12))
        assert {bar.part for bar in row.bars} >= {part for part, value in given_parts.items() if value > 0}
    assert max(widths, default=1) == pytest.approx(min(widths, default=1), rel=1e-3)  # Length per second, everywhere.
    assert [chart.across[0].share, chart.across[-1].share] == [0, 1]


def test_what_is_next_to_nothing_has_a_scale_too() -> None:
    assert waterfalls([Request("a", {"queue": 5e-324})]).across[-1].share == 1


def test_a_request_says_its_largest_part_and_what_is_usual_of_it() -> None:
    usual = {"queue": 0.1, "decode": 1.0}
    row = waterfalls([Request("a", {"queue": 3.0, "decode": 1.0})], usual).rows[0]
    assert row.sentence == "4.00 s, mostly queue: 3.00 s (75 %), usually 100 ms."
    assert [bar.words for bar in row.bars] == ["queue 3.00 s, usually 100 ms", "decode 1.00 s, usually 1.00 s"]
    assert [bar.words for bar in row.usual] == ["queue 100 ms", "decode 1.00 s"]
    assert waterfalls([Request("a", {"queue": 3.0})]).rows[0].sentence == "3.00 s, mostly queue: 3.00 s (100 %)."


def test_what_was_not_told_is_not_drawn_and_said() -> None:
    told, nothing = waterfalls([Request("a", {"e2e": 2.0}), Request("b", {})]).rows
    assert told.bars == [] and told.sentence == "2.00 s; its parts were not told."
    assert nothing.bars == [] and nothing.sentence == "Its parts were not told."


def test_a_part_that_this_request_lacks_shows_what_is_usual_of_it() -> None:
    row = waterfalls([Request("a", {"decode": 1.0})], {"queue": 0.5}).rows[0]
    assert [(bar.part, bar.width, bar.ghost) for bar in row.bars] == [("queue", 0, 0.5), ("decode", 1, None)]


def test_the_markup_escapes_names_and_has_no_style_of_its_own() -> None:
    chart = waterfalls([Request('<b a="1">', {"queue": 1.0})], {"queue": 0.5})
    written: Any = templates.get_template("components/waterfall.html").module
    text = written.request_waterfall(chart, chart.rows[0]) + written.waterfall_row(chart.rows[0], chart)
    assert "<b a" not in text and "style=" not in text and "usually" in text.lower()
