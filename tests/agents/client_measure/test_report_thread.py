"""Reports on their way: what is sent, kept, sent again, dropped."""

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from agents.client_measure import Ending, Recorder
from agents.client_measure.otlp_body import Sender, encode
from agents.client_measure.record_tally import Tally, Window
from agents.client_measure.report_thread import MOST_REPORTS, Shipper
from controlplane.contract import metrics
from controlplane.contract.reports.packed_report import REPORT_HEADER, parse_report_header
from tests.agents.client_measure.test_recorder import record

SENDER = Sender("client-1", "chat", "eu")


class Service:
    """Answers as told, and keeps what came."""

    def __init__(self) -> None:
        self.answer: Callable[[], httpx.Response] = lambda: httpx.Response(200)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.answer()

    def ordinals(self) -> list[int]:
        return [parse_report_header(request.headers[REPORT_HEADER])[1] for request in self.requests]

    def sums(self, metric: metrics.Metric) -> list[int]:
        """The sums of this metric, report by report."""
        found = []
        for request in self.requests:
            told = json.loads(request.content)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
            points = [point for one in told if one["name"] == metric.name for point in one["sum"]["dataPoints"]]
            found.append(sum(int(point["asInt"]) for point in points))
        return found


class Source:
    """Windows to be taken."""

    def __init__(self) -> None:
        self.tally = Tally()

    def count(self, number: int = 0, **more: Any) -> None:
        self.tally.count(record(number, **more))

    def take(self) -> dict[int, Window]:
        return self.tally.take()


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def shipper(service: Service, source: Source) -> Shipper:
    transport = httpx.MockTransport(service)
    return Shipper(source.take, SENDER, "http://service", "secret", interval_s=0.01, transport=transport)


def test_a_report_is_otlp_that_a_receiver_reads() -> None:
    tally = Tally()
    for number in range(3):
        tally.count(record(number, e2e_s=0.5 + number, finish_reason="stop", model="m"))
    tally.count(record(0, ending=Ending.ERROR))
    body = encode(tally.windows, SENDER, shift_ns=7, dropped=4)
    request = json_format.Parse(body, ExportMetricsServiceRequest())
    (resource,) = request.resource_metrics
    told = {item.key: item.value.string_value for item in resource.resource.attributes}
    assert told == {metrics.NODE.name: "client-1", metrics.POOL.name: "chat"}
    found = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    for name, metric in found.items():
        assert metric.unit == metrics.BY_NAME[name].unit
    (point,) = found[metrics.CLIENT_E2E.name].exponential_histogram.data_points
    assert (point.count, point.sum, point.min, point.max, point.scale) == (3, 4.5, 0.5, 2.5, 5)
    assert sum(point.positive.bucket_counts) == 3
    assert {item.key: item.value.string_value for item in point.attributes} == {
        metrics.MODEL.name: "m",
        metrics.REGION.name: "eu",
    }
    window_ns = int(metrics.WINDOW_S * 1e9)
    assert point.time_unix_nano == 200_001 * window_ns
    assert point.start_time_unix_nano == 200_000 * window_ns + 7
    reasons = {
        next(
            item.value.string_value for item in point.attributes if item.key == metrics.FINISH_REASON.name
        ): point.as_int
        for point in found[metrics.CLIENT_REQUESTS.name].sum.data_points
    }
    assert reasons == {"stop": 3, "error": 1}
    assert [point.as_int for point in found[metrics.CLIENT_DROPPED.name].sum.data_points] == [4]
    assert found[metrics.CLIENT_REQUESTS.name].sum.is_monotonic


def test_reports_are_numbered_and_authorised(service: Service, source: Source, shipper: Shipper) -> None:
    for number in range(3):
        source.count(number)
        shipper.ship()
    shipper.ship()
    assert service.ordinals() == [1, 2, 3], "nothing counted, nothing sent"
    assert {request.headers["Authorization"] for request in service.requests} == {"Bearer secret"}
    starts = {request.content.partition(b'"startTimeUnixNano":')[2][:22] for request in service.requests}
    assert len(starts) == 3, "points of one window differ in their start from report to report"
    assert (shipper.sent, shipper.dropped) == (3, 0)


@pytest.mark.parametrize("failure", [httpx.Response(503, headers={"Retry-After": "0"}), httpx.Response(429), None])
def test_what_could_not_be_sent_is_sent_again_as_it_was(
    service: Service, source: Source, shipper: Shipper, failure: httpx.Response | None
) -> None:
    def fail() -> httpx.Response:
        if failure is None:
            raise httpx.ConnectError("refused")
        return failure

    service.answer = fail
    source.count()
    shipper.ship()
    assert shipper.sent == 0 and shipper.last_error
    service.answer = lambda: httpx.Response(200)
    shipper._not_before = 0.0
    shipper.ship()
    assert service.ordinals() == [1, 1] and service.requests[0].content == service.requests[1].content
    assert (shipper.sent, shipper.dropped, shipper.last_error) == (1, 0, "")


def test_the_service_is_left_alone_as_long_as_it_asks(service: Service, source: Source, shipper: Shipper) -> None:
    service.answer = lambda: httpx.Response(429, headers={"Retry-After": "100"})
    for number in range(3):
        source.count(number)
        shipper.ship()
    assert len(service.requests) == 1


def test_what_is_refused_for_what_it_is_does_not_hold_up_the_rest(
    service: Service, source: Source, shipper: Shipper
) -> None:
    answers = [httpx.Response(400, text="bad"), httpx.Response(200)]
    service.answer = lambda: answers.pop(0)
    source.count()
    shipper.ship()
    assert (shipper.sent, shipper.dropped) == (0, 1) and "400" in shipper.last_error
    source.count()
    shipper.ship()
    assert (shipper.sent, shipper.dropped) == (1, 1)
    assert service.sums(metrics.CLIENT_DROPPED) == [0, 1], "the next report tells of it"


def test_memory_is_bounded_the_oldest_goes_and_is_counted(service: Service, source: Source, shipper: Shipper) -> None:
    service.answer = lambda: httpx.Response(503, headers={"Retry-After": "300"})
    made = 2 * MOST_REPORTS + 10  # So many that some of the dropped ones had told of dropped ones.
    for number in range(made):
        source.count(number)
        shipper.ship()
    assert (len(shipper._waiting), shipper.dropped) == (MOST_REPORTS, made - MOST_REPORTS)
    service.answer, service.requests, shipper._not_before = lambda: httpx.Response(200), [], 0.0
    for _ in range(2):
        source.count()
        shipper.ship()
    assert service.ordinals() == list(range(made - MOST_REPORTS + 2, made + 3)), "one more made room for the newest"
    assert sum(service.sums(metrics.CLIENT_DROPPED)) == shipper.dropped == made - MOST_REPORTS + 1


def test_the_thread_ships_by_itself_and_closing_sends_the_rest(
    service: Service, source: Source, shipper: Shipper
) -> None:
    came = threading.Event()

    def answer() -> httpx.Response:
        came.set()
        return httpx.Response(200)

    service.answer = answer
    source.count()
    shipper.start()
    assert came.wait(20)
    source.count()
    shipper.close(20)
    assert sum(service.sums(metrics.CLIENT_REQUESTS)) == 2 and shipper.dropped == 0


def test_closing_while_the_service_is_away_drops_and_counts(service: Service, source: Source, shipper: Shipper) -> None:
    service.answer = lambda: httpx.Response(503)
    source.count()
    shipper.start()
    shipper.close(20)
    assert (shipper.sent, shipper.dropped) == (0, 1)


def test_a_recorder_ships_once_and_its_snapshot_stays_whole() -> None:
    recorder = Recorder("c")
    recorder.record(record())
    recorder.ship_to("http://127.0.0.1:1", interval_s=3600)
    with pytest.raises(RuntimeError, match="ships its reports already"):
        recorder.ship_to("http://127.0.0.1:1")
    recorder.close()
    seen = recorder.snapshot()
    assert seen.requests == 1 and seen.count(metrics.CLIENT_E2E) == 1
    assert seen.dropped == 1 and recorder.shipper is not None
