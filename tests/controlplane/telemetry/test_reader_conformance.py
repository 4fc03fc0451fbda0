"""What every reader of telemetry promises (`controlplane.telemetry.reader`): the store's, and the tests' own."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import BY_SHORT, MetricKind
from controlplane.telemetry import Question, Span, TelemetryReader
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.fake_reader import FakeReader
from tests.controlplane.telemetry.ingesting import ingest_metrics, ingest_traces

OWN = "tailwright.own"
Add = Callable[..., None]


def record(name: str, arrival: datetime, node: str, parts: dict[str, float]) -> RequestRecord:
    return RequestRecord(
        node=node,
        pool="chat",
        model="m",
        revision=1,
        request_id=name,
        arrival=arrival,
        prompt_tokens=10,
        cached_tokens=0,
        output_tokens=2,
        finish_reason="stop",
        parts=parts,
    )


class TestTelemetryReader:
    @pytest.fixture(params=["store", "fake"], autouse=True)
    def _given(self, request: pytest.FixtureRequest, start: datetime, make_report: Any) -> None:
        self.start = start
        self.reader: TelemetryReader
        if request.param == "fake":
            self.reader = self.fake = FakeReader()
            self.add: Add = lambda metric, second, value, **labels: self.fake.add(
                metric, self.at(second), value, **labels
            )
            self.log: Add = lambda name, second, node, parts: self.fake.finished.append(
                record(name, self.at(second), node, parts)
            )
            return
        store: TelemetryStore = request.getfixturevalue("store")
        self.reader = store

        def add(metric: str, second: float, value: float | Sequence[float], node: str = "n1", **labels: str) -> None:
            report = make_report(node=node, start=self.at(second), pool=labels.pop("pool", "chat"))
            known = BY_SHORT.get(metric)
            if isinstance(value, list):
                report.histogram(value, name=BY_SHORT[metric].name, **labels)
            elif known is None:
                report.number(metric, value, **labels)
            else:
                report.number(known.name, value, kind="gauge" if known.kind is MetricKind.GAUGE else "sum", **labels)
            assert ingest_metrics(store, report.request).accepted == 1

        self.add = add
        make_spans = request.getfixturevalue("make_spans")

        def log(name: str, second: float, node: str, parts: dict[str, float]) -> None:
            spans = make_spans(node, [{"id": name, "arrival": self.at(second), "parts": parts}])
            assert ingest_traces(store, spans).accepted == 1

        self.log = log

    def at(self, second: float) -> datetime:
        return self.start + timedelta(seconds=second)

    def asks(self, metric: str, first: float = 0, last: float = 60, **more: Any) -> Question:
        return Question(metric, Span(self.at(first), self.at(last)), **more)

    def values(self, metric: str, **more: Any) -> list[tuple[dict[str, str], float, list[tuple[float, float]]]]:
        """Labels, value, and the steps by their second."""
        return [
            (one.labels, one.value, [((time - self.start).total_seconds(), value) for time, value in one.steps])
            for one in self.reader.scalars(self.asks(metric, **more))
        ]

    def test_absent_is_absent(self) -> None:
        assert self.reader.latest() is None
        assert self.reader.histograms(self.asks("ttft", step_s=5)) == []
        assert self.reader.counts(self.asks("ttft", step_s=5)) == self.reader.scalars(self.asks("requests")) == []
        (table,) = self.reader.sketches([self.asks("ttft", step_s=5)])
        assert (table.labels, list(table.times)) == ([], [])

    def test_sums_add_up_in_groups_and_steps(self) -> None:
        for second, node, value in ((0, "a", 1.0), (5, "a", 2.0), (20, "a", 4.0), (5, "b", 8.0)):
            self.add("requests", second, value, node=node)
        assert self.values("requests") == [({}, 15.0, [])]
        assert self.values("requests", by=("node",), step_s=10) == [
            ({"node": "a"}, 7.0, [(0, 3.0), (20, 4.0)]),
            ({"node": "b"}, 8.0, [(0, 8.0)]),
        ]
        assert self.reader.latest() == self.at(25)

    def test_gauges_are_the_mean_of_the_last_values_of_their_label_sets(self) -> None:
        for second, node, value in ((0, "a", 1.0), (5, "a", 3.0), (0, "b", 5.0)):
            self.add("running", second, value, node=node)
        assert self.values("running", step_s=5) == [({}, 4.0, [(0, 3.0), (5, 3.0)])]
        assert self.values("running", by=["node"]) == [({"node": "a"}, 3.0, []), ({"node": "b"}, 5.0, [])]

    def test_a_window_belongs_to_the_span_that_its_start_lies_in(self) -> None:
        for second in (0, 5, 10):
            self.add("requests", second, 1.0)
            self.add("ttft", second, [0.5])
        for first, last, expected in ((0, 10, 2), (1, 10, 1), (0, 10.1, 3), (1, 4, 0)):
            found = self.reader.scalars(self.asks("requests", first, last))
            assert sum(one.value for one in found) == expected
            assert sum(one.value for one in self.reader.counts(self.asks("ttft", first, last))) == expected

    def test_filters_take_a_value_or_any_of_several_and_a_label_that_is_lacking_is_empty(self) -> None:
        for node, model in (("a", "m"), ("b", "m"), ("c", "")):
            self.add("requests", 0, 1.0, node=node, **({"model": model} if model else {}))
        assert self.values("requests", where={"node": "a"}) == [({}, 1.0, [])]
        assert self.values("requests", where={"node": ["a", "c"]}) == [({}, 2.0, [])]
        assert self.values("requests", where={"node": []}) == self.values("requests", where={"node": "d"}) == []
        assert self.values("requests", by=("model",)) == [({"model": ""}, 1.0, []), ({"model": "m"}, 2.0, [])]
        assert self.values("requests", where={"model": ""}) == [({}, 1.0, [])]

    def test_sketches_merge_and_three_ways_to_ask_for_them_agree(self) -> None:
        for second, node, values in ((0, "a", [0.1, 0.2]), (10, "a", [0.4]), (0, "b", [1.0, 2.0, 3.0])):
            self.add("ttft", second, values, node=node)
            self.add("e2e", second, [2 * value for value in values], node=node)
        question = self.asks("ttft", by=("node",), step_s=10)
        found = self.reader.histograms(question)
        assert [(one.labels["node"], one.total.count) for one in found] == [("a", 3), ("b", 3)]
        assert found[0].total.quantile(1.0) == pytest.approx(0.4, rel=0.02)
        assert [[(time, sketch.count) for time, sketch in one.steps] for one in found] == [
            [(self.at(0), 2), (self.at(10), 1)], [(self.at(0), 3)],
        ]  # fmt: skip
        counts = self.reader.counts(question)
        assert [(one.labels, one.value) for one in counts] == [(one.labels, one.total.count) for one in found]
        assert [one.steps for one in counts] == [[(time, one.count) for time, one in of.steps] for of in found]
        ttft, e2e = self.reader.sketches([question, self.asks("e2e", step_s=10)])
        for one, other in zip(ttft.series(), found, strict=True):
            assert (one.labels, one.total.count, one.total.total) == (
                other.labels, other.total.count, pytest.approx(other.total.total),
            )  # fmt: skip
            assert [time for time, _ in one.steps] == [time for time, _ in other.steps]
        assert (e2e.labels, list(e2e.times), e2e.totals.count().tolist()) == ([{}], [self.at(0), self.at(10)], [6])

    def test_requests_are_of_the_span_in_which_what_is_asked_for_was_complete(self) -> None:
        for number, (second, node) in enumerate(((0, "a"), (10, "a"), (20, "b"))):
            self.log(f"r{number}", second, node, {"ttft": 1.0 + number, "e2e": 15.0, "queue": 0.5})
        span = Span(self.at(10), self.at(30))
        by_end = self.reader.timed_requests("e2e", span, {"pool": "chat"})
        assert by_end.parts["ttft"].tolist() == [1.0, 2.0] and by_end.found == 2
        assert by_end.parts["queue"].tolist() == [0.5, 0.5]
        by_first_token = self.reader.timed_requests("ttft", span, {"pool": "chat"})
        assert by_first_token.parts["ttft"].tolist() == [2.0, 3.0]
        assert (by_first_token.arrival_ns // 10**9).tolist() == [int(self.at(at).timestamp()) for at in (10, 20)]
        assert self.reader.timed_requests("e2e", span, {"pool": "chat", "node": ["b"]}).found == 0
        assert self.reader.timed_requests("ttft", span, {"node": "b"}).parts["ttft"].tolist() == [3.0]
        assert self.reader.timed_requests("itl", span, {"pool": "chat"}).found == 0

    def test_a_metric_is_known_and_asked_for_by_its_kind(self) -> None:
        self.add(OWN, 0, 3.0)
        assert self.reader.find("ttft").kind is MetricKind.HISTOGRAM and self.reader.find(OWN).kind is None
        kind, (series,) = self.reader.scalars_of_kind(self.asks(OWN))
        assert (kind, series.value) == (MetricKind.SUM, 3.0)
        for ask, metric in ((self.reader.histograms, "running"), (self.reader.counts, "requests")):
            with pytest.raises(BadRequest, match="metric"):
                ask(self.asks(metric))
        with pytest.raises(BadRequest, match="metric"):
            self.reader.scalars(self.asks("ttft"))
        with pytest.raises(BadRequest, match="ttft"):
            self.reader.histograms(self.asks("ttff"))
