"""A request's cumulative points: rows in its own numbers, states that move on only with what was counted."""

import pytest

from controlplane.contract import metrics
from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.telemetry.otlp.raw_point import RawExplicit, RawExponential, RawNumber, RawPoint
from controlplane.telemetry.reports.cumulative_rows import CumulativePoint, advance_all, time_of
from controlplane.telemetry.values.refusal import Reason, Refusals

S = 1_000_000_000
NAME = metrics.TTFT.name


def point(raw: RawPoint, key: int = 1, metric: int = 0, labels: int = 0) -> CumulativePoint:
    return CumulativePoint(key, metric, labels, NAME, raw)


def number(time_s: int, value: int, start_s: int = 1) -> RawNumber:
    return RawNumber(start_s * S, time_s * S, value)


def test_points_of_one_series_in_one_request_are_taken_in_the_order_of_time() -> None:
    states: dict[int, bytes] = {}
    found = advance_all([point(number(30, 9)), point(number(10, 2)), point(number(20, 5))], states, 0, Refusals())
    assert found.columns.sums.value.tolist() == [2, 3, 4]
    assert found.columns.sums.time_ns.tolist() == [10 * S, 20 * S, 30 * S]
    assert found.columns.sums.window.tolist() == [1, 3, 5]  # A span includes its end: 10 s ends window 1.
    assert (found.counted, found.repeated, found.resets) == (3, 0, 0)
    assert time_of(states[1]) == 30 * S and found.changed == states


def test_requests_chain() -> None:
    states: dict[int, bytes] = {}
    first = advance_all([point(number(10, 2)), point(number(10, 7), key=2, metric=1, labels=1)], states, 0, Refusals())
    assert first.columns.sums.metric.tolist() == [0, 1] and first.columns.sums.labels.tolist() == [0, 1]
    second = advance_all([point(number(20, 5))], states, 0, Refusals())
    assert second.columns.sums.value.tolist() == [3] and set(second.changed) == {1}
    again = advance_all([point(number(20, 5))], states, 0, Refusals())
    assert again.repeated == 1 and again.counted == 0 and not again.changed and len(again.columns) == 0
    idle = advance_all([point(number(30, 5))], states, 0, Refusals())
    assert idle.counted == 1 and len(idle.columns) == 0 and time_of(states[1]) == 30 * S
    restarted = advance_all([point(number(50, 4, start_s=40))], states, 0, Refusals())
    assert restarted.resets == 1 and restarted.columns.sums.value.tolist() == [4]


def test_what_is_refused_leaves_the_others_and_its_own_state() -> None:
    states: dict[int, bytes] = {}
    advance_all([point(number(10, 2)), point(number(10, 2), key=2)], states, 0, Refusals())
    before, refusals = dict(states), Refusals()
    found = advance_all([point(number(9, 1)), point(number(20, 5), key=2)], states, 0, refusals)
    assert found.counted == 1 and found.columns.sums.value.tolist() == [3]
    assert states[1] == before[1] and refusals.by_reason == {Reason.TIMESTAMP: 1}
    assert refusals.text().startswith(f"{NAME}: a cumulative point older")


def test_a_difference_that_cannot_be_placed_is_in_the_next_one() -> None:
    """Values below zero came and went: what is left is counted with the next point."""
    states: dict[int, bytes] = {}
    bounds = (-1.0, 1.0)
    good = RawExplicit(1 * S, 10 * S, bounds, (0, 2, 0), 1.0)
    advance_all([point(good)], states, 0, Refusals())
    refusals = Refusals()
    bad = RawExplicit(1 * S, 20 * S, bounds, (1, 3, 0), 1.0)
    assert len(advance_all([point(bad)], states, 0, refusals).columns) == 0
    assert refusals.by_reason == {Reason.VALUE: 1} and time_of(states[1]) == 10 * S
    assert refusals.text().count(NAME) == 1


def test_histograms_are_put_on_the_axis_after_the_difference() -> None:
    states: dict[int, bytes] = {}
    first = RawExponential(1 * S, 10 * S, 6, -210, (4,), 1, 0.0, 0.6, 0.0, 0.11)
    second = RawExponential(1 * S, 20 * S, 5, -105, (4, 3), 1, 0.0, 1.1, 0.0, 0.12)
    for raw in (first, second):
        found = advance_all([point(raw)], states, 0, Refusals())
    rows = found.columns.histograms
    assert rows.cells.tolist() == [3] and rows.zero.tolist() == [0] and rows.error.tolist() == [RELATIVE_ERROR]
    assert rows.low.tolist() == [-104 + 640] and rows.total.tolist() == [pytest.approx(0.5)]
    assert rows.maximum.tolist() == [0.12] and rows.minimum[0] == pytest.approx(2 ** (-104 / 32))
