"""Shares of e2e: exact, adding up to 1 within what is stated, absent where nobody told."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import BadRequest
from controlplane.telemetry import Question, Span
from controlplane.telemetry.queries.shares import COMPONENTS, Limit, limit_of, shares
from tests.controlplane.telemetry.fake_reader import FakeReader

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def asked(step_s: float | None = None, by: tuple[str, ...] = (), metric: str = "e2e") -> Question:
    return Question(metric, Span(at(0), at(60)), by, step_s=step_s)


def request(reader: FakeReader, second: float, parts: dict[str, float], **labels: Any) -> None:
    """One finished request, as a node reports it: e2e is the sum of its parts."""
    reader.add("e2e", at(second), [math.fsum(parts.values())], **labels)
    for name, value in parts.items():
        reader.add(name, at(second), [value], **labels)


parts_of_requests = st.lists(
    st.fixed_dictionaries({name: st.floats(1e-5, 10.0) for name in COMPONENTS}), min_size=1, max_size=8
)


@given(parts_of_requests)
def test_shares_are_exact_and_add_up_to_one(requests: list[dict[str, float]]) -> None:
    reader = FakeReader()
    for place, parts in enumerate(requests):
        request(reader, 5 * place % 60, parts)
    (series,) = shares(reader, asked()).series
    whole = math.fsum(value for parts in requests for value in parts.values())
    for name in COMPONENTS:
        assert series.shares[name] == pytest.approx(math.fsum(parts[name] for parts in requests) / whole)
    assert abs(1.0 - math.fsum(series.shares.values())) <= series.error + 1e-12
    assert series.error < 1e-9
    assert series.requests == len(requests) and set(series.counts.values()) == {len(requests)}


def test_by_labels_and_step() -> None:
    reader = FakeReader()
    request(reader, 0, {"queue": 0.5, "prefill": 0.5, "unaccounted": 0.0}, node="a")
    request(reader, 30, {"queue": 3.0, "prefill": 1.0, "unaccounted": 0.0}, node="a")
    request(reader, 0, {"prefill": 2.0, "unaccounted": 0.0}, node="b")
    first, second = shares(reader, asked(step_s=30, by=("node",))).series
    assert first.shares == {"queue": 0.7, "prefill": 0.3, "unaccounted": 0.0} and first.e2e_s == 5.0
    assert first.points is not None
    assert [(point.time, point.shares["queue"], point.requests) for point in first.points] == [
        (at(0), 0.5, 1),
        (at(30), 0.75, 1),
    ]
    # Nobody on b told of a queue: absent, not zero.
    assert second.shares == {"prefill": 1.0, "unaccounted": 0.0} and "queue" not in second.counts
    assert second.points is not None and [point.time for point in second.points] == [at(0)]


def test_what_no_component_tells_is_unaccounted() -> None:
    reader = FakeReader()
    reader.add("e2e", at(0), [2.0])
    reader.add("queue", at(0), [0.5])
    (series,) = shares(reader, asked()).series
    assert series.shares == {"queue": 0.25, "unaccounted": 0.75} and series.error == 0.0
    assert series.counts == {"queue": 1}


def test_nodes_that_tell_less_leave_an_error_that_is_stated() -> None:
    reader = FakeReader()
    request(reader, 0, {"queue": 1.0, "decode": 1.0, "unaccounted": 0.0})
    reader.add("e2e", at(0), [2.0])  # Another node, which tells nothing else.
    answer = shares(reader, asked())
    (series,) = answer.series
    assert series.shares == {"queue": 0.25, "decode": 0.25, "unaccounted": 0.0}
    assert answer.error == series.error == 0.5
    assert (series.requests, series.counts["queue"]) == (2, 1)


def test_no_data_is_no_series() -> None:
    reader = FakeReader()
    reader.add("queue", at(0), [1.0])
    answer = shares(reader, asked())
    assert answer.series == [] and answer.error == 0.0 and answer.threshold is None


def test_shares_above_a_threshold() -> None:
    reader = FakeReader()
    for second, values in ((0, [0.1, 0.2, 0.9]), (30, [0.6, 0.7])):
        reader.add("e2e", at(second), values)
        reader.add("ttft", at(second), [value / 10 for value in values])
    answer = shares(reader, asked(step_s=30), limit_of(reader, asked(), 0.5))
    assert answer.threshold is not None
    assert (answer.threshold.metric, answer.threshold.asked, answer.threshold.edge) == ("e2e", 0.5, 0.5)
    (series,) = answer.series
    assert series.above is not None and (series.above.above, series.above.count, series.above.share) == (3, 5, 0.6)
    assert series.points is not None
    assert [point.above and point.above.share for point in series.points] == [pytest.approx(1 / 3), 1.0]
    of_ttft = shares(reader, asked(), Limit(reader.find("ttft"), 0.05))
    assert of_ttft.threshold is not None and of_ttft.threshold.edge == pytest.approx(0.05, rel=0.011)
    assert of_ttft.series[0].above is not None and of_ttft.series[0].above.above == 3


def test_a_metric_without_a_threshold_says_nothing() -> None:
    reader = FakeReader()
    assert limit_of(reader, asked(), None) is None
    with pytest.raises(BadRequest, match="above"):
        limit_of(reader, asked(metric="ttft"), None)
    with pytest.raises(BadRequest, match="'ttft'"):
        limit_of(reader, asked(metric="ttfx"), 0.5)
