"""Rates: what is divided by what, and what is left out."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.contract.errors import BadRequest
from controlplane.telemetry import Question, Span
from controlplane.telemetry.queries.rates import rates
from tests.controlplane.telemetry.fake_reader import FakeReader

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def asked(metric: str, first: float, last: float, step_s: float | None = None, by: tuple[str, ...] = ()) -> Question:
    return Question(metric, Span(at(first), at(last)), by, step_s=step_s)


@pytest.fixture
def reader() -> FakeReader:
    found = FakeReader()
    for second in range(0, 60, 5):
        found.add("output_tokens", at(second), 100, node="a")
        found.add("requests", at(second), 2, node="a", finish_reason="stop")
    found.add("output_tokens", at(30), 50, node="b")
    return found


def test_a_sum_per_second_with_the_requests_behind_it(reader: FakeReader) -> None:
    answer = rates(reader, reader.find("output_tokens"), asked("output_tokens", 0, 60, by=("node",)))
    assert answer.unit == "{token}/s" and answer.relative_error == 0.0
    assert (answer.start, answer.end) == (at(0), at(60))
    assert [(one.labels["node"], one.total, one.per_second, one.requests) for one in answer.series] == [
        ("a", 1200, 20.0, 24),
        ("b", 50, pytest.approx(50 / 60), None),
    ]


def test_only_whole_windows_up_to_the_newest_are_divided_by(reader: FakeReader) -> None:
    # From 2 s on the first whole window begins at 5; nothing is known after 60.
    answer = rates(reader, reader.find("requests"), asked("requests", 2, 600))
    (series,) = answer.series
    assert (answer.start, answer.end) == (at(5), at(60))
    assert (series.total, series.seconds, series.per_second, series.requests) == (22, 55, 0.4, 22)


def test_steps_at_the_edges_are_divided_by_what_they_hold_of_the_span(reader: FakeReader) -> None:
    answer = rates(reader, reader.find("requests"), asked("requests", 10, 45, step_s=20))
    (series,) = answer.series
    assert series.points is not None
    assert [(point.time, point.total, point.seconds, point.per_second) for point in series.points] == [
        (at(0), 4, 10, 0.4),
        (at(20), 8, 20, 0.4),
        (at(40), 2, 5, 0.4),
    ]
    assert [point.requests for point in series.points] == [4, 8, 2]


def test_absent_groups_and_steps_are_absent(reader: FakeReader) -> None:
    answer = rates(reader, reader.find("output_tokens"), asked("output_tokens", 0, 60, step_s=10, by=("node",)))
    points = answer.series[1].points
    assert points is not None and [point.time for point in points] == [at(30)]
    assert rates(reader, reader.find("preemptions"), asked("preemptions", 0, 60)).series == []
    assert rates(reader, reader.find("requests"), asked("requests", 600, 660)).series == []
    empty = FakeReader()
    assert rates(empty, empty.find("requests"), asked("requests", 0, 60)).series == []


def test_a_histogram_counts_its_values(reader: FakeReader) -> None:
    reader.add("ttft", at(10), [0.1, 0.2, 0.3])
    answer = rates(reader, reader.find("ttft"), asked("ttft", 0, 60))
    (series,) = answer.series
    assert (answer.unit, series.total, series.per_second, series.requests) == ("1/s", 3, 0.05, 3)
    reader.add("itl", at(10), [0.01] * 50)
    (gaps,) = rates(reader, reader.find("itl"), asked("itl", 0, 60)).series
    assert (gaps.total, gaps.requests) == (50, 24)


def test_a_gauge_has_no_rate(reader: FakeReader) -> None:
    with pytest.raises(BadRequest, match="scalars") as raised:
        rates(reader, reader.find("kv_usage"), asked("kv_usage", 0, 60))
    assert raised.value.detail["field"] == "metric"


def test_a_senders_own_sum(reader: FakeReader) -> None:
    reader.add("tailwright.own", at(0), 30)
    (series,) = rates(reader, reader.find("tailwright.own"), asked("tailwright.own", 0, 60)).series
    assert series.per_second == 0.5
