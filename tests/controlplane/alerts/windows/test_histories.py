"""Histories of many pools: read together, equal to each read by itself, and no pool's failure is another's."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.alerts.windows.histories import Histories, Wanted
from controlplane.alerts.windows.history import History, extend
from controlplane.alerts.windows.node_levels import MOST_NODES
from controlplane.contract.metrics import E2E, ITL, PREFILL, PROMPT_TOKENS, REQUESTS, RUNNING, TTFT, WAITING
from controlplane.telemetry import Question
from tests.controlplane.alerts.conftest import START, sketch_of
from tests.controlplane.telemetry.fake_reader import FakeReader

METRICS = (E2E.short, TTFT.short)
WITH_NODES = (E2E.short, PREFILL.short)
ONCE = Counter(
    ["histograms e2e", "histograms ttft", "scalars requests", "counts e2e", "scalars running", "scalars waiting"]
)


class Counting:
    """A reader that counts what is asked of another, and fails where a pool is asked for."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.calls: Counter[str] = Counter()
        self.failing = ""

    def __getattr__(self, name: str) -> Any:
        def ask(question: Question) -> Any:
            self.calls[f"{name} {question.metric}"] += 1
            if self.failing and self.failing in question.where["pool"]:
                raise RuntimeError("no telemetry")
            return getattr(self._reader, name)(question)

        return ask


def wanted(start_s: float, pools: Sequence[str], metrics: tuple[str, ...] = METRICS) -> dict[str, Wanted]:
    return {pool: Wanted({"pool": pool}, metrics, start_s, start_s) for pool in pools}


def told_of(history: History) -> Any:
    return (
        history.start_s,
        history.end_s,
        [
            (window.start_s, window.load, metric, bucket, tail.low, tail.tail.tolist(), tail.count, tail.relative_error)
            for window in history.windows
            for metric, tails in sorted(window.tails.items())
            for bucket, tail in sorted(tails.items())
        ],
        [
            (window.start_s, metric, dict(zip(levels.keys, levels.figures.T.round(9).tolist(), strict=True)))
            for window in history.windows
            for metric, levels in window.nodes.items()
        ],
    )


def told(histories: Histories, pool: str) -> Any:
    history = histories.get(pool)
    return None if history is None else told_of(history)


points = st.lists(
    st.tuples(
        st.sampled_from([E2E.short, PREFILL.short, PREFILL.short, REQUESTS.short, RUNNING.short, WAITING.short]),
        st.integers(0, 80),  # Window.
        st.sampled_from(["a", "b", "c"]),  # Pool.
        st.sampled_from(["x", "y"]),  # Node, within its pool.
        st.sampled_from(["", "<=128", "<=512"]),
        st.integers(1, 9),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(points, st.lists(st.integers(1, 80), min_size=1, max_size=4).map(sorted))
def test_read_together_is_as_read_alone(given_points: list[Any], ends: list[int]) -> None:
    telemetry, start_s = FakeReader(), START.timestamp()
    for metric, window, pool, node, bucket, amount in sorted(given_points, key=lambda point: point[1]):
        labels = {"pool": pool, "node": pool + node, "prompt_bucket": bucket}
        time = START + timedelta(seconds=5 * window)
        if metric in WITH_NODES:
            telemetry.add(metric, time, sketch_of(0.01 * np.arange(1, amount + 1)), **labels)
        else:
            telemetry.add(metric, time, float(amount), **labels)
    together = Histories(telemetry)
    alone = {pool: History({"pool": pool}, WITH_NODES, start_s) for pool in "abc"}
    for end in ends:
        together.extend(wanted(start_s, "abc", WITH_NODES), start_s + 5 * end)
        for pool, history in alone.items():
            extend(telemetry, [history], start_s + 5 * end)
            assert told(together, pool) == told_of(history)


@pytest.mark.parametrize(("metric", "tokens"), [(PREFILL.short, {"<=512": 300.0}), (ITL.short, {})])
def test_prompt_tokens_come_with_prefill(metric: str, tokens: dict[str, float]) -> None:
    telemetry = FakeReader()
    for node, amount in (("a", 100.0), ("b", 200.0)):
        labels = {"pool": "main", "node": node, "prompt_bucket": "<=512"}
        telemetry.add(metric, START, sketch_of([0.1]), **labels)
        telemetry.add(PROMPT_TOKENS.short, START, amount, **labels)
    history = History({"pool": "main"}, (metric,), START.timestamp())
    extend(telemetry, [history], START.timestamp() + 5)
    assert [window.tokens for window in history.windows] == [tokens]


@pytest.mark.parametrize(
    ("nodes", "metric", "is_told"),
    [
        (1, PREFILL.short, False),
        (2, PREFILL.short, True),
        (2, ITL.short, True),
        (2, TTFT.short, False),
        (MOST_NODES, PREFILL.short, True),
        (MOST_NODES + 1, PREFILL.short, False),
    ],
)
def test_nodes_are_told_apart_where_they_are_few_and_nothing_waits(nodes: int, metric: str, is_told: bool) -> None:
    telemetry, start_s, windows = FakeReader(), START.timestamp(), 30
    for window in range(windows):
        for node in range(nodes):
            labels = {"pool": "main", "node": f"n{node}"}
            time = START + timedelta(seconds=5 * window)
            telemetry.add(metric, time, sketch_of([0.1 * (1 + node % 2)] * 3), prompt_bucket="<=512", **labels)
            telemetry.add(RUNNING.short, time, 1.0, **labels)
    history = History({"pool": "main"}, (metric,), start_s)
    extend(telemetry, [history], start_s + 5 * windows)
    assert [set(window.nodes) for window in history.windows] == [{metric} if is_told else set()] * windows
    for window in history.windows if is_told else ():
        levels = window.nodes[metric]
        means = dict(zip(levels.keys, levels.figures[1] / levels.figures[0], strict=True))
        assert len(means) == nodes
        assert means["n1", "<=512"] - means["n0", "<=512"] == pytest.approx(np.log(2.0), abs=0.03)


@pytest.fixture
def fleet(telemetry: Any, new_plant: Any) -> Callable[[int], "Fleet"]:
    return lambda pools: Fleet(telemetry, [new_plant(telemetry, pool=f"p{n}", node=f"n{n}") for n in range(pools)])


class Fleet:
    """Plants of one telemetry, and the histories of their pools through a reader that counts."""

    def __init__(self, telemetry: Any, plants: Sequence[Any]) -> None:
        self.telemetry, self.plants = telemetry, plants
        self.reader = Counting(telemetry)
        self.histories = Histories(self.reader)
        self.wanted = wanted(plants[0].now.timestamp(), [plant.pool for plant in plants])

    def tick(self, seconds: float = 5.0) -> Counter[str]:
        """Serve and extend; what was asked."""
        for plant in self.plants:
            plant.serve(seconds)
        self.reader.calls.clear()
        self.histories.extend(self.wanted, self.plants[0].now.timestamp())
        return self.reader.calls

    def windows(self) -> list[int | None]:
        found = [self.histories.get(plant.pool) for plant in self.plants]
        return [None if history is None else len(history.windows) for history in found]


@pytest.mark.parametrize("pools", [1, 2, 12])
def test_many_pools_cost_one_read_a_metric(fleet: Callable[[int], Fleet], pools: int) -> None:
    many = fleet(pools)
    for _ in range(3):
        assert many.tick() == ONCE
    assert many.windows() == pools * [3]


def test_a_pool_of_which_nodes_are_left_out_is_read_by_itself(fleet: Callable[[int], Fleet]) -> None:
    many = fleet(4)
    many.wanted["p3"] = many.wanted["p3"]._replace(where={"pool": "p3", "node": ["n3"]})
    assert many.tick() == ONCE + ONCE
    assert many.windows() == [1, 1, 1, 1]
    many.wanted["p3"] = many.wanted["p3"]._replace(where={"pool": "p3", "node": []})
    many.tick()
    assert many.windows() == [2, 2, 2, 0]  # Another filter is another history.


def test_what_fails_for_one_pool_costs_no_other_its_history(fleet: Callable[[int], Fleet]) -> None:
    many = fleet(3)
    many.tick()
    many.reader.failing = "p1"
    many.tick()
    assert many.windows() == [2, None, 2]
    many.reader.failing = ""
    many.tick()
    assert many.windows() == [3, 3, 3]  # Read anew from its beginning, by itself.
    assert many.tick() == ONCE  # And from then on with the others.


def test_hours_of_silence_are_skipped(telemetry: Any, new_plant: Any) -> None:
    plant = new_plant(telemetry)
    reader = Counting(telemetry)
    plant.now += timedelta(hours=3)
    plant.serve(60)
    plant.now += timedelta(hours=3)
    plant.serve(60)
    start_s = START.timestamp()
    histories = Histories(reader)
    histories.extend(wanted(start_s, [plant.pool]), plant.now.timestamp())
    assert reader.calls["histograms ttft"] <= 4
    history = histories.get(plant.pool)
    assert history is not None and len(history.windows) == 24 and history.end_s == plant.now.timestamp()
