"""A heat map loses no count, its axis is the API's rows, and its sentence can be checked against the counts."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.telemetry import HeatmapAnswer
from web.drawing.heat_map import LEVELS, MOST_TICKS, Rows, heat_map, latency_ticks, levels_of
from web.drawing.line_chart import Line, Mark
from web.frame.rendering import templates

START = datetime(2026, 3, 1, 14, 0, tzinfo=UTC)
EDGES = [0.01 * 2 ** (row / 4) for row in range(33)]
STEP_S = 10

columns = st.dictionaries(st.integers(0, 89), st.lists(st.integers(0, 10_000), min_size=32, max_size=32), max_size=12)


def answer(*of: dict[int, list[int]], edges: list[float] = EDGES) -> HeatmapAnswer:
    series = [
        {
            "labels": {},
            "count": sum(map(sum, one.values())),
            "columns": [
                {"time": START + timedelta(seconds=STEP_S * at), "count": sum(counts), "counts": counts}
                for at, counts in sorted(one.items())
            ],
        }
        for one in of
    ]
    end = START + timedelta(seconds=90 * STEP_S)
    about = {"metric": "ttft", "unit": "s", "start": START, "end": end, "step_s": STEP_S, "rows_per_doubling": 4}
    return HeatmapAnswer.model_validate({**about, "relative_error": 0.01, "edges": edges, "series": series})


def row_of(value: float) -> int:
    return next(row for row in range(32) if EDGES[row] < value <= EDGES[row + 1])


def counts(**of: int) -> list[int]:
    """So many requests at each of these latencies in milliseconds, as `ms100=7`."""
    found = [0] * 32
    for name, count in of.items():
        found[row_of(int(name[2:]) / 1000)] += count
    return found


@given(columns, columns)
def test_no_count_is_lost_and_each_stays_in_its_cell(one: dict[int, list[int]], other: dict[int, list[int]]) -> None:
    chart = heat_map(answer(one, other))
    told = json.loads(chart.data)
    low = next(
        (row for row, edge in enumerate(EDGES) if told["edges"] and edge == pytest.approx(told["edges"][0], rel=1e-5)),
        0,
    )
    wanted = {
        (at, row): count
        for at in range(90)
        for row in range(32)
        if (count := one.get(at, [0] * 32)[row] + other.get(at, [0] * 32)[row])
    }
    found = {
        (column, low + lowest + place): count
        for column, lowest, here in told["cells"]
        for place, count in enumerate(here)
        if count
    }
    assert found == wanted and chart.count == sum(wanted.values())
    assert chart.rows == max(1, len(told["edges"]) - 1) and chart.columns == 90
    assert told["bands"] == sorted(set(told["bands"])) and told["bands"][-1] == max(0, len(told["edges"]) - 1)


@given(st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=90, unique=True).map(sorted), st.floats(1e-7, 2e3))
def test_a_value_stands_in_the_row_whose_edges_hold_it(edges: list[float], value: float) -> None:
    at = Rows(edges).at(value)
    assert 0 <= at <= len(edges) - 1
    if edges[0] < value < edges[-1]:
        row = min(int(at), len(edges) - 2)
        assert edges[row] * (1 - 1e-9) <= value <= edges[row + 1] * (1 + 1e-9)


def test_what_is_too_small_for_the_axis_has_a_row_from_zero() -> None:
    edges = [0.0, *EDGES[1:]]
    assert Rows(edges).at(EDGES[1] / 2) == 0.5
    chart = heat_map(answer({0: [3] + [0] * 31}, edges=edges))
    assert chart.sentence == "Most requests took 0 µs to 11.9 ms, none over 11.9 ms." and chart.rows == 1


@given(st.floats(1e-4, 1e2), st.floats(1.01, 1e6))
def test_ticks_are_round_lie_on_the_axis_and_are_not_too_many(low: float, times: float) -> None:
    ticks = latency_ticks([low, low * times])
    assert len(ticks) <= MOST_TICKS and ticks == sorted(set(ticks))
    assert all(low <= tick <= low * times for tick in ticks)
    assert {f"{tick:.3e}"[:5] for tick in ticks} <= {"1.000", "2.000", "5.000", "3.000"}


@given(st.integers(1, 10**9))
def test_the_scale_holds_every_count_once(most: int) -> None:
    levels = levels_of(most)
    assert 1 <= len(levels) <= LEVELS and levels[0].least == 1 and levels[-1].least <= most
    assert all(after.least > before.least for before, after in pairwise(levels))
    for level, following in pairwise(levels):
        assert level.words.replace(",", "").split(" to ")[-1] == str(following.least - 1)
    assert levels[-1].words.endswith(f"{most:,}")
    assert levels_of(0) == []


def test_it_says_where_most_are_how_long_the_tail_is_and_when_it_began() -> None:
    usual = {at: counts(ms100=50, ms150=50) for at in range(90)}
    slow = usual | {at: counts(ms100=50, ms150=44, ms2000=6) for at in range(30, 90)}
    assert heat_map(answer(usual)).sentence == "Most requests took 95.1 ms to 160 ms, none over 160 ms."
    said = heat_map(answer(slow)).sentence
    assert said == "Most requests took 95.1 ms to 160 ms; 4 % took over 320 ms, nearly all since 14:05."
    throughout = usual | {at: counts(ms100=990, ms150=8, ms2000=2) for at in range(90)}
    assert heat_map(answer(throughout), noun="tokens").sentence.endswith("; 0.2 % took over 226 ms.")
    assert heat_map(answer()).sentence == heat_map(answer({})).sentence == "No data in this span."


@given(columns)
def test_the_told_shares_are_those_of_the_counts(of: dict[int, list[int]]) -> None:
    chart = heat_map(answer(of))
    if chart.count:
        told = json.loads(chart.data)
        per_row = [0] * chart.rows
        for _, lowest, here in told["cells"]:
            for place, count in enumerate(here):
                per_row[lowest + place] += count
        assert per_row[0] and per_row[-1]  # No empty rows at either end.
        assert chart.sentence.startswith("Most requests took ")


def test_lines_and_marks_lie_over_the_cells_they_speak_of() -> None:
    chart = heat_map(
        answer({0: counts(ms100=1, ms2000=1)}),
        [Line("p50", [((START + timedelta(seconds=440)).timestamp(), 0.1)])],
        [Mark((START + timedelta(seconds=450)).timestamp(), "alert", "alert 1 fired", "whole")],
    )
    across, up = chart.lines[0].path.removeprefix("M").removesuffix("h.1").split()
    assert float(across) == pytest.approx(1000 * 445 / 900, abs=0.1)
    assert 180 * (1 - 1 / chart.rows) <= float(up) <= 180  # In the lowest row.
    assert chart.marks[0].share == 0.5
    told = json.loads(chart.data)["marks"]
    assert told == [[(START + timedelta(seconds=450)).isoformat(), "alert 1 fired: whole"]]


def test_the_markup_is_the_same_with_any_title_and_needs_no_style() -> None:
    template = templates.get_template("components/heat_map.html")
    text = str(template.module.heat_map(heat_map(answer({0: counts(ms100=1)})), '"><script>'))  # type: ignore[attr-defined]
    assert "<script" not in text and "style=" not in text and 'width="90"' in text
