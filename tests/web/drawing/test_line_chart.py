"""Charts are drawn where their values are: properties of axes, lines, layers, marks and sentences."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.drawing.axes import ROUND_S, Axis, clock_words, time_ticks, value_ticks
from web.drawing.curves import bars, layers, path, runs
from web.drawing.line_chart import HEIGHT, WIDTH, Band, Line, Mark, drawn, placed, stacked
from web.drawing.trends import sentence, trend_of

values = st.floats(1e-6, 1e4)
lines = st.lists(st.tuples(st.integers(0, 60), values), unique_by=lambda point: point[0], max_size=40).map(
    lambda points: sorted((5.0 * place, value) for place, value in points)
)


@given(st.floats(1e-9, 1e9))
def test_the_ticks_of_values_are_round_and_reach_the_highest(high: float) -> None:
    ticks = value_ticks(high)
    assert ticks[0] == 0 and ticks[-1] >= high * (1 - 1e-6) and 2 <= len(ticks) <= 6
    assert ticks[-2] < high
    assert re.fullmatch(r"[125]\.?0*e[+-]\d+", f"{ticks[1]:.6e}")


@given(st.integers(0, 4_000_000_000), st.integers(1, 86_400))
def test_the_ticks_of_times_are_round_on_the_clock(start: int, length: int) -> None:
    ticks = time_ticks(start, start + length)
    assert len(ticks) <= 5 and all(start <= tick <= start + length for tick in ticks)
    distances = {after - before for before, after in pairwise(ticks)}
    assert len(distances) <= 1 and distances <= set(map(float, ROUND_S))
    assert all(tick % min(distances, default=1.0) == 0 for tick in ticks)


def test_the_clock_has_seconds_on_a_short_axis() -> None:
    assert (clock_words(3661, 300), clock_words(3661, 3600)) == ("01:01:01", "01:01")


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0, 1))
def test_an_axis_is_linear_between_its_ends(low: float, width: float, share: float) -> None:
    axis = Axis(low, low + width, 100.0, -100.0)
    assert axis.at(low + share * width) == pytest.approx(100 - 100 * share, abs=1e-3 + 1e-9 * abs(low) / width * 100)


def test_an_axis_without_a_width_puts_everything_in_its_middle() -> None:
    assert Axis(3, 3).at(3) == 0.5


@given(lines)
def test_runs_hold_every_point_once_and_no_gap(points: list[tuple[float, float]]) -> None:
    found = runs(points, 5)
    assert [point for run in found for point in run] == points
    assert all(after - before <= 7.5 for run in found for (before, _), (after, _) in pairwise(run))
    assert all(one[0][0] - other[-1][0] > 7.5 for other, one in pairwise(found))


@given(st.lists(lines, max_size=4))
def test_every_point_is_drawn_within_the_plot(of: list[list[tuple[float, float]]]) -> None:
    chart = drawn([Line(f"p{place}", points) for place, points in enumerate(of)], 0, 300, 5, [])
    for line, points in zip(chart.lines, of, strict=True):
        places = [tuple(map(float, pair.split())) for pair in re.findall(r"[\d.-]+ [\d.-]+", line.path)]
        assert len(places) == len(points)
        for (across, up), (time, value) in zip(places, points, strict=True):
            assert 0 <= across <= WIDTH and 0 <= up <= HEIGHT
            assert across == pytest.approx(time / 300 * WIDTH, abs=0.06)
            assert up == pytest.approx(HEIGHT * (1 - value / chart.values["top"]), abs=0.06)
    told = [sum(y is not None for y in line["y"]) for line in chart.values["lines"]]
    assert told == [len(points) for points in of]


def test_a_point_that_stands_alone_is_a_dot() -> None:
    assert path([(0, 1)], Axis(0, 1), Axis(0, 1), 5) == "M0.0 1.0h.1"


@given(st.lists(st.lists(st.floats(0, 100), min_size=5, max_size=5), min_size=1, max_size=5))
def test_layers_stand_on_each_other_and_sum_up(of: list[list[float]]) -> None:
    stacked = layers(of)
    assert [low for low, _ in stacked[0]] == [0] * 5
    for below, above in pairwise(stacked):
        assert [high for _, high in below] == [low for low, _ in above]
    assert [high for _, high in stacked[-1]] == pytest.approx([sum(column) for column in zip(*of, strict=True)])
    drawn_bars = bars(range(5), stacked[0], Axis(0, 4), Axis(0, 100), 1)
    assert drawn_bars.count("M") == drawn_bars.count("Z") == sum(high > low for low, high in stacked[0])


def test_a_bar_is_as_wide_as_its_step_and_ends_with_the_plot() -> None:
    edges = [(0.0, 5.0), (1.0, 2.0)]
    assert (
        bars([0, 8], edges, Axis(0, 10, 0, 100), Axis(0, 10, 50, -50), 4)
        == "M0.0 50.0V25.0H40.0V50.0ZM80.0 45.0V40.0H100.0V45.0Z"
    )


def test_a_stack_says_which_part_moved_the_whole() -> None:
    queue, decode = Line("queue", steps(1, 1, 1, 3, 3, 3)), Line("decode", steps(1, 1, 1, 1, 1, 1))
    chart = stacked([decode, queue], 0, 6, 1, [])
    assert chart.sentence == "The mean rose by 100 %, from 2.00 s to 4.00 s; mostly queue (1.00 s to 3.00 s)."
    assert [line.look for line in chart.lines] == ["layer part-decode", "layer part-queue"]
    assert stacked([decode], 0, 6, 1, []).sentence == "The mean held at 1.00 s."
    assert stacked([], 0, 6, 1, []).sentence == "No data in this span."


@given(st.lists(st.floats(-50, 350), max_size=30))
def test_marks_within_the_span_are_all_drawn_and_some_worded(times: list[float]) -> None:
    found = placed([Mark(time, "alert", "alert 1 fired", "whole") for time in times], 0, 300)
    assert len(found) == sum(0 <= time <= 300 for time in times)
    assert [mark.share for mark in found] == sorted(mark.share for mark in found)
    assert any(mark.label for mark in found) or not found


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 200))
def test_a_band_lies_between_its_values_whatever_the_line_does(one: float, other: float, value: float) -> None:
    low, high = sorted((one, other))
    chart = drawn([Line("p99", [(0.0, value)])], 0, 300, 5, [], band=Band("usual", low, high))
    assert chart.band is not None
    assert chart.values["top"] * (1 - chart.band.top) == pytest.approx(high, abs=1e-6)
    assert chart.values["top"] * chart.band.height == pytest.approx(high - low, abs=1e-6)
    assert drawn([], 0, 300, 5, []).band is None


def steps(*values: float) -> list[tuple[float, float]]:
    return [(float(place), value) for place, value in enumerate(values)]


def test_the_sentence_says_what_rose_by_how_much() -> None:
    assert sentence("p99", steps(1, 1, 1, 1.2, 1.34, 1.34)) == "p99 rose by 34 %, from 1.00 s to 1.34 s."
    assert sentence("p99", steps(0.02, 0.02, 0.01, 0.01, 0.01, 0.01)) == "p99 fell by 50 %, from 20 ms to 10 ms."
    assert sentence("p99", steps(1, 1, 9, 1, 1, 1)) == "p99 held at 1.00 s."
    assert sentence("p99", steps(1, 2)) == "p99 was 2.00 s at last."
    assert sentence("p99", []) == "No data in this span."


@given(st.lists(values, min_size=6, max_size=50))
def test_a_trend_lies_between_the_lowest_and_the_highest(given_values: list[float]) -> None:
    found = trend_of(steps(*given_values))
    assert found is not None
    assert min(given_values) <= found.before_s <= max(given_values) and found.change > -1


def test_of_more_points_than_columns_the_cursor_reads_each_columns_highest_tail() -> None:
    tail = [(float(at), 9.0 if at == 5003 else 1.0) for at in range(10_000)]
    chart = drawn([Line("p50", [(time, 0.5) for time, _ in tail]), Line("p99", tail)], 0, 10_000, 1, [])
    assert len(chart.values["times"]) == WIDTH and max(chart.values["lines"][1]["y"]) == 9.0
    assert len(str(chart.values)) + sum(len(line.path) for line in chart.lines) < 150_000
