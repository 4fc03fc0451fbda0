"""Heat maps: whole buckets, exact counts, edges that say what each row is."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.telemetry import HeatmapAnswer
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import ZERO_THRESHOLD_S
from controlplane.telemetry import Question, Span
from controlplane.telemetry.queries import heatmap as module
from controlplane.telemetry.queries.heatmap import FEWEST_ROWS, MOST_ROWS, heatmap
from tests.controlplane.telemetry.fake_reader import FakeReader

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def of(reader: FakeReader, rows: int = 64, step_s: float | None = 10, by: tuple[str, ...] = ()) -> HeatmapAnswer:
    asked = Question("ttft", Span(at(0), at(120)), by, step_s=step_s)
    return heatmap(reader, reader.find("ttft"), asked, rows)


values_of_windows = st.dictionaries(
    st.integers(0, 23), st.lists(st.floats(0.0, 900.0), min_size=1, max_size=20), min_size=1, max_size=6
)


@given(values_of_windows, st.integers(FEWEST_ROWS, MOST_ROWS))
def test_every_value_is_in_its_row_and_column(windows: dict[int, list[float]], rows: int) -> None:
    reader = FakeReader()
    for window, values in windows.items():
        reader.add("ttft", at(5 * window), values)
    answer = of(reader, rows)
    (series,) = answer.series
    edges = answer.edges
    assert edges == sorted(edges) and len(edges) - 1 <= rows
    assert series.count == sum(map(len, windows.values())) == sum(column.count for column in series.columns)
    assert {column.time for column in series.columns} == {at(window // 2 * 10) for window in windows}
    for column in series.columns:
        assert len(column.counts) == len(edges) - 1 and sum(column.counts) == column.count
        values = [value for window, found in windows.items() if at(window // 2 * 10) == column.time for value in found]
        for row, count in enumerate(column.counts):
            low, high = edges[row] * (1 - 1e-12), edges[row + 1] * (1 + 1e-12)
            surely = sum(
                low / (1 - 2e-12) < value <= high * (1 - 2e-12) for value in values if value > ZERO_THRESHOLD_S
            )
            assert count >= surely
    small = sum(value <= ZERO_THRESHOLD_S for values in windows.values() for value in values)
    assert (edges[0] == 0.0) == (small > 0)
    if small:
        assert sum(column.counts[0] for column in series.columns) == small


def test_the_finest_resolution_that_fits_is_taken_and_said() -> None:
    reader = FakeReader()
    reader.add("ttft", at(0), [0.25 * 1.01, 0.99])  # Two doublings.
    fine, coarse = of(reader, 64), of(reader, 32)
    assert (fine.rows_per_doubling, len(fine.edges) - 1) == (32, 64)
    assert (coarse.rows_per_doubling, len(coarse.edges) - 1) == (16, 32)
    assert fine.edges[0] == coarse.edges[0] == 0.25 and fine.edges[-1] == coarse.edges[-1] == 1.0
    assert set(coarse.edges) <= set(fine.edges)


def test_groups_share_the_edges_and_absent_steps_have_no_column() -> None:
    reader = FakeReader()
    reader.add("ttft", at(0), [0.1], node="a")
    reader.add("ttft", at(50), [10.0], node="b")
    answer = of(reader, by=("node",))
    assert [(one.labels["node"], [column.time for column in one.columns]) for one in answer.series] == [
        ("a", [at(0)]),
        ("b", [at(50)]),
    ]
    for one in answer.series:
        assert len(one.columns[0].counts) == len(answer.edges) - 1
    assert answer.step_s == 10 and answer.unit == "s"


def test_no_data_is_no_series_and_no_edges() -> None:
    answer = of(FakeReader())
    assert answer.series == [] and answer.edges == []


def test_a_step_is_needed_and_cells_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = FakeReader()
    reader.add("ttft", at(0), [0.1, 100.0])
    with pytest.raises(BadRequest, match="step: is missing"):
        of(reader, step_s=None)
    monkeypatch.setattr(module, "MAX_CELLS", 5)
    with pytest.raises(BadRequest, match="over 5 cells"):
        of(reader)


def test_wide_buckets_of_a_sender_are_said() -> None:
    reader = FakeReader()
    reader.add("ttft", at(0), [0.1], error=0.67)
    assert of(reader).relative_error == 0.67 and of(reader).series[0].relative_error == 0.67
