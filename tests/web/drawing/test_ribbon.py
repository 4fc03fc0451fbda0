"""A ribbon's shares are those of the steps told, and each limit that was seen has its words and what lifts it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.step_limits import LIFTED_BY, MEANING, StepLimit
from web.drawing.ribbon import HEIGHT, ribbon
from web.frame.rendering import templates

counts = st.dictionaries(
    st.sampled_from(list(StepLimit)), st.lists(st.integers(0, 1000), min_size=8, max_size=8), max_size=6
)


@given(counts)
def test_shares_add_up_and_fill_the_ribbons_height(of: dict[StepLimit, list[int]]) -> None:
    chart = ribbon(
        {limit: [(10.0 * at, count) for at, count in enumerate(row)] for limit, row in of.items()}, 0, 80, 10
    )
    seen = {limit for limit, row in of.items() if any(row)}
    assert [band.limit for band in chart.bands] == [limit for limit in MEANING if limit in seen]
    assert sum(band.share for band in chart.bands) == pytest.approx(1 if seen else 0)
    for at in range(8):
        heights = []
        for band in chart.bands:
            for left, low, high in re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)", band.path):
                if float(left) == 125.0 * at:
                    heights.append(float(high) - float(low))
        told = any(row[at] for row in of.values())
        assert sum(heights) == pytest.approx(HEIGHT if told else 0, abs=0.6)


def test_it_names_what_binds_most_and_the_knob_that_lifts_it() -> None:
    chart = ribbon(
        {StepLimit.NO_WORK: [(0, 60)], StepLimit.MAX_NUM_SEQS: [(0, 30)], StepLimit.CHUNK: [(0, 10)]}, 0, 10, 10
    )
    assert chart.sentence == "max num seqs bound 30 % of the steps (max_num_seqs lifts it); nothing bound 60 %."
    assert (
        ribbon({StepLimit.NO_WORK: [(0, 5)]}, 0, 10, 10).sentence == "Nothing bound the engines' steps: they kept up."
    )
    assert ribbon({}, 0, 10, 10).sentence == "No engine has said what bound its steps in this span."
    assert ribbon({StepLimit.CHUNK: [(0, 0)]}, 0, 10, 10).bands == []


def test_each_limit_is_drawn_with_a_pattern_words_and_its_knob() -> None:
    chart = ribbon({limit: [(0.0, 1.0)] for limit in StepLimit}, 0, 10, 10)
    text = str(templates.get_template("components/ribbon.html").module.ribbon(chart, "pool"))  # type: ignore[attr-defined]
    hatches = re.findall(r'class="hatch" d="([^"]*)"', text)
    assert len(hatches) == len(StepLimit) and len(set(hatches) - {""}) == len(StepLimit) - 2
    for limit in StepLimit:
        assert f'href="#pool-{limit}"' in text and f'<li id="pool-{limit}">' in text
        assert f'<rect class="limit-{limit}"' in text
    assert re.findall(r"<code>(\w+)</code>", text) == [LIFTED_BY[limit] for limit in MEANING if limit in LIFTED_BY]
    assert "style=" not in text
