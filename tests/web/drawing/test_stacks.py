"""Stacks against each other: what differs is told part by part, largest first, as long as it is drawn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.drawing.stacks import stacked_bars
from web.drawing.waterfall import PARTS, Request
from web.frame.rendering import templates

parts = st.dictionaries(st.sampled_from(PARTS), st.floats(0.001, 1e3), min_size=1, max_size=len(PARTS))


@given(st.lists(parts, min_size=1, max_size=4))
def test_differences_are_those_of_the_lengths_and_sum_up_to_the_wholes(of: list[dict[str, float]]) -> None:
    chart = stacked_bars([Request(f"stack {at}", one) for at, one in enumerate(of)])
    assert chart.stacks[0].differences == []
    for stack, given_parts in zip(chart.stacks[1:], of[1:], strict=True):
        found = {one.part: one.after_s - one.before_s for one in stack.differences}
        assert sum(found.values()) == pytest.approx(sum(given_parts.values()) - sum(of[0].values()), abs=1e-6)
        sizes = [abs(change) for change in found.values()]
        assert sizes == sorted(sizes, reverse=True) and 0 not in sizes
        scale = {bar.part: bar.width / given_parts[bar.part] for bar in stack.row.bars}
        assert max(scale.values()) == pytest.approx(min(scale.values()))


def test_the_sentence_says_how_much_more_and_what_of_it() -> None:
    before, during = {"queue": 0.3, "decode": 0.7}, {"queue": 0.7, "decode": 0.7}
    chart = stacked_bars([Request("before", before), Request("during", during)])
    said = "during: 1.40 s, 400 ms (40 %) more than before, mostly queue: 300 ms to 700 ms (+400 ms)."
    assert chart.sentence == said
    back = stacked_bars([Request("during", during), Request("before", before)])
    assert back.sentence == "before: 1.00 s, 400 ms (29 %) less than during, mostly queue: 700 ms to 300 ms (-400 ms)."
    assert stacked_bars([Request("a", before), Request("b", before)]).sentence == "b: 1.00 s, about as a."
    assert stacked_bars([Request("all", before)]).sentence == "all: 1.00 s."
    assert stacked_bars([]).sentence == "" and stacked_bars([]).stacks == []


def test_what_differs_by_rounding_alone_is_told_as_the_same() -> None:
    before, during = {"receive": 5e-4, "queue": 0.3}, {"receive": 5e-4 - 1e-19, "queue": 0.7}
    chart = stacked_bars([Request("before", before), Request("during", during)])
    assert [one.part for one in chart.stacks[1].differences] == ["queue"]
    noise = stacked_bars([Request("a", {}), Request("b", {"receive": 1e-12})])
    assert noise.sentence == "b: 1e-06 µs, about as a."


def test_from_nothing_no_share_of_a_rise_is_told() -> None:
    chart = stacked_bars([Request("a", {}), Request("b", {"queue": 1.0})])
    assert chart.sentence == "b: 1.00 s, 1.00 s more than a, mostly queue: 0 µs to 1.00 s (+1.00 s)."


def test_the_markup_has_words_for_every_part() -> None:
    chart = stacked_bars([Request("before", {"queue": 0.3, "decode": 0.7}), Request("during", {"queue": 0.7})])
    text = str(templates.get_template("components/stacks.html").module.stacked_bars(chart, "Parts"))  # type: ignore[attr-defined]
    assert "during against before" in text and "style=" not in text
    assert 'aria-label="before: queue 300 ms, decode 700 ms"' in text
