"""What the shipper does with each kind of answer."""

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from agents.agent.delivery.credentials import Credentials
from agents.agent.delivery.enrolment import Enrolment
from agents.agent.delivery.shipper import FURTHEST_AHEAD, TRIES_BEFORE_SETTING_ASIDE, Outcome, Shipper
from agents.agent.delivery.spool import UNSYNCED, Slot, Spool
from agents.agent.reports.body import Body
from agents.agent.reports.otlp_report import request_of
from agents.agent.settings import AgentSettings
from agents.backends.base import Position
from agents.host.backoff import Backoff, spread_s
from controlplane.contract import metrics
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.packed_report import MEDIA_TYPE, PackedNumber, PackedReport, Section

Answer = Callable[[httpx.Request], httpx.Response]
TAKES_PACKED = {"Tailwright-Accept": "packed-1"}


class Bench:
    """A shipper over a scripted service. Reports carry their number as the metrics body."""

    def __init__(self, tmp_path: Path, answer: Answer, *, foreign: bool = False) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.requests: list[httpx.Request] = []
        self.spool = Spool(tmp_path / "spool", 10**7)
        self._answer = answer
        settings = AgentSettings(node="a", state_dir=tmp_path, enrolment_token="t")
        self.http = httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(self._handle))
        self.enrolment = Enrolment(settings, self.http)
        self.enrolment.current = Credentials("a", "default", "serving", "old", "00")
        self.shipper = Shipper(self.spool, self.http, None if foreign else self.enrolment)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != "/api/v1/enrol":
            self.requests.append(request)
            self.sent.append((request.url.path, body_of(request)))
        return self._answer(request)

    def add(self, *numbers: int, traces: bool = True) -> None:
        for number in numbers:
            body = Body.otlp(str(number).encode())
            self.spool.append(lambda _, body=body: (body, body if traces else None), Position("b", number))

    def add_packed(self, count: int) -> None:
        for number in range(count):
            self.spool.append(
                lambda slot: (Body.packed(packed_report.encode(packed(slot))), None), Position("b", number)
            )

    def send(self) -> Outcome:
        return asyncio.run(self.shipper.send_one())


def body_of(request: httpx.Request) -> bytes:
    return Body(request.content, request.headers["Content-Type"], request.headers["Content-Encoding"]).decoded()


def packed(slot: Slot) -> PackedReport:
    gauge = Section(340_000_000, gauges=(PackedNumber(0, 0, float(slot.ordinal)),))
    return PackedReport(
        slot.stream,
        slot.ordinal,
        {metrics.NODE.name: "a"},
        ((metrics.SPOOL_DEPTH.name, metrics.MetricKind.GAUGE),),
        ({},),
        (gauge,),
    )


def ok(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=b"")


def test_both_bodies_are_acknowledged_oldest_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ok)
    bench.add(1, 2)
    assert bench.send() is Outcome.ACKNOWLEDGED
    assert bench.sent == [("/v1/metrics", b"1"), ("/v1/traces", b"1")]
    assert bench.spool.waiting() == [2]


def test_only_what_is_not_acknowledged_is_sent_again(tmp_path: Path) -> None:
    answers = iter([200, 503, 200])
    bench = Bench(tmp_path, lambda _: httpx.Response(next(answers)))
    bench.add(1)
    assert bench.send() is Outcome.AGAIN
    assert bench.spool.waiting() == [1]
    assert bench.send() is Outcome.ACKNOWLEDGED
    assert [path for path, _ in bench.sent] == ["/v1/metrics", "/v1/traces", "/v1/traces"]


@pytest.mark.parametrize("status", [400, 409, 413, 415, 422])
def test_a_refused_report_is_set_aside_and_holds_up_nothing(tmp_path: Path, status: int) -> None:
    bench = Bench(tmp_path, lambda r: httpx.Response(status, text="the reason") if body_of(r) == b"1" else ok(r))
    bench.add(1, 2)
    assert bench.send() is Outcome.REFUSED
    assert "the reason" in (tmp_path / "spool/refused/000000000001.reason").read_text()
    assert bench.send() is Outcome.ACKNOWLEDGED
    assert bench.spool.waiting() == []


@pytest.mark.parametrize("status", [404, 408, 429, 500, 502, 503, 504, 302, 202])
def test_an_answer_that_is_not_about_the_report_keeps_it(tmp_path: Path, status: int) -> None:
    bench = Bench(tmp_path, lambda _: httpx.Response(status))
    bench.add(1)
    assert bench.send() in (Outcome.AGAIN, Outcome.FAILED)
    assert bench.spool.waiting() == [1]


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ReadTimeout, httpx.RemoteProtocolError])
def test_a_broken_connection_keeps_the_report(tmp_path: Path, error: type[httpx.TransportError]) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error("gone")

    bench = Bench(tmp_path, fail)
    bench.add(1)
    assert bench.send() is Outcome.AGAIN
    assert "gone" in bench.shipper.last_error


def test_a_report_the_service_breaks_on_lets_the_others_go_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda r: httpx.Response(500) if body_of(r) == b"1" else ok(r))
    bench.add(1, 2, 3)
    outcomes = [bench.send() for _ in range(8)]
    assert outcomes == [Outcome.FAILED] * 5 + [Outcome.ACKNOWLEDGED] * 2 + [Outcome.FAILED]
    assert bench.spool.waiting() == [1]
    assert Spool(tmp_path / "spool", 10**7).position == Position("b", 3)


def test_a_partial_success_is_an_acknowledgement_and_is_counted(tmp_path: Path) -> None:
    reply = ExportMetricsServiceResponse()
    reply.partial_success.rejected_data_points = 3
    bench = Bench(tmp_path, lambda _: httpx.Response(200, content=reply.SerializeToString()))
    bench.add(1, traces=False)
    assert bench.send() is Outcome.ACKNOWLEDGED
    assert bench.shipper.points_rejected == 3


def test_an_unknown_token_enrols_again(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/v1/enrol":
            return httpx.Response(
                200, json={"node": "a", "pool": "default", "role": "serving", "token": "new", "workload_key": "00"}
            )
        return httpx.Response(200 if request.headers["Authorization"] == "Bearer new" else 401)

    bench = Bench(tmp_path, answer)
    bench.add(1)
    assert [bench.send(), bench.send()] == [Outcome.AGAIN, Outcome.ACKNOWLEDGED]
    assert (tmp_path / "credentials.json").stat().st_mode & 0o777 == 0o600


def test_the_loop_waits_as_long_as_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([(429, {"Retry-After": "7"}), (503, {}), (200, {}), (200, {})])
    waits: list[float] = []

    def answer(_: httpx.Request) -> httpx.Response:
        status, headers = next(answers)
        return httpx.Response(status, headers=headers)

    bench = Bench(tmp_path, answer)
    bench.add(1)
    rest, here = asyncio.sleep, threading.get_ident()

    async def note(seconds: float) -> None:
        if threading.get_ident() != here:  # A server of another test's, in a thread of its own.
            return await rest(seconds)
        waits.append(seconds)
        await rest(0)

    async def run() -> None:
        monkeypatch.setattr("agents.agent.delivery.shipper.asyncio.sleep", note)
        task = asyncio.create_task(bench.shipper.run())
        while bench.spool.depth:
            await rest(0.01)
        task.cancel()

    asyncio.run(run())
    assert 7 <= waits[0] <= 10.5
    assert 0 < waits[1] <= 0.5


def test_those_who_were_told_the_same_do_not_come_back_at_the_same_moment() -> None:
    waits = [spread_s(8.0) for _ in range(200)]
    assert 8 <= min(waits) < 8.5 and 11.5 < max(waits) <= 12
    assert max(spread_s(0.0) for _ in range(200)) > 0.8


def test_waits_double_up_to_the_limit() -> None:
    backoff = Backoff(1.0, 30.0)
    waits = [backoff.next_s() for _ in range(8)]
    for wait, most in zip(waits, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert 0.75 * most <= wait <= most
    backoff.reset()
    assert backoff.next_s() <= 1


# -- packed or OTLP ----------------------------------------------------------------------------------------------------


def forms(bench: Bench) -> list[str]:
    return ["packed" if one.headers["Content-Type"] == MEDIA_TYPE else "otlp" for one in bench.requests]


def told(bench: Bench) -> list[tuple[str, PackedReport | bytes]]:
    """(form, report) of each request; OTLP as its bytes."""
    found: list[tuple[str, PackedReport | bytes]] = []
    for form, (_, body) in zip(forms(bench), bench.sent, strict=True):
        found.append((form, packed_report.decode(body) if form == "packed" else body))
    return found


def test_packed_reports_go_packed_once_the_service_has_said_that_it_takes_them(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda _: httpx.Response(200, headers=TAKES_PACKED))
    bench.add_packed(3)
    assert [bench.send() for _ in range(3)] == [Outcome.ACKNOWLEDGED] * 3
    assert forms(bench) == ["otlp", "packed", "packed"]
    assert [request.headers["Content-Encoding"] for request in bench.requests] == ["gzip", "zstd", "zstd"]
    assert bench.spool.waiting() == []


def test_an_otlp_report_says_the_same_and_who_it_is(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ok)
    bench.add_packed(2)
    stored = [bench.spool.read(ordinal) for ordinal in (1, 2)]
    assert [bench.send(), bench.send()] == [Outcome.ACKNOWLEDGED] * 2
    for request, report in zip(bench.requests, stored, strict=True):
        assert report is not None
        wanted = request_of(packed_report.decode(report.metrics.decoded()))
        assert ExportMetricsServiceRequest.FromString(body_of(request)) == wanted
        assert request.headers["Tailwright-Report"] == report.identity


def test_what_was_spooled_as_otlp_goes_as_it_is_and_traces_have_no_identity(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda _: httpx.Response(200, headers=TAKES_PACKED))
    bench.add(1)
    report = bench.spool.read(1)
    assert report is not None and bench.send() is Outcome.ACKNOWLEDGED
    on_metrics, on_traces = bench.requests
    assert on_metrics.headers["Tailwright-Report"] == report.identity
    assert on_metrics.content == report.metrics.content
    assert "Tailwright-Report" not in on_traces.headers


def test_a_report_of_an_earlier_agent_is_sent_without_an_identity(tmp_path: Path) -> None:
    body = gzip.compress(b"m")
    header = {
        "format": "tailwright-report-1", "boot": "b", "seq": 3, "metrics_bytes": len(body), "traces_bytes": 0,
        "checksum": blake2b(body, digest_size=16).hexdigest(),
    }  # fmt: skip
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool/000000000007.report").write_bytes(json.dumps(header).encode() + b"\n" + body)
    bench = Bench(tmp_path, lambda _: httpx.Response(200, headers=TAKES_PACKED))
    assert bench.send() is Outcome.ACKNOWLEDGED
    assert bench.sent == [("/v1/metrics", b"m")] and "Tailwright-Report" not in bench.requests[0].headers
    bench.add_packed(1)
    assert bench.spool.waiting() == [8]


@pytest.mark.parametrize(("status", "headers"), [(415, {}), (415, TAKES_PACKED), (400, {}), (406, {})])
def test_a_service_that_takes_packed_reports_no_more_gets_the_same_report_as_otlp(
    tmp_path: Path, status: int, headers: dict[str, str]
) -> None:
    older = False

    def answer(request: httpx.Request) -> httpx.Response:
        if not older:
            return httpx.Response(200, headers=TAKES_PACKED)
        if request.headers["Content-Type"] == MEDIA_TYPE:
            return httpx.Response(status, headers=headers)
        return httpx.Response(200)

    bench = Bench(tmp_path, answer)
    bench.add_packed(4)
    bench.send()
    older = True
    assert [bench.send(), bench.send()] == [Outcome.ACKNOWLEDGED] * 2
    older = False
    assert bench.send() is Outcome.ACKNOWLEDGED
    assert forms(bench) == ["otlp", "packed", "otlp", "otlp", "otlp"]
    assert bench.spool.waiting() == [] and bench.spool.refused == 0
    ordinals = [request.headers.get("Tailwright-Report", "/2").split("/")[1] for request in bench.requests]
    assert ordinals == ["1", "2", "2", "3", "4"]


def test_a_packed_report_that_is_refused_for_what_it_is_is_set_aside(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        lambda r: httpx.Response(409 if r.headers["Content-Type"] == MEDIA_TYPE else 200, headers=TAKES_PACKED),
    )
    bench.add_packed(2)
    assert [bench.send(), bench.send()] == [Outcome.ACKNOWLEDGED, Outcome.REFUSED]
    assert forms(bench) == ["otlp", "packed"]


def test_a_lost_answer_sends_the_same_bytes_again_whatever_the_form(tmp_path: Path) -> None:
    answers = iter([200, 503, 503, 200])

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(next(answers), headers=TAKES_PACKED)

    bench = Bench(tmp_path, answer)
    bench.add_packed(2)
    assert [bench.send() for _ in range(4)] == [Outcome.ACKNOWLEDGED, *[Outcome.AGAIN] * 2, Outcome.ACKNOWLEDGED]
    assert bench.requests[1].content == bench.requests[2].content == bench.requests[3].content


def test_a_packed_report_that_no_receiver_can_be_given_is_set_aside(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ok)
    for content in (Body.packed(b"nonsense"), Body(b"nonsense", MEDIA_TYPE, "zstd")):
        bench.spool.append(lambda _, content=content: (content, None), Position("b", 1))
    assert [bench.send(), bench.send()] == [Outcome.REFUSED] * 2
    assert "cannot be turned into OTLP" in (tmp_path / "spool/refused/000000000001.reason").read_text()
    assert bench.requests == []


def test_another_receiver_gets_otlp_and_no_token_of_ours(tmp_path: Path) -> None:
    """A plain OpenTelemetry collector: it knows nothing of us, and its 401 is no reason to enrol again."""
    answers = iter([401, 200])
    bench = Bench(tmp_path, lambda _: httpx.Response(next(answers)), foreign=True)
    bench.add_packed(1)
    assert [bench.send(), bench.send()] == [Outcome.AGAIN, Outcome.ACKNOWLEDGED]
    assert forms(bench) == ["otlp", "otlp"]
    assert all("Authorization" not in request.headers for request in bench.requests)


# -- who a report is ---------------------------------------------------------------------------------------------------


def conflict(code: str) -> httpx.Response:
    return httpx.Response(409, json={"error": {"code": code, "message": "no", "detail": {}}}, headers=TAKES_PACKED)


def stream_of(request: httpx.Request) -> bytes:
    if request.headers["Content-Type"] == MEDIA_TYPE:
        return packed_report.decode(body_of(request)).stream
    return packed_report.parse_report_header(request.headers["Tailwright-Report"])[0]


def once(code: str, then: Answer = lambda _: httpx.Response(200, headers=TAKES_PACKED)) -> Answer:
    """A service that counts another report under the first name it is told, and takes every other."""
    first: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        first.extend([stream_of(request)] if not first else [])
        return conflict(code) if stream_of(request) == first[0] else then(request)

    return answer


@pytest.mark.parametrize("code", ["other_content", "too_old"])
def test_a_report_that_was_not_counted_under_its_name_goes_under_another(tmp_path: Path, code: str) -> None:
    bench = Bench(tmp_path, once(code))
    bench.add_packed(2)
    before = bench.spool.read(1)
    assert before is not None
    assert [bench.send(), bench.send()] == [Outcome.RENEWED, Outcome.ACKNOWLEDGED]
    assert bench.send() is Outcome.RENEWED  # What waited was of the same stream.
    assert bench.send() is Outcome.ACKNOWLEDGED
    first, renewed, second, last = (stream_of(request) for request in bench.requests)
    assert first == second == before.stream and len({first, renewed, last}) == 3
    told = packed_report.decode(body_of(bench.requests[1]))
    assert replace(told, stream=first) == packed_report.decode(before.metrics.decoded())
    assert (bench.spool.renewed, bench.spool.refused, bench.spool.waiting()) == (2, 0, [])
    bench.add_packed(1)
    after = bench.spool.read(3)
    assert after is not None and after.stream not in (first, renewed)


def test_a_report_perhaps_counted_is_set_aside_and_not_sent_under_another_name(tmp_path: Path) -> None:
    answers = iter([httpx.Response(503), conflict("too_old")])
    bench = Bench(tmp_path, lambda _: next(answers))
    bench.add_packed(1)
    assert [bench.send(), bench.send()] == [Outcome.AGAIN, Outcome.REFUSED]
    bench.add_packed(1)
    bench.spool = Spool(tmp_path / "spool", 10**7)  # Nobody knows what the process before was answered.
    answers = iter([conflict("too_old")])
    bench.shipper = Shipper(bench.spool, bench.http, bench.enrolment)
    assert bench.send() is Outcome.REFUSED and bench.spool.renewed == 0


def test_a_service_that_takes_no_name_is_not_asked_without_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda _: conflict("other_content"))
    bench.add_packed(1)
    assert [bench.send() for _ in range(3)] == [Outcome.RENEWED, Outcome.FAILED, Outcome.FAILED]
    assert bench.spool.renewed == 1


def test_a_full_disk_leaves_a_report_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, once("other_content"))
    bench.add_packed(1)

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.rename", full_disk)
        assert bench.send() is Outcome.AGAIN
    assert "No space left" in bench.shipper.last_error
    assert [bench.send(), bench.send()] == [Outcome.RENEWED, Outcome.ACKNOWLEDGED]


# -- the order ---------------------------------------------------------------------------------------------------------


def test_others_go_first_only_as_far_as_the_service_remembers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = 40
    monkeypatch.setattr("agents.agent.delivery.shipper.FURTHEST_AHEAD", ahead)
    bench = Bench(tmp_path, lambda r: httpx.Response(500) if body_of(r) == b"1" else ok(r))
    bench.add(*range(1, ahead + 11), traces=False)
    while bench.spool.waiting()[0] == 1:
        bench.send()
    # It had its tries while the others waited, and was then set aside: the way is free again.
    assert max(int(body) for _, body in bench.sent) == ahead
    assert sum(body == b"1" for _, body in bench.sent) == TRIES_BEFORE_SETTING_ASIDE
    assert f"{ahead - 1} later ones" in (tmp_path / "spool/refused/000000000001.reason").read_text()
    while bench.spool.waiting():
        assert bench.send() is Outcome.ACKNOWLEDGED
    assert bench.spool.refused == 1


def test_what_may_be_out_of_order_is_well_within_what_the_service_remembers() -> None:
    assert FURTHEST_AHEAD + UNSYNCED < packed_report.REMEMBERED


def test_a_service_that_breaks_on_everything_is_not_the_reports_fault(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda _: httpx.Response(500))
    bench.add(1, 2, traces=False)
    assert {bench.send() for _ in range(5 * TRIES_BEFORE_SETTING_ASIDE)} == {Outcome.FAILED}
    assert bench.spool.waiting() == [1, 2]


# -- the clock ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 429, 400])
def test_the_services_clock_is_read_from_any_answer(tmp_path: Path, status: int) -> None:
    bench = Bench(
        tmp_path, lambda _: httpx.Response(status, headers={"Tailwright-Time": str(time.time_ns() + 3_000_000_000)})
    )
    bench.add(1, traces=False)
    bench.send()
    found = bench.shipper.clock.best(time.monotonic())
    assert found is not None and abs(found.offset_s - 3.0) <= found.error_s + 0.001


@pytest.mark.parametrize("stated", ["", "soon", "-5", "1.5", "٣"])
def test_a_clock_that_cannot_be_read_is_passed_over(tmp_path: Path, stated: str) -> None:
    bench = Bench(tmp_path, lambda _: httpx.Response(200, headers=[(b"Tailwright-Time", stated.encode())]))
    bench.add(1, traces=False)
    assert bench.send() is Outcome.ACKNOWLEDGED
    assert bench.shipper.clock.best(time.monotonic()) is None
