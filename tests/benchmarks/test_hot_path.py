"""The hot path's benchmark measures everybody, with the product's own code."""

import random
from typing import Any

import pytest

from agents.agent.reports.accumulator import Accumulator
from agents.engine.core.event_log import EventLog
from benchmarks import hot_path

VALUES = [0.01 + number / 1000 for number in range(96)]


@pytest.mark.slow
def test_each_contestant_is_measured_in_each_round() -> None:
    everybody = hot_path.contestants(VALUES)
    found = hot_path.measure(everybody, VALUES, 2, random.Random(1))
    assert set(found) == set(everybody)
    assert all(len(times) == 2 and min(times) >= 0 for times in found.values())


def test_the_engine_tells_every_value_it_was_given() -> None:
    log = EventLog()
    hot_path.engine_gaps(log, 8, with_metrics=False)(VALUES)
    events: list[Any] = log.after(0)
    assert [len(event["gaps"]) for event in events] == [8] * 12
    hot_path.engine_steps(log)(VALUES)
    assert len(log.after(0)) == 12 + len(VALUES) // hot_path.STEP_VALUES


@pytest.mark.parametrize("parsing", [False, True])
def test_the_agent_counts_every_value(monkeypatch: pytest.MonkeyPatch, parsing: bool) -> None:
    made: list[Accumulator] = []

    class Kept(Accumulator):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(hot_path, "Accumulator", Kept)
    hot_path.agent_gaps(VALUES, 8, parsing=parsing)(VALUES)
    hot_path.agent_steps(VALUES, parsing=parsing)(VALUES)
    counts = []
    for one in made:
        one.seal()
        (tally,) = one.take()
        (window,) = tally.windows.values()
        counts.append(sum(found.count for series in window.distributions.values() for found in series.values()))
    assert counts == [96, 6 * (len(VALUES) // hot_path.STEP_VALUES)]
