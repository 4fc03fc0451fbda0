"""Levels are exactly the sums of what came in, whatever the order, and however late."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import insert

from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.contract.metrics import MetricKind
from controlplane.db.database import Database
from controlplane.telemetry.folding.verify import verify
from controlplane.telemetry.frames import frame
from controlplane.telemetry.frames.block import HistogramBlock, ScalarBlock
from controlplane.telemetry.frames.frame_store import FrameKey, ReadPoint
from controlplane.telemetry.frames.gather import FLEET
from controlplane.telemetry.journal import pending
from controlplane.telemetry.otlp.labels import hash64
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.tables import LabelsRow, MetricRow, NodeRow, PendingRow
from controlplane.telemetry.values.columns import Columns, HistogramRows, NumberRows
from controlplane.telemetry.values.levels import BASE_S, COARSER
from controlplane.telemetry.values.timespan import to_ns
from tests.made_tables import create_tables

pytestmark = pytest.mark.slow

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LAST = int(NOW.timestamp()) // BASE_S
"""The window that begins now."""
NODES = (1, 127, 128)
"""Node ids: the last one is in another block."""
FLEET_SET = 1
SPAN_S = 3 * 3600
POINT = st.tuples(st.integers(1, SPAN_S // BASE_S), st.sampled_from(NODES), st.integers(0, 30), st.integers(1, 400))
"""Windows ago, node, position on the axis (beyond 900 of it), count."""
COMMIT = st.lists(POINT, min_size=1, max_size=5)


def labels_id(node: int) -> int:
    return NODES.index(node) + 2


def columns(points: list[tuple[int, int, int, int]]) -> Columns:
    n = len(points)
    window = np.array([LAST - ago for ago, *_ in points], np.int64)
    labels = np.array([labels_id(node) for _, node, _, _ in points], np.int32)

    def ids(value: int) -> np.ndarray:
        return np.full(n, value, np.int32)

    low = np.array([900 + at for _, _, at, _ in points], np.int32)
    count = np.array([count for *_, count in points], np.uint16)
    histograms = HistogramRows(
        window, ids(1), labels, low, ids(1), count, np.zeros(n, np.int64), count * 0.5, np.full(n, 0.25),
        np.full(n, 4.0), np.full(n, RELATIVE_ERROR),
    )  # fmt: skip
    time_ns = (window + 1) * BASE_S * 10**9
    sums = NumberRows(window, ids(2), labels, count.astype(float), time_ns)
    return Columns(histograms, sums, NumberRows(window, ids(3), labels, count.astype(float), time_ns))


def given_names(database: Database) -> None:
    with database.session() as session:
        kinds = (MetricKind.HISTOGRAM, MetricKind.SUM, MetricKind.GAUGE)
        metrics = [{"name": f"tailwright.m{kind.value}", "kind": kind.value} for kind in kinds]
        session.execute(insert(MetricRow), metrics)
        session.execute(insert(NodeRow), [{"id": node, "name": f"n{node}"} for node in NODES])
        sets = [("{}", None, 0)] + [(f'{{"node":"n{node}"}}', FLEET_SET, node // 128) for node in NODES]
        same = {"tenant": "", "used_ns": to_ns(NOW)}
        session.execute(insert(LabelsRow), [
            {**same, "key": hash64(text.encode()), "labels": text, "fleet_id": fleet, "block": block}
            for text, fleet, block in sets
        ])  # fmt: skip


def expected_of(
    commits: list[list[tuple[int, int, int, int]]], resolution: int
) -> tuple[dict[tuple[int, int, int], dict[int, int]], dict[tuple[int, int, int], float]]:
    """(window, block, labels) to counts by position, and to sums: added up point by point."""
    counts: dict[tuple[int, int, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    sums: dict[tuple[int, int, int], float] = defaultdict(float)
    for commit in commits:
        for ago, node, at, count in commit:
            window = (LAST - ago) * BASE_S // resolution
            for block, labels in ((node // 128, labels_id(node)), (FLEET, FLEET_SET)):
                counts[window, block, labels][900 + at] += count
                sums[window, block, labels] += count
    return counts, sums


def stored(store: TelemetryStore, database: Database, resolution: int) -> tuple[dict, dict, int]:  # type: ignore[type-arg]
    counts, sums = {}, {}
    with database.snapshot() as connection:
        moment = ReadPoint(connection, store.frames.state(connection))
        for metric in store.frames.metrics(moment, resolution, 0, 2**40):
            for key, data in store.frames.read(moment, resolution, metric, None, 0, 2**40):
                assert isinstance(key, FrameKey)
                block = frame.decode(data)
                for i, labels in enumerate(block.labels.tolist()):
                    if isinstance(block, HistogramBlock):
                        row = {block.low + j: count for j, count in enumerate(block.counts[i].tolist()) if count}
                        counts[key.window, key.block, labels] = row
                        assert block.total[i] == sum(row.values()) * 0.5
                    elif isinstance(block, ScalarBlock) and block.kind is MetricKind.SUM:
                        sums[key.window, key.block, labels] = float(block.value[i])
        return counts, sums, moment.state.levels[resolution].built_to


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(COMMIT, st.integers(0, 1)), min_size=1, max_size=8))
def test_every_level_is_the_sum_of_what_came_in(script: list[tuple[list[tuple[int, int, int, int]], int]]) -> None:
    with TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{Path(folder) / 'tailwright.db'}")
        create_tables(database)
        given_names(database)
        now = [NOW]
        store = TelemetryStore(database, lambda: now[0])
        commits = []
        for points, folds in script:
            commits.append(points)
            windows = [LAST - ago for ago, *_ in points]
            row = {"first_window": min(windows), "last_window": max(windows), "written_at": now[0]}
            with database.session() as session:
                session.execute(insert(PendingRow), [{**row, "points": pending.encode(columns(points))}])
            if folds:
                now[0] += timedelta(seconds=40)
                store.tick(now[0])
        store.tick(now[0] + timedelta(hours=2))  # Everything is sealed and built.
        for resolution in (BASE_S, *COARSER):
            counts, sums, built_to = stored(store, database, resolution)
            assert (counts, sums) == expected_of(commits, resolution)
            assert resolution == BASE_S or built_to * resolution >= NOW.timestamp()
        assert [str(finding) for finding in verify(database, store.frames).findings.all] == []
        database.close()
