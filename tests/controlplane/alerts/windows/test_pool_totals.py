"""Totals of pools for absolute limits: one read for all that can share it, equal to each read by itself."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from controlplane.alerts.windows.pool_totals import PoolTotals
from controlplane.telemetry import Question, Span


@pytest.fixture
def asked(telemetry: Any, new_plant: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The filters of all reads; four pools have served a minute."""
    for number in range(4):
        new_plant(telemetry, pool=f"p{number}", node=f"n{number}", seed=number).serve(60)
    found: list[Any] = []
    histograms = telemetry.histograms

    def noted(question: Question) -> Any:
        found.append(question.where)
        if question.where["pool"] == failing:
            raise RuntimeError("no telemetry")
        return histograms(question)

    failing = ["p0", "p1", "p2"]
    monkeypatch.setattr(telemetry, "histograms", noted)
    return found


def span_of(plant: Any) -> tuple[datetime, datetime]:
    return plant.now, plant.now + timedelta(seconds=30)


def test_shared_and_as_read_alone(telemetry: Any, plant: Any, asked: list[Any]) -> None:
    wheres = {f"p{number}": {"pool": f"p{number}"} for number in range(4)}
    totals = PoolTotals(telemetry, wheres)
    for _ in range(2):
        for pool in wheres:
            total = totals.of(pool, "ttft", *span_of(plant))
            (alone,) = type(telemetry).histograms(
                telemetry, Question("ttft", Span(*span_of(plant)), where=wheres[pool])
            )
            assert total.count > 0 and (total.counts == alone.total.counts).all()
            assert (total.total, total.minimum, total.maximum) == pytest.approx(
                (alone.total.total, alone.total.minimum, alone.total.maximum)
            )
    assert asked == [{"pool": ["p0", "p1", "p2", "p3"]}]
    assert totals.of("p0", "prefill", *span_of(plant)).count > 0
    assert totals.of("p0", "tpot", *span_of(plant)).count == 0
    assert len(asked) == 3


def test_left_out_nodes_are_read_by_themselves(telemetry: Any, plant: Any, asked: list[Any]) -> None:
    other = {"pool": "p3", "node": ["n3"]}
    totals = PoolTotals(telemetry, {"p0": {"pool": "p0"}, "p1": {"pool": "p1"}, "p3": other})
    for pool in ("p0", "p1", "p3", "p3"):
        assert totals.of(pool, "ttft", *span_of(plant)).count > 0
    assert asked == [{"pool": ["p0", "p1"]}, other]


def test_where_reading_together_fails_each_is_read_alone(telemetry: Any, plant: Any, asked: list[Any]) -> None:
    wheres = {f"p{number}": {"pool": f"p{number}"} for number in range(3)}
    totals = PoolTotals(telemetry, wheres)
    assert all(totals.of(pool, "ttft", *span_of(plant)).count > 0 for pool in wheres)
    assert asked == [{"pool": ["p0", "p1", "p2"]}, *wheres.values()]
