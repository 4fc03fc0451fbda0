"""Tables of windows: each step read once, what is absent absent, gauges of wide windows held through them."""

from datetime import timedelta
from typing import Any

import numpy as np

from controlplane.alerts.windows.window_table import Source, WindowTable

MAIN = {"main": {"pool": "main"}}
KV = Source("kv_usage", 5.0)


def filled(telemetry: Any, plant: Any, *values: float | None) -> int:
    """One window a value, from the plant's now on; returns the first step."""
    for place, value in enumerate(values):
        if value is not None:
            telemetry.add("kv_usage", plant.now + timedelta(seconds=5 * place), value, pool="main", node="a")
    return round(plant.now.timestamp() / 5)


def series(table: WindowTable, first: int, last: int) -> list[float]:
    return np.round(table.of("main", None, first, last)["a",][:, 0], 3).tolist()


def test_what_moves_on_is_read_once_and_what_is_absent_stays_so(telemetry: Any, plant: Any) -> None:
    first = filled(telemetry, plant, 0.1, None, 0.3, 0.4)
    table = WindowTable(KV)
    table.cover(telemetry, MAIN, first, first + 3)
    table.cover(telemetry, MAIN, first + 1, first + 4)
    table.cover(telemetry, MAIN, first + 1, first + 4)
    spans = [(question.span.start, question.span.end) for question in telemetry.asked]
    at = [plant.now + timedelta(seconds=5 * place) for place in (0, 3, 4)]
    assert spans == [(at[0], at[1]), (at[1], at[2])]
    found = series(table, first + 1, first + 4)
    assert np.isnan(found[0]) and found[1:] == [0.3, 0.4]


def test_a_long_run_keeps_only_what_is_looked_at(telemetry: Any, plant: Any) -> None:
    first = filled(telemetry, plant, *(0.001 * place for place in range(400)))
    table = WindowTable(KV)
    for end in range(first + 12, first + 400):
        table.cover(telemetry, MAIN, end - 12, end)
        assert series(table, end - 12, end) == [round(0.001 * (step - first), 3) for step in range(end - 12, end)]
    assert table._values.shape[1] < 100


def test_a_pool_that_joins_and_a_past_that_is_wanted_are_read_anew(telemetry: Any, plant: Any) -> None:
    first = filled(telemetry, plant, 0.1, 0.2, 0.3)
    telemetry.add("kv_usage", plant.now, 0.9, pool="other", node="b")
    table = WindowTable(KV)
    table.cover(telemetry, MAIN, first + 1, first + 3)
    table.cover(telemetry, {**MAIN, "other": {"pool": "other"}}, first, first + 3)
    assert series(table, first, first + 3) == [0.1, 0.2, 0.3]
    assert table.of("other", None, first, first + 1)["b",][0, 0] == 0.9
    assert table.of("main", ["b"], first, first + 3) == {}


def test_a_gauge_of_a_minute_holds_for_that_minute_and_no_longer(telemetry: Any, plant: Any) -> None:
    first = filled(telemetry, plant, 0.5, *([None] * 11), None, *([None] * 11), 0.7)
    table = WindowTable(KV, width_s=60.0)
    table.cover(telemetry, MAIN, first, first + 36)
    found = series(table, first, first + 36)
    assert found[:12] == [0.5] * 12 and np.isnan(found[12:24]).all() and found[24:] == [0.7] * 12
