"""Loads of history give what the same reports give when they are sent live: each once, at every level, on SQLite and on
PostgreSQL, beside live reports of the same windows and whoever else loads the same."""

import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controlplane.contract.errors import BadRequest, Overloaded, TooLarge, Unavailable
from controlplane.contract.metrics import NODE
from controlplane.contract.reports.packed_report import REMEMBERED, PackedReport, encode
from controlplane.contract.reports.report_bundle import LIMIT_PLAIN, bundle
from controlplane.db.database import Database
from controlplane.telemetry import Question, Span
from controlplane.telemetry.folding import bulk
from controlplane.telemetry.folding.verify import verify
from controlplane.telemetry.frames.sql_frames import SqlFrames
from controlplane.telemetry.otlp.bounds import Sender
from controlplane.telemetry.reports.stream_identity import Sighting
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.values.refusal import Reason
from controlplane.telemetry.values.timespan import start_of
from tests.controlplane.telemetry.ingesting import started, written
from tests.controlplane.telemetry.packed_reports import NOW, WINDOW, report
from tests.made_tables import create_tables

pytestmark = pytest.mark.slow

HOUR = 720
"""Windows of an hour."""
FILE, LIVE = b"f" * 16, b"l" * 16


def clock() -> datetime:
    return NOW


class Stores:
    """Stores on one database, which are replicas of each other."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._made: list[TelemetryStore] = []

    def make(self) -> TelemetryStore:
        store = TelemetryStore(self.database, clock)
        store.start()
        self._made.append(store)
        return store

    def close(self) -> None:
        for store in self._made:
            store.close()


@pytest.fixture
def stores(any_database: Database) -> Iterator[Stores]:
    found = Stores(any_database)
    yield found
    found.close()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[TelemetryStore]:
    """A store that gets the same reports one by one."""
    database = Database(f"sqlite:///{tmp_path / 'live.db'}")
    create_tables(database)
    found = Stores(database)
    yield found.make()
    found.close()
    database.close()


def fleet(seed: int, first: int, *, spacing: int, count: int, nodes: int = 4) -> list[PackedReport]:
    """Windows of some nodes, each `spacing` after the other; some are missing, and some have other label sets."""
    rng = random.Random(seed)
    return [
        report(
            node=f"n{node}",
            window=first + place * spacing,
            label_sets=rng.choice((1, 2, 3)),
            seed=rng.randrange(1 << 30),
        )
        for place in range(count)
        for node in range(nodes)
        if rng.random() > 0.1
    ]


def part(reports: Sequence[PackedReport], number: int, stream: bytes = FILE) -> bytes:
    """One part of a bundle: the reports under one identity."""
    return bundle(encode(replace(one, stream=stream, ordinal=number)) for one in reports)


def split(reports: Sequence[PackedReport], parts: int) -> list[Sequence[PackedReport]]:
    size = -(-len(reports) // parts)
    return [reports[start : start + size] for start in range(0, len(reports), size)]


def send_live(store: TelemetryStore, reports: Sequence[PackedReport]) -> None:
    bodies = [encode(replace(one, stream=LIVE, ordinal=number)) for number, one in enumerate(reports, 1)]
    for future in [started(written(store, body)) for body in bodies]:
        future.result(30)


def same(one: TelemetryStore, other: TelemetryStore, reports: Sequence[PackedReport]) -> None:
    """Both stores answer alike: counts, sums, quantiles and values, by node and of the fleet, at each step."""
    windows = [section.window for found in reports for section in found.sections]
    start, end = start_of(min(windows) - HOUR), start_of(max(windows) + 1)
    for by in ((), ("node", "prompt_bucket")):
        for step_s in (5, 10, 60, 3600, None):
            answers = [
                store.histograms(Question("ttft", Span(start, end), by=by, step_s=step_s)) for store in (one, other)
            ]
            found, expected = ({str(series.labels): series for series in answer} for answer in answers)
            assert found.keys() == expected.keys() and found
            for labels, series in found.items():
                ours, theirs = (
                    [(None, series.total), *series.steps],
                    [(None, (of := expected[labels]).total), *of.steps],
                )
                assert [at for at, _ in ours] == [at for at, _ in theirs]
                for (_, sketch), (_, reference) in zip(ours, theirs, strict=True):
                    assert sketch.count == reference.count and sketch.total == pytest.approx(reference.total)
                    assert [sketch.quantile(q) for q in (0, 0.5, 0.99, 1)] == pytest.approx(
                        [reference.quantile(q) for q in (0, 0.5, 0.99, 1)]
                    )
            for metric in ("output_tokens", "running"):
                values = [
                    store.scalars(Question(metric, Span(start, end), by=by, step_s=step_s)) for store in (one, other)
                ]
                numbers, wanted = (
                    {(str(of.labels), at): value for of in answer for at, value in [(None, of.value), *of.steps]}
                    for answer in values
                )
                assert numbers == pytest.approx(wanted) and numbers


def count(store: TelemetryStore) -> int:
    """Values of ttft there are."""
    found = store.histograms(Question("ttft", Span(NOW - timedelta(days=3), NOW + timedelta(hours=1))))
    return sum(series.total.count for series in found)


def values(reports: Sequence[PackedReport]) -> int:
    """Values of ttft in reports."""
    return sum(
        sum(histogram.counts) + histogram.zero
        for found in reports
        for section in found.sections
        for histogram in section.histograms
        if histogram.metric == 0
    )


def sound(stores: Stores, store: TelemetryStore) -> bool:
    found = verify(stores.database, store.frames)
    assert found.findings.all == []
    return found.frames > 0


@pytest.mark.parametrize(
    ("age", "spacing", "windows"),
    [(30 * HOUR, 12, 30), (30 * HOUR, 2, 20), (3 * HOUR, 12, 20), (20, 1, 25)],
    ids=["a minute apart", "ten seconds apart", "all levels kept", "up to now and beyond"],
)
def test_loaded_history_is_what_live_reports_are(
    stores: Stores, live: TelemetryStore, age: int, spacing: int, windows: int
) -> None:
    reports = fleet(spacing, WINDOW - age, spacing=spacing, count=windows)
    send_live(live, reports)
    live.tick(NOW)
    store = stores.make()
    for number, some in enumerate(split(reports, 3), 1):
        (found,) = store.submit_bundle(part(some, number)).result(60).parts
        assert found.entry.accepted and not found.entry.repeated and not found.entry.refusals.any
    same(store, live, reports)
    assert sound(stores, store)
    for each in (store, live):
        each.tick(NOW + timedelta(minutes=10))
    same(store, live, reports)
    assert sound(stores, store)


def test_several_blocks_of_nodes_and_parts_of_several_files_in_a_bundle(stores: Stores, live: TelemetryStore) -> None:
    reports = fleet(5, WINDOW - 30 * HOUR, spacing=12, count=2, nodes=280)
    send_live(live, reports)
    live.tick(NOW)
    store = stores.make()
    some, others = split(reports, 2)
    found = store.submit_bundle(part(some, 1) + part(others, 1, b"g" * 16)).result(60)
    assert [one.rows for one in found.parts] == [one.entry.accepted for one in found.parts] and len(found.parts) == 2
    same(store, live, reports)
    assert sound(stores, store)


def test_a_part_counts_once_however_often_and_in_which_order_it_comes(stores: Stores) -> None:
    reports = fleet(7, WINDOW - 5 * HOUR, spacing=12, count=12)
    parts = [part(some, number) for number, some in enumerate(split(reports, 4), 1)]
    store = stores.make()
    for bodies in (parts[2], parts[0] + parts[1], parts[1] + parts[1], parts[0] + parts[3] + parts[2], b"".join(parts)):
        found = store.submit_bundle(bodies).result(60)
    assert [one.seen.sighting for one in found.parts] == [Sighting.REPEAT] * 4
    assert [one.entry.repeated for one in found.parts] == [one.rows for one in found.parts]
    assert count(store) == values(reports) and sound(stores, store)


def test_a_part_too_far_back_is_neither_counted_nor_lost_in_silence(stores: Stores) -> None:
    (one, *_), first = fleet(8, WINDOW - 5 * HOUR, spacing=12, count=2), REMEMBERED + 2
    store = stores.make()
    store.submit_bundle(part([one], first)).result(60)
    (found,) = store.submit_bundle(part([one], 1)).result(60).parts
    assert (found.seen.sighting, found.seen.high, found.entry.accepted) == (Sighting.TOO_OLD, first, 0)
    assert count(store) == values([one])


def test_a_part_in_anothers_place_is_refused_and_said_so(stores: Stores) -> None:
    one, other, *_ = fleet(8, WINDOW - 5 * HOUR, spacing=12, count=2)
    store = stores.make()
    store.submit_bundle(part([one], 1)).result(60)
    (found,) = store.submit_bundle(part([other], 1)).result(60).parts
    assert (found.seen.sighting, found.entry.accepted, found.entry.repeated) == (Sighting.OTHER, 0, 0)
    assert found.entry.refusals.by_reason == {Reason.OTHER: found.rows}
    assert count(store) == values([one])


def test_replicas_loading_the_same_beside_live_reports_and_folds(stores: Stores) -> None:
    loaded = fleet(9, WINDOW - 2 * HOUR, spacing=2, count=24)
    reported = fleet(10, WINDOW - 2 * HOUR, spacing=2, count=24)
    parts = [part(some, number) for number, some in enumerate(split(loaded, 6), 1)]
    both = [stores.make(), stores.make()]
    over = threading.Event()

    def fold() -> None:
        while not over.is_set():
            both[0].tick(NOW + timedelta(minutes=5))

    folding = threading.Thread(target=fold)
    folding.start()
    try:
        with ThreadPoolExecutor(5) as threads:
            work = [threads.submit(send_live, both[0], reported)]
            for store in both:
                work += [
                    threads.submit(lambda at=store, body=body: at.submit_bundle(body).result(60)) for body in parts
                ]
            for one in work:
                one.result(120)
    finally:
        over.set()
        folding.join()
    both[1].tick(NOW + timedelta(minutes=5))
    assert [count(store) for store in both] == [values(loaded) + values(reported)] * 2
    assert sound(stores, both[0])


def test_a_load_that_fails_in_the_middle_changes_nothing(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = fleet(11, WINDOW - 5 * HOUR, spacing=12, count=4)
    store = stores.make()
    with monkeypatch.context() as patch:
        original = SqlFrames.commit

        def failing(frames: SqlFrames, session: Any, fold: Any) -> bool:
            original(frames, session, fold)
            raise RuntimeError("the power went")

        patch.setattr(SqlFrames, "commit", failing)
        with pytest.raises(RuntimeError):
            store.submit_bundle(part(reports, 1)).result(60)
        waiting = [
            store.submit_bundle(part(some, number), sender=Sender("n1"))
            for number, some in enumerate(split(reports, 3), 7)
        ]
        for one in waiting:  # Together or one by one.
            with pytest.raises(RuntimeError):
                one.result(60)
    assert count(store) == 0
    (found,) = store.submit_bundle(part(reports, 1)).result(60).parts
    assert found.entry.accepted == found.rows and count(store) == values(reports) and sound(stores, store)


def test_somebody_else_is_first(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = fleet(12, WINDOW - 5 * HOUR, spacing=12, count=6)
    first, second = (part(some, number) for number, some in enumerate(split(reports, 2), 1))
    store, other = stores.make(), stores.make()
    original, raced = SqlFrames.prepare, threading.Event()

    def racing(frames: SqlFrames, fold: Any) -> None:
        if not raced.is_set():
            raced.set()
            with monkeypatch.context() as patch:
                patch.setattr(other._bulk, "_turn", stores.make()._bulk._turn)
                if stores.database.is_sqlite:
                    other.submit_bundle(first).result(60)
        original(frames, fold)

    monkeypatch.setattr(SqlFrames, "prepare", racing)
    loaded = store.submit_bundle(first + second).result(60)
    again = Sighting.REPEAT if stores.database.is_sqlite else Sighting.NEW
    assert [one.seen.sighting for one in loaded.parts] == [again, Sighting.NEW]
    assert count(store) == values(reports) and sound(stores, store)


def test_what_cannot_be_kept_is_refused_row_by_row_and_bundles_that_do_not_read_as_a_whole(stores: Stores) -> None:
    store = stores.make()
    good, bad = report(node="n1", window=WINDOW - HOUR), report(node="n2", window=WINDOW - HOUR)
    (found,) = store.submit_bundle(part([good, bad], 1), sender=Sender("n1")).result(60).parts
    assert found.entry.refusals.by_reason == {Reason.NODE: found.rows // 2} and found.entry.accepted == found.rows // 2
    (found,) = store.submit_bundle(part([bad], 2), sender=Sender("n1")).result(60).parts
    assert found.entry.accepted == found.entry.repeated == 0
    # Its place was not taken: the right sender may still send it.
    (found,) = store.submit_bundle(part([bad], 2), sender=Sender("n2")).result(60).parts
    assert found.entry.accepted == found.rows
    for body in (b"\1", part([good], 3)[:-1], bundle([b"TTR1"])):
        with pytest.raises(BadRequest):
            store.submit_bundle(body).result(60)
    with pytest.raises(TooLarge):
        store.submit_bundle(bytes(LIMIT_PLAIN + 1)).result(60)
    assert count(store) == values([good, bad]) and NODE.name in good.resource


def test_more_than_may_wait_is_put_off_and_nothing_is_taken_once_it_is_closed(stores: Stores) -> None:
    store = stores.make()
    body = part([report(window=WINDOW - HOUR)], 1)
    with store._bulk._turn.take():  # As a long fold holds it.
        waiting = [store.submit_bundle(body) for _ in range(bulk.QUEUE_LIMIT)]
        with pytest.raises(Overloaded):
            for _ in range(10_000):
                waiting.append(store.submit_bundle(body))
    assert sum(one.entry.accepted > 0 for future in waiting for one in future.result(60).parts) == 1
    store.close()
    with pytest.raises(Unavailable):
        store.submit_bundle(body)
