"""What the shipper does with each kind of answer."""

import asyncio
import gzip
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from agents.backend import Position
from agents.backoff import Backoff, retry_after_s
from agents.credentials import Credentials
from agents.enrolment import Enrolment
from agents.settings import AgentSettings
from agents.shipper import Outcome, Shipper
from agents.spool import Spool

Answer = Callable[[httpx.Request], httpx.Response]


class Bench:
    """A shipper over a scripted service. Reports carry their number as the metrics body."""

    def __init__(self, tmp_path: Path, answer: Answer) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.spool = Spool(tmp_path / "spool", 10**7)
        self._answer = answer
        settings = AgentSettings(node="a", state_dir=tmp_path, enrolment_token="t")
        self.http = httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(self._handle))
        self.enrolment = Enrolment(settings, self.http)
        self.enrolment.current = Credentials("a", "old", "00")
        self.shipper = Shipper(self.spool, self.http, self.enrolment)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != "/api/v1/enrol":
            self.sent.append((request.url.path, gzip.decompress(request.content)))
        return self._answer(request)

    def add(self, *numbers: int, traces: bool = True) -> None:
        for number in numbers:
            body = gzip.compress(str(number).encode())
            self.spool.append(lambda _, body=body: (body, body if traces else b""), Position("b", number))

    def send(self) -> Outcome:
        return asyncio.run(self.shipper.send_one())


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
    bench = Bench(
        tmp_path, lambda r: httpx.Response(status, text="the reason") if gzip.decompress(r.content) == b"1" else ok(r)
    )
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
    bench = Bench(tmp_path, lambda r: httpx.Response(500) if gzip.decompress(r.content) == b"1" else ok(r))
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
            return httpx.Response(200, json={"node": "a", "token": "new", "workload_key": "00"})
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
    rest = asyncio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await rest(0)

    async def run() -> None:
        monkeypatch.setattr("agents.shipper.asyncio.sleep", note)
        task = asyncio.create_task(bench.shipper.run())
        while bench.spool.depth:
            await rest(0.01)
        task.cancel()

    asyncio.run(run())
    assert waits[0] == 7
    assert 0 < waits[1] <= 0.5


def test_retry_after_is_seconds_or_a_date() -> None:
    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    assert retry_after_s("12") == 12
    assert retry_after_s("Thu, 01 Jan 2026 12:00:30 GMT", now) == 30
    assert retry_after_s("Thu, 01 Jan 2026 11:00:00 GMT", now) == 0
    assert [retry_after_s(text) for text in (None, "soon", "nan")] == [None, None, None]


def test_waits_double_up_to_the_limit() -> None:
    backoff = Backoff(1.0, 30.0)
    waits = [backoff.next_s() for _ in range(8)]
    for wait, most in zip(waits, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert 0.75 * most <= wait <= most
    backoff.reset()
    assert backoff.next_s() <= 1
