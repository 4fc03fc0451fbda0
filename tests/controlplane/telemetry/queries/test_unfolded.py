"""What is remembered of the head is the sum of exactly the rows that a snapshot has."""

from collections.abc import Sequence

import numpy as np
import pytest
from sqlalchemy import Connection, delete
from sqlmodel import col

from controlplane.contract import metrics
from controlplane.contract.metrics import MetricKind
from controlplane.db.database import Database
from controlplane.telemetry.folding.head import Head
from controlplane.telemetry.frames.block import HistogramBlock, ScalarBlock
from controlplane.telemetry.journal.names import Names
from controlplane.telemetry.queries import unfolded
from controlplane.telemetry.queries.unfolded import FleetRuns, Unfolded
from controlplane.telemetry.tables import PendingRow
from tests.controlplane.telemetry.folding.test_head import write
from tests.controlplane.telemetry.packed_reports import WINDOW

Found = tuple[dict[int, int], dict[int, float]]


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfolded, "RUN", 3)


def read(connection: Connection, names: Names, runs: FleetRuns, head: Head, first: int, last: int) -> Found:
    """By the second a window begins at: values of the histogram, and the sum of tokens."""
    found = Unfolded(connection, head, runs, first, last)
    values: dict[int, int] = {}
    tokens: dict[int, float] = {}
    histogram = names.metric_id(metrics.TTFT.name, MetricKind.HISTOGRAM)
    number = names.metric_id(metrics.OUTPUT_TOKENS.name, MetricKind.SUM)
    assert histogram is not None and number is not None
    for seconds, block in found.of_fleet(MetricKind.HISTOGRAM, histogram):
        assert isinstance(block, HistogramBlock)
        for second, count in zip(seconds.tolist(), block.counts.sum(axis=1).tolist(), strict=True):
            values[second] = values.get(second, 0) + count
    for seconds, block in found.of_fleet(MetricKind.SUM, number):
        assert isinstance(block, ScalarBlock)
        for second, value in zip(seconds.tolist(), block.value.tolist(), strict=True):
            tokens[second] = tokens.get(second, 0.0) + value
    return values, tokens


def expected(windows: Sequence[int]) -> Found:
    """Each write is of two nodes: three values and three tokens a node and window."""
    distinct = sorted(set(windows))
    return (
        {5 * window: 6 * windows.count(window) for window in distinct},
        {5 * window: 6.0 * windows.count(window) for window in distinct},
    )


def test_it_follows_what_is_written_and_folded(any_database: Database) -> None:
    names = Names()
    head = Head(names)
    runs = FleetRuns(head)
    numbers: list[int] = []
    for ordinal in range(1, 9):
        numbers.append(write(any_database, names, [WINDOW + ordinal // 4], ordinal))
        with any_database.snapshot() as connection:
            windows = [WINDOW + one // 4 for one in range(1, ordinal + 1)]
            assert read(connection, names, runs, head, WINDOW, WINDOW + 9) == expected(windows)
            only = [window for window in windows if window == WINDOW]
            assert read(connection, names, runs, head, WINDOW, WINDOW + 1) == expected(only)
    with any_database.snapshot() as before:
        assert read(before, names, runs, head, WINDOW, WINDOW + 9) == expected(windows)
        with any_database.session() as session:
            session.execute(delete(PendingRow).where(col(PendingRow.id).in_(numbers[:2])))
        head.drop(numbers[:2])
        assert read(before, names, runs, head, WINDOW, WINDOW + 9) == expected(windows)
        with any_database.snapshot() as after:
            assert read(after, names, runs, head, WINDOW, WINDOW + 9) == expected(windows[2:])


def test_a_run_is_added_up_once_and_memory_is_bounded(any_database: Database) -> None:
    names = Names()
    head = Head(names)
    numbers = [write(any_database, names, [WINDOW], ordinal) for ordinal in range(1, 9)]
    with any_database.snapshot() as connection:
        runs = FleetRuns(head)
        first = runs.of(connection, numbers[:3])
        assert runs.of(connection, numbers[:3]) is first
        small = FleetRuns(head, held_bytes=runs._runs.currsize)
        one = small.of(connection, numbers[:3])
        assert small.of(connection, numbers[3:6]).keys() == one.keys()
        assert len(small._runs) == 1 and small.of(connection, numbers[:3]) is not one


def test_a_run_with_a_row_that_was_folded_is_forgotten(any_database: Database) -> None:
    names = Names()
    head = Head(names)
    runs = FleetRuns(head)
    numbers = [write(any_database, names, [WINDOW], ordinal) for ordinal in range(1, 7)]
    with any_database.snapshot() as connection:
        runs.of(connection, numbers[:3])
        whole = runs.of(connection, numbers[3:])
    runs.keep(numbers[1:])
    assert list(runs._runs) == [tuple(numbers[3:])]
    with any_database.snapshot() as connection:
        assert runs.of(connection, numbers[3:]) is whole


def test_nodes_are_read_row_by_row(any_database: Database) -> None:
    names = Names()
    for ordinal in (1, 2):
        write(any_database, names, [WINDOW], ordinal)
    metric = names.metric_id(metrics.TTFT.name, MetricKind.HISTOGRAM)
    assert metric is not None
    head = Head(names)
    with any_database.snapshot() as connection:
        found = Unfolded(connection, head, FleetRuns(head), WINDOW, WINDOW + 1)
        blocks = [block for _, block in found.of_nodes(MetricKind.HISTOGRAM, metric)]
        assert [len(block) for block in blocks] == [4, 4]
        labels = names.labels(connection, np.concatenate([block.labels for block in blocks]).tolist())
        assert {one["node"] for one in labels.values()} == {"a", "b"}
        assert list(Unfolded(connection, head, FleetRuns(head), 0, 1).of_fleet(MetricKind.HISTOGRAM, metric)) == []
