"""A sparkline shows what it says: its end, its baseline, and in which of the two shapes it ends."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.drawing.axes import Axis
from web.drawing.curves import path, reduced
from web.drawing.sparkline import HEIGHT, WIDTH, Baseline, sparkline
from web.frame.rendering import templates

latency = st.floats(1e-6, 1e4)
lines = st.lists(latency, max_size=400).map(lambda values: [(5.0 * at, value) for at, value in enumerate(values)])


@given(lines, st.one_of(st.none(), st.tuples(latency, latency, latency).map(sorted)))
def test_all_of_it_lies_in_its_box_and_the_dot_at_the_lines_end(points, edges) -> None:  # type: ignore[no-untyped-def]
    spark = sparkline("p99", points, 0, 2000, 5, Baseline(*edges) if edges else None)
    for across, up in re.findall(r"([\d.-]+) ([\d.-]+)", spark.path):
        assert 0 <= float(across) <= WIDTH and 0 <= float(up) <= HEIGHT
    assert (spark.dot is None) == (not points) and (spark.band is None) == (not edges)
    if spark.dot:
        assert spark.path.rpartition("L")[2].rpartition("M")[2].startswith(f"{spark.dot.x:.1f} {spark.dot.y:.1f}")
        assert spark.dot.beyond == bool(edges and points[-1][1] > edges[2])
    if spark.band:
        assert 0 <= spark.band.y <= spark.band.y + spark.band.height <= HEIGHT


def test_it_says_the_last_value_and_the_usual_one() -> None:
    usual = Baseline(1.0, 1.2, 1.4)
    assert sparkline("p99", [(0, 1.0), (5, 1.65)], 0, 10, 5, usual).sentence == "p99 1.65 s, was 1.20 s"
    assert sparkline("p99", [(0, 1.65)], 0, 10, 5).sentence == "p99 1.65 s"
    assert sparkline("p99", [], 0, 10, 5, usual).sentence == "p99: no data"


def test_above_what_is_usual_the_end_has_another_shape_than_colour_alone() -> None:
    def markup(last: float) -> str:
        spark = sparkline("p99", [(0, 1.0), (5, last)], 0, 10, 5, Baseline(1.0, 1.2, 1.4))
        written: str = templates.get_template("components/sparkline.html").module.sparkline(spark)  # type: ignore[attr-defined]
        return written

    assert 'class="last beyond"' in markup(1.5) and "m0-3 3 3-3 3-3-3z" in markup(1.5)
    assert 'class="last"' in markup(1.4) and "m0-3" not in markup(1.4)


@given(st.lists(latency, min_size=1, max_size=3000), st.integers(1, 50))
def test_extremes_of_each_column_survive_and_nothing_is_made_up(values: list[float], columns: int) -> None:
    points, axis = [(float(at), value) for at, value in enumerate(values)], Axis(0, len(values), 0, columns)
    kept = list(reduced(points, axis))
    assert set(kept) <= set(points) and kept == sorted(kept) and len(kept) <= max(4, 4 * columns)
    for column in range(columns):
        here = [value for at, value in points if int(axis.at(at)) == column]
        left = [value for at, value in kept if int(axis.at(at)) == column]
        assert not here or (min(here), max(here)) == (min(left), max(left))
    assert {kept[0], kept[-1]} == {points[0], points[-1]}


def test_of_ten_thousand_points_one_outlier_is_drawn_and_a_gap_stays_one() -> None:
    points = [(float(at), 90.0 if at == 5003 else 1.0) for at in range(10_000) if not 7000 < at < 7100]
    found = path(points, Axis(0, 10_000, 0, 1000), Axis(0, 100, 180, -180), 1)
    assert f" {180 - 0.9 * 180:.1f}" in found and found.count("M") == 2
    assert found.count("L") < 4000
    assert path(points[:3], Axis(0, 10_000, 0, 1000), Axis(0, 100, 180, -180), 1).count("L") == 2


@pytest.mark.parametrize("length", [-100.0, 100.0])
def test_few_points_are_drawn_as_they_are(length: float) -> None:
    points = [(float(at), 1.0) for at in range(100)]
    assert reduced(points, Axis(0, 1, 0, length)) is points
