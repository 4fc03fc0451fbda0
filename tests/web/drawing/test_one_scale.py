"""Heat maps on one scale lose no count, and keep each within the latencies that it was counted in."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.telemetry import HeatmapAnswer
from controlplane.contract.histogram import AXIS_MIN, SCALE, upper_edge
from web.drawing.heat_map import heat_map, scale_of
from web.drawing.one_scale import on_one_scale

START = datetime(2026, 3, 1, 14, 0, tzinfo=UTC)
STEP_S = 10


def answer(merged: int, first: int, counts: list[int], *, below: bool = False) -> HeatmapAnswer:
    """As the service makes it: rows of `merged` buckets from row `first` of the axis up, one column."""
    edges = [upper_edge(row * merged - 1) for row in range(first, first + len(counts) + (not below))]
    column = {"time": START, "count": sum(counts), "counts": counts}
    series = [{"labels": {}, "count": sum(counts), "columns": [column]}]
    about = {"metric": "ttft", "unit": "s", "start": START, "end": START + timedelta(seconds=90), "step_s": STEP_S}
    told = {"rows_per_doubling": 2**SCALE // merged, "relative_error": 0.01, "series": series}
    return HeatmapAnswer.model_validate({**about, **told, "edges": [0.0, *edges] if below else edges})


NOTHING = answer(1, 0, []).model_copy(update={"edges": [], "series": []})

answers = st.builds(
    answer,
    st.sampled_from([1, 2, 4, 8, 16, 32]),
    st.integers(0, 20),
    st.lists(st.integers(0, 1000), min_size=2, max_size=9),
    below=st.booleans(),
)


def counted(of: HeatmapAnswer) -> list[tuple[float, float, int]]:
    """(low edge, high edge, count) of every row."""
    rows = list(pairwise(of.edges))
    return [
        (low, high, n)
        for one in of.series
        for at in one.columns
        for (low, high), n in zip(rows, at.counts, strict=True)
    ]


@given(st.lists(answers, min_size=1, max_size=3))
def test_each_count_lies_within_the_row_that_it_was_counted_in_and_none_is_lost(told: list[HeatmapAnswer]) -> None:
    scaled = on_one_scale(told)
    assert all(one.edges == scaled[0].edges for one in scaled) and scaled[0].edges == sorted(set(scaled[0].edges))
    assert {one.rows_per_doubling for one in scaled} == {min(one.rows_per_doubling for one in told)}
    for before, after in zip(told, scaled, strict=True):
        held = {(low, high): n for low, high, n in counted(after)}
        assert sum(held.values()) == sum(n for *_, n in counted(before))
        for (low, high), n in held.items():
            # What is too small for the axis lies below all of it, however far down the rows begin.
            within = [
                n
                for a, b, n in counted(before)
                if a == low == 0.0 or (a and low * (1 - 1e-9) <= a and b <= high * (1 + 1e-9))
            ]
            assert sum(within) == n, (low, high)


def test_edges_of_the_coarsest_are_the_apis_own() -> None:
    coarse, fine = answer(4, 160, [1, 2]), answer(1, 645, [5, 0, 7])
    scaled = on_one_scale([coarse, fine])
    assert scaled[0].edges == pytest.approx([upper_edge(row * 4 - 1) for row in range(160, 163)])
    assert [at.counts for one in scaled for at in one.series[0].columns] == [[1, 2], [0, 12]]
    assert AXIS_MIN == -640 and scaled[0].edges[0] == 1.0


def test_where_nothing_was_told_the_other_ones_rows_stand() -> None:
    scaled = on_one_scale([NOTHING, answer(2, 300, [3, 4])])
    assert scaled[0].edges == scaled[1].edges and scaled[0].series == []
    assert on_one_scale([NOTHING, NOTHING]) == [NOTHING, NOTHING]


def test_a_colour_and_a_height_mean_the_same_on_both() -> None:
    scaled = on_one_scale([answer(4, 160, [1000, 1]), answer(4, 164, [3])])
    scale = scale_of(*scaled)
    one, other = (heat_map(of, scale=scale) for of in scaled)
    assert one.levels == other.levels and one.levels[-1].words.endswith("1,000")
    assert one.rows == other.rows == 5 and one.up == other.up
    assert one.sentence.endswith(f"none over {1.19:g} s.") and other.count == 3
