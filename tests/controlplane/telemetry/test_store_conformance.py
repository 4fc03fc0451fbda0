"""What the store promises, on SQLite and on PostgreSQL."""

import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from sqlalchemy import delete, func, select
from sqlmodel import SQLModel, col

from controlplane.contract import metrics
from controlplane.contract.errors import Overloaded, Unavailable
from controlplane.contract.metrics import WINDOW_S
from controlplane.db.database import Database
from controlplane.telemetry import Question, Span
from controlplane.telemetry.folding.retention import Retention
from controlplane.telemetry.folding.verify import verify
from controlplane.telemetry.frames.frame_store import ReadPoint
from controlplane.telemetry.frames.sql_frames import SqlFrames
from controlplane.telemetry.journal import journal, record_rows, writer
from controlplane.telemetry.journal.journal import Entry
from controlplane.telemetry.otlp.bounds import ANYONE, Sender
from controlplane.telemetry.otlp.otlp_bodies import PROTOBUF
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.tables import FrameRow, LabelsRow, PendingRow, RequestRow, SeenRow
from controlplane.telemetry.values.levels import Level
from controlplane.telemetry.values.timespan import to_ns
from tests.controlplane.telemetry.ingesting import ingest_metrics, ingest_traces, settled, started, submitted
from tests.made_tables import create_tables

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        found = Database(f"sqlite:///{tmp_path / 'tailwright.db'}")
    else:
        found = Database(request.getfixturevalue("postgres_schema_url"))
    create_tables(found)
    yield found
    found.close()


def resolutions(database: Database) -> set[int]:
    with database.session() as session:
        return set(session.execute(select(col(FrameRow.resolution)).distinct()).scalars())


def rows(database: Database, table: type[SQLModel]) -> int:
    with database.session() as session:
        return int(session.execute(select(func.count()).select_from(table)).scalar_one())


class TestTelemetryStore:
    @pytest.fixture(autouse=True)
    def _given(self, store: TelemetryStore, database: Database, clock: Any, make_report: Any, start: datetime) -> None:
        self.store, self.database, self.clock, self.report, self.start = store, database, clock, make_report, start

    def at(self, seconds: float) -> datetime:
        return self.start + timedelta(seconds=seconds)

    def count(self, store: TelemetryStore | None = None, metric: str = "ttft") -> int:
        found = (store or self.store).histograms(Question(metric, Span(self.at(-3600), self.at(3600))))
        return sum(series.total.count for series in found)

    def send(self, seconds: float, values: list[float], node: str = "n1") -> Any:
        report = self.report(node=node, start=self.at(seconds))
        report.histogram(values, model="m")
        report.number(metrics.OUTPUT_TOKENS.name, len(values))
        report.number(metrics.KV_USAGE.name, seconds, kind="gauge")
        return ingest_metrics(self.store, report.request), report.request

    def test_what_is_acknowledged_is_visible_at_once(self) -> None:
        outcome, _ = self.send(0, [0.1, 0.2])
        assert (outcome.accepted, outcome.repeated, outcome.refusals.count) == (3, 0, 0)
        assert self.count() == 2
        assert self.store.latest() == self.at(WINDOW_S)

    def test_a_repeat_is_counted_once_before_and_after_a_fold_and_a_restart(self) -> None:
        _, request = self.send(0, [0.1, 0.2])
        again = ingest_metrics(self.store, request)
        assert (again.accepted, again.repeated) == (0, 3)
        assert self.store.tick(self.clock() + timedelta(hours=1)) > 0
        assert rows(self.database, PendingRow) == 0
        assert ingest_metrics(self.store, request).repeated == 3
        self.store.close()
        reopened = TelemetryStore(self.database, self.clock)
        reopened.start()
        try:
            assert ingest_metrics(reopened, request).repeated == 3
            assert self.count(reopened) == 2
        finally:
            reopened.close()

    def test_a_repeat_in_other_batches_is_recognised_point_by_point(self) -> None:
        first, second = self.report(), self.report(node="n2")
        first.histogram([0.1], model="a")
        first.histogram([0.2], model="b")
        second.histogram([0.3], model="a")
        part = type(first.request)()
        part.CopyFrom(first.request)
        del part.resource_metrics[0].scope_metrics[0].metrics[1:]
        assert ingest_metrics(self.store, part).accepted == 1
        together = type(first.request)()
        together.MergeFrom(second.request)
        together.MergeFrom(first.request)
        outcome = ingest_metrics(self.store, together)
        assert (outcome.accepted, outcome.repeated) == (2, 1)
        assert self.count() == 3

    def test_the_same_point_twice_in_one_request_counts_once(self) -> None:
        report = self.report()
        report.histogram([0.1])
        report.request.MergeFrom(report.request.__deepcopy__())
        outcome = ingest_metrics(self.store, report.request)
        assert (outcome.accepted, outcome.repeated) == (1, 1)

    def test_points_that_differ_in_an_attribute_that_is_no_label_are_two(self) -> None:
        report = self.report()
        for place in ("x", "y"):
            item = report.histogram([0.1]).attributes.add(key="server.address")
            item.value.string_value = place
        assert ingest_metrics(self.store, report.request).accepted == 2
        assert self.count() == 2
        self.store.tick(self.clock())
        assert self.count() == 2

    def test_folding_changes_nothing_that_is_read(self) -> None:
        for i in range(8):
            for node in ("a", "b"):
                self.send(5 * i, [0.1 * (i + 1), 1.0], node)

        def everything() -> Any:
            span = (self.at(0), self.at(40))
            histograms = self.store.histograms(Question("ttft", Span(*span), by=["node"], step_s=10))
            return (
                [(one.labels, one.total.counts.tolist(), one.total.total, one.total.minimum, one.total.maximum,
                  [(time, part.count, part.quantile(0.9)) for time, part in one.steps]) for one in histograms],
                self.store.scalars(Question("output_tokens", Span(*span), by=["node"], step_s=10)),
                self.store.scalars(Question("kv_usage", Span(*span), step_s=10)),
            )  # fmt: skip

        before = everything()
        self.clock.now = self.at(41)
        # Three metrics of one block, two of them for the fleet too; of 10 s windows one less: the last ones are open.
        assert self.store.tick(self.clock()) == 5 * 4 + 5 * 2
        assert rows(self.database, PendingRow) == 8
        assert everything() == before
        assert self.store.tick(self.clock() + timedelta(hours=1)) > 0
        assert rows(self.database, PendingRow) == 0
        assert everything() == before

    def test_pending_ids_are_never_used_twice(self) -> None:
        # Decoded rows are cached by their id: one that came back would be read as what it once was.
        self.send(0, [0.1])
        with self.database.session() as session:
            first = session.execute(select(func.max(col(PendingRow.id)))).scalar_one()
        self.store.tick(self.clock() + timedelta(minutes=1))
        self.send(5, [0.1])
        with self.database.session() as session:
            assert session.execute(select(func.min(col(PendingRow.id)))).scalar_one() > (first or 0)

    def test_late_data_is_merged_into_its_frame(self) -> None:
        self.send(0, [0.1])
        self.store.tick(self.clock() + timedelta(minutes=1))
        self.send(0, [30.0, 0.0001], node="late")
        assert self.count() == 3
        self.store.tick(self.clock() + timedelta(minutes=1))
        assert rows(self.database, PendingRow) == 0
        assert self.count() == 3
        (series,) = self.store.histograms(Question("ttft", Span(self.at(0), self.at(5))))
        assert series.total.minimum == pytest.approx(0.0001, rel=3.4e-7) and series.total.minimum <= 0.0001
        assert series.total.maximum == pytest.approx(30.0, rel=3.4e-7) and series.total.maximum >= 30.0
        (gauge,) = self.store.scalars(Question("kv_usage", Span(self.at(0), self.at(5))))
        assert gauge.value == 0

    def test_a_gauge_keeps_its_latest_value(self) -> None:
        for offset, value in ((2, 7.0), (1, 3.0)):
            report = self.report()
            report.end_ns -= (5 - offset) * 10**9
            report.number(metrics.RUNNING.name, value, kind="gauge")
            ingest_metrics(self.store, report.request)
        for _ in range(2):
            assert [one.value for one in self.store.scalars(Question("running", Span(self.at(0), self.at(5))))] == [7.0]
            self.store.tick(self.clock() + timedelta(minutes=1))

    def test_a_fast_clock_seals_nobody_elses_windows(self) -> None:
        self.clock.now = self.at(6)
        self.send(0, [0.1])
        self.send(1800, [0.1], node="fast")
        assert self.store.tick(self.clock()) == 0
        assert self.store.latest() == self.at(WINDOW_S)

    def test_old_data_goes(self, make_spans: Callable[..., Any]) -> None:
        self.send(0, [0.1])
        ingest_traces(self.store, make_spans("a", [{"id": "r", "arrival": self.at(1)}]))
        self.store.tick(self.clock() + timedelta(minutes=1))
        tables = (FrameRow, SeenRow, RequestRow)
        assert all(rows(self.database, table) for table in tables)
        self.clock.now += timedelta(hours=50)
        self.store.tick(self.clock())
        assert rows(self.database, SeenRow) == rows(self.database, RequestRow) == 0
        assert resolutions(self.database) == {60, 300, 3600}
        self.clock.now += timedelta(days=800)
        self.store.tick(self.clock())
        assert rows(self.database, FrameRow) == 0
        outcome, _ = self.send(0, [0.1])
        assert outcome.accepted == 0 and "older than what is kept" in outcome.refusals.text()

    def test_two_replicas_see_each_other_and_fold_once(self) -> None:
        other = TelemetryStore(self.database, self.clock)
        other.start()
        try:
            _, request = self.send(0, [0.1, 0.2])
            assert self.count(other) == 2
            assert ingest_metrics(other, request).repeated == 3
            threads = [
                threading.Thread(target=one.tick, args=(self.clock() + timedelta(minutes=1),))
                for one in (self.store, other)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert self.count(other) == self.count() == 2
        finally:
            other.close()

    def test_concurrent_senders_of_one_report_count_once(self) -> None:
        stores = [self.store, TelemetryStore(self.database, self.clock)]
        stores[1].start()
        try:
            futures = []
            for i in range(20):
                report = self.report(start=self.at(5 * i))
                report.histogram([0.1])
                body = report.request.SerializeToString()
                futures += [
                    started(one.intake.metrics(body, "", PROTOBUF, ANYONE, None)) for one in stores for _ in range(2)
                ]
            outcomes = [future.result(30) for future in futures]
            assert sum(outcome.accepted for outcome in outcomes) == 20
            assert self.count() == 20
        finally:
            stores[1].close()

    def test_own_metrics_are_kept_under_their_name(self) -> None:
        report = self.report()
        report.histogram([0.5], name="tailwright.custom.thing")
        report.number("gen_ai.custom.count", 3)
        report.number("http.server.requests", 3)
        outcome = ingest_metrics(self.store, report.request)
        assert outcome.accepted == 2 and "'http.server.requests' is not kept" in outcome.refusals.text()
        assert self.count(metric="tailwright.custom.thing") == 1
        other = TelemetryStore(self.database, self.clock)
        assert other.scalars(Question("gen_ai.custom.count", Span(self.at(0), self.at(5))))[0].value == 3

    def test_the_queue_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entered, go_on = threading.Event(), threading.Event()
        original = journal.write

        def held(*arguments: Any) -> Any:
            entered.set()
            assert go_on.wait(30)
            return original(*arguments)

        monkeypatch.setattr(writer.journal, "write", held)
        narrow = writer.Writer(self.database, self.store.names, self.clock, self.store.meters, queue_limit=2)
        narrow.start()
        futures = [submitted(lambda: narrow.submit(Entry()))]
        assert entered.wait(30)
        futures += [submitted(lambda: narrow.submit(Entry())) for _ in range(2)]
        with pytest.raises(Overloaded) as caught:
            submitted(lambda: narrow.submit(Entry()))
        assert caught.value.retry_after_s > 0
        go_on.set()
        narrow.close()  # Drains: what was taken in is written.
        settled()
        assert all(future.done() for future in futures)
        with pytest.raises(Unavailable):
            submitted(lambda: narrow.submit(Entry()))

    def test_closing_stops_readiness(self) -> None:
        assert self.store.ready()
        self.store.close()
        assert not self.store.ready()

    def test_too_many_series_are_refused_with_a_reason(self) -> None:
        self.store.names.max_label_sets = 2
        report = self.report()
        for model in ("a", "b", "c"):
            report.histogram([0.1], model=model)
        outcome = ingest_metrics(self.store, report.request)
        assert (outcome.accepted, outcome.refusals.count) == (2, 1)
        assert "distinct label sets" in outcome.refusals.text()

    def test_workload_leaves_out_what_does_not_serve(self, make_spans: Callable[..., Any]) -> None:
        store = TelemetryStore(self.database, self.clock, not_serving=lambda: {"trial"})
        for node in ("a", "trial"):
            spans = [{"id": f"{node}{i}", "arrival": self.at(i)} for i in range(3)]
            outcome = ingest_traces(self.store, make_spans(node, [*spans, spans[0]]))
            assert (outcome.accepted, outcome.repeated) == (3, 1)
        workload = store.workload("chat", self.at(0), self.at(2))
        assert workload.nodes == 1 and len(workload.requests) == 2

    def test_a_failed_commit_leaves_no_trace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        original = record_rows.write

        def failing(*arguments: Any) -> None:
            monkeypatch.setattr(record_rows, "write", original)
            raise RuntimeError("out of luck")

        monkeypatch.setattr(record_rows, "write", failing)
        with pytest.raises(RuntimeError):
            self.send(0, [0.1])
        assert self.count() == 0 and rows(self.database, SeenRow) == 0
        outcome, _ = self.send(0, [0.1])
        assert (outcome.accepted, outcome.repeated) == (3, 0)
        assert rows(self.database, PendingRow) == 1
        with self.database.session() as session:
            assert session.execute(select(func.max(col(PendingRow.last_window)))).scalar_one() > 0

    # -- levels --------------------------------------------------------------------------------------------------

    def levels(self) -> Mapping[int, Level]:
        with self.database.snapshot() as connection:
            return self.store.frames.state(connection).levels

    def answer(self, first: float, last: float, by: list[str], step_s: float | None = None) -> Any:
        """Everything that can be asked of a span, as plain values."""
        span = (self.at(first), self.at(last))
        histograms = self.store.histograms(Question("ttft", Span(*span), by=by, step_s=step_s))
        return (
            [(one.labels, one.total.counts.tolist(), one.total.zero_count, one.total.minimum, one.total.maximum,
              pytest.approx(one.total.total), [(time, part.counts.tolist()) for time, part in one.steps])
             for one in histograms],
            self.store.scalars(Question("output_tokens", Span(*span), by=by, step_s=step_s)),
            self.store.scalars(Question("kv_usage", Span(*span), by=by, step_s=step_s)),
        )  # fmt: skip

    def build_all(self) -> None:
        """Fold, and build every level up to the hour that ends two hours from the start."""
        self.clock.now = max(self.clock.now, self.at(2 * 3600 + 60))
        self.store.tick(self.clock())
        assert all(
            level.built_to * level.resolution >= self.at(7200).timestamp()
            for level in self.levels().values()
            if level.resolution > 5
        )

    def test_every_level_answers_as_the_reports_do(self) -> None:
        for i in range(0, 4000, 95):
            self.send(i - i % 5, [0.001 * (i + 1), 2.0], node=f"n{i % 3}")
        spans = [(0, 4000), (5, 3995), (35, 3605), (0, 3600), (300, 900)]
        asked = [(*span, by, step) for span in spans for by in ([], ["node"]) for step in (None, 60, 600)]
        before = [self.answer(*one) for one in asked]
        self.build_all()
        assert rows(self.database, PendingRow) == 0
        for one, expected in zip(asked, before, strict=True):
            assert self.answer(*one) == expected, one
        assert resolutions(self.database) == {5, 10, 60, 300, 3600}

    def test_late_data_is_in_every_level_at_once(self) -> None:
        for i in range(0, 3600, 300):
            self.send(i, [0.1])
        self.build_all()
        self.send(1805, [9.0, 0.01], node="late")
        self.send(1800, [0.2])
        asked = [(0, 3600, by, step) for by in ([], ["node"]) for step in (None, 5, 10, 60, 300, 3600)]
        before = [self.answer(*one) for one in asked]
        self.clock.advance(60)
        assert self.store.tick(self.clock()) > 0
        assert rows(self.database, PendingRow) == 0
        for one, expected in zip(asked, before, strict=True):
            assert self.answer(*one) == expected, one
        assert verify(self.database, self.store.frames).findings.all == []

    def test_the_coarsest_level_that_fits_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for i in range(0, 3600, 60):
            self.send(i, [0.1])
        self.build_all()
        with self.database.session() as session:
            session.connection().execute(delete(FrameRow).where(col(FrameRow.resolution) < 3600))
        assert self.count() == 60
        assert self.store.histograms(Question("ttft", Span(self.at(0), self.at(1800)))) == []

    def test_a_nodes_answer_needs_its_block_only(self) -> None:
        for node in range(130):
            self.send(0, [0.1], node=f"n{node}")
        self.store.tick(self.clock())
        (one,) = self.store.histograms(
            Question("ttft", Span(self.at(0), self.at(5)), where={"node": "n129"}, by=["node"])
        )
        assert (one.labels, one.total.count) == ({"node": "n129"}, 1)
        assert len(self.store.histograms(Question("ttft", Span(self.at(0), self.at(5)), by=["node"]))) == 130
        assert self.store.histograms(Question("ttft", Span(self.at(0), self.at(5)), where={"node": "nobody"})) == []
        with self.database.session() as session:
            session.connection().execute(delete(FrameRow).where(col(FrameRow.block) == 0))
        for node in ("n129", "n1"):
            left = self.store.histograms(Question("ttft", Span(self.at(0), self.at(5)), where={"node": node}))
            assert len(left) == (node == "n129")
        assert self.count() == 130  # The fleet's own frames.

    def test_each_level_is_kept_for_its_own_time(self) -> None:
        self.send(0, [0.1])
        self.build_all()
        for hours, left in (
            (14, {10, 60, 300, 3600}),
            (52, {60, 300, 3600}),
            (15 * 24, {300, 3600}),
            (91 * 24, {3600}),
        ):
            self.clock.now = self.at(hours * 3600)
            self.store.tick(self.clock())
            assert resolutions(self.database) == left
            assert self.count() == 1
            assert self.store.latest() is not None
        found = self.store.histograms(Question("ttft", Span(self.at(0), self.at(60)), step_s=5))
        assert [time for time, _ in found[0].steps] == [self.at(0)]  # All that is left, where it begins.
        assert verify(self.database, self.store.frames).findings.all == []

    def test_label_sets_of_nodes_that_are_gone_go_with_the_last_of_their_frames(self) -> None:
        self.send(0, [0.1], node="gone")
        self.build_all()
        known = len(self.store.names)
        for days, left in ((729, True), (735, False)):
            self.clock.now = self.at(days * 24 * 3600)
            self.send(days * 24 * 3600 - 60, [0.1], node="living")
            self.clock.advance(120)
            self.store.tick(self.clock())
            with self.database.session() as session:
                texts = " ".join(session.execute(select(col(LabelsRow.labels))).scalars())
            assert ('"gone"' in texts) is left and '"living"' in texts
        assert known > 1 and len(self.store.names) == known, "the living node's instead of those that are gone"
        text = generate_latest(self.store.meters.registry).decode()
        assert "tailwright_label_sets_forgotten_total 0.0" not in text
        assert verify(self.database, self.store.frames).findings.all == []
        assert self.store.latest() is not None

    def test_late_data_for_a_level_that_is_gone_is_in_those_that_are_left(self) -> None:
        self.send(0, [0.1])
        self.build_all()
        self.clock.now = self.at(20 * 3600)
        self.store.tick(self.clock())
        self.send(5, [0.3])
        assert self.count() == 2
        self.clock.advance(60)
        self.store.tick(self.clock())
        assert resolutions(self.database) == {10, 60, 300, 3600}
        assert self.count() == 2
        assert verify(self.database, self.store.frames).findings.all == []

    @pytest.mark.parametrize("look", ["tick", "follow"])
    def test_frames_that_are_gone_leave_the_memory_too(self, look: str) -> None:
        self.send(0, [0.1])
        self.build_all()
        self.answer(0, 60, ["node"], 5)
        remembered = self.store._decoded._nodes._blocks
        assert {key.resolution for key in remembered} == {5}
        self.clock.now = self.at(20 * 3600)
        if look == "follow":
            TelemetryStore(self.database, self.clock).tick(self.clock())
        getattr(self.store, look)(self.clock())
        assert len(remembered) == 0

    def test_history_is_not_written_where_it_would_be_dropped(self) -> None:
        for i in (0, 5, 65):
            self.send(i, [0.1])
        self.clock.now = self.at(20 * 3600)
        self.store.tick(self.clock())
        assert rows(self.database, PendingRow) == 0
        assert resolutions(self.database) == {10, 60, 300, 3600} and self.count() == 3
        assert verify(self.database, self.store.frames).findings.all == []

    def test_what_a_broken_off_pruning_left_goes_with_the_next(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.send(0, [0.1])
        self.build_all()
        self.clock.now = self.at(20 * 3600)
        with monkeypatch.context() as patch:
            patch.setattr(SqlFrames, "drop", lambda *_: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                self.store.tick(self.clock())
        assert 5 in resolutions(self.database) and self.count() == 1
        self.clock.advance(60)
        self.store.tick(self.clock())
        assert 5 not in resolutions(self.database) and self.count() == 1

    def test_beyond_its_bytes_the_oldest_of_the_finest_goes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        store = TelemetryStore(self.database, self.clock, retention=Retention(max_bytes=1000))
        for hour in range(3):
            self.clock.now = self.at(3600 * hour + 10)
            self.send(3600 * hour, [0.1])
        self.clock.now = self.at(3 * 3600 + 60)
        sizes = iter([3000, 2000, 900])
        monkeypatch.setattr(type(store.frames), "size_bytes", lambda _: next(sizes))
        store.tick(self.clock())
        assert (
            sum(one.total.count for one in store.histograms(Question("ttft", Span(self.at(0), self.at(10_800))))) == 3
        )
        with self.database.snapshot() as connection:
            moment = ReadPoint(connection, store.frames.state(connection))
            oldest = store.frames.oldest(moment, 5)
        assert oldest == int(self.at(2 * 3600).timestamp()) // 5
        text = generate_latest(store.meters.registry).decode()
        assert 'tailwright_frames_dropped_total{resolution="5"}' in text and "tailwright_frame_bytes 900.0" in text

    def test_what_a_level_is_built_of_is_not_pruned_before(self) -> None:
        store = TelemetryStore(self.database, self.clock, retention=Retention(max_bytes=1))
        self.send(0, [0.1])
        self.clock.now = self.at(100)
        store.tick(self.clock())
        assert 5 in resolutions(self.database) and self.count(store) == 1

    def test_a_restart_in_the_middle_goes_on_where_it_was(self) -> None:
        for i in range(0, 900, 30):
            self.send(i, [0.1 + i / 1000])
            self.clock.now = self.at(i + 31)
            self.store.tick(self.clock())
            if i % 300 == 0:
                self.store.close()
                self.store = TelemetryStore(self.database, self.clock)
                self.store.start()
        before = self.answer(0, 900, ["node"], 60)
        self.build_all()
        assert self.answer(0, 900, ["node"], 60) == before
        assert self.count() == 30 and verify(self.database, self.store.frames).findings.all == []

    def test_replicas_take_turns_in_folding(self) -> None:
        others = [TelemetryStore(self.database, self.clock) for _ in range(2)]
        stores = [self.store, *others]
        for store in others:
            store.start()
        try:
            for i in range(0, 600, 20):
                report = self.report(node=f"n{i % 3}", start=self.at(i))
                report.histogram([0.1, 0.2])
                ingest_metrics(stores[i // 20 % 3], report.request)
                self.clock.now = self.at(i + 40)
                threads = [threading.Thread(target=store.tick, args=(self.clock.now,)) for store in stores]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            assert {self.count(store) for store in stores} == {60}
            assert verify(self.database, self.store.frames).findings.all == []
        finally:
            for store in others:
                store.close()

    def test_a_fold_that_fails_in_the_middle_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.send(0, [0.1])
        with monkeypatch.context() as patch:
            original = SqlFrames.commit

            def failing(frames: SqlFrames, session: Any, fold: Any) -> bool:
                original(frames, session, fold)
                raise RuntimeError("the power went")

            patch.setattr(SqlFrames, "commit", failing)
            with pytest.raises(RuntimeError):
                self.store.tick(self.clock())
        assert rows(self.database, FrameRow) == 0 and rows(self.database, PendingRow) == 1 and self.count() == 1
        self.store.tick(self.clock())
        assert rows(self.database, PendingRow) == 0 and self.count() == 1

    def test_reports_that_carry_an_identity_may_be_as_old_as_the_longest_level(self) -> None:
        now = self.clock()
        assert self.store.bounds(ANYONE).oldest_ns == to_ns(now - timedelta(hours=48))
        assert self.store.bounds(ANYONE, identified=True).oldest_ns == to_ns(now - timedelta(days=730))
        capped = TelemetryStore(self.database, self.clock, retention_s=3600)
        assert (
            capped.bounds(ANYONE).oldest_ns
            == capped.bounds(ANYONE, requests=True).oldest_ns
            == to_ns(now) - 3600 * 10**9
        )
        assert capped.bounds(Sender("n", "p")).sender == ("n", "p")
