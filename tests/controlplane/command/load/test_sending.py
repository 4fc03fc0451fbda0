"""Sending: nearly in order, patient, and nothing twice however often it is begun again."""

import random
import threading
import time
from collections.abc import Callable

import httpx
import pytest
import zstandard

from controlplane.client import Client
from controlplane.command.load import sending
from controlplane.command.load.batches import Batch
from controlplane.command.load.sending import load
from controlplane.command.load.upload_requests import BUNDLE_PARTS, Request
from controlplane.contract.errors import BadRequest, Forbidden
from controlplane.contract.reports.packed_report import REPORT_HEADER, PackedReport, decode, encode, report_header
from controlplane.contract.reports.report_bundle import LIMIT_PLAIN, MEDIA_TYPE, PATH, bundle, unbundle
from controlplane.telemetry.journal.content_encoding import decompress

STREAM = b"f" * 16
KEPT = httpx.Response(200, json={})


def made(count: int) -> list[Batch]:
    headers = {"Content-Type": "application/json"}
    return [
        Batch(
            stream=STREAM,
            number=number,
            path="/v1/metrics",
            headers={**headers, REPORT_HEADER: report_header(STREAM, number)},
            body=b"{}",
            messages=2,
            size=10,
            place=f"file: line {number}",
        )
        for number in range(1, count + 1)
    ]


class Service:
    """Knows a file's requests as the service does: the newest, and so many behind it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked: list[int] = []
        self.counted: set[int] = set()
        self.before: Callable[[int], httpx.Response | None] = lambda number: None

    def client(self) -> Client:
        return Client("http://service", "t", transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        number = int(request.headers[REPORT_HEADER].partition("/")[2])
        with self.lock:
            self.asked.append(number)
            other = self.before(number)
            if other is not None:
                return other
            highest = max(self.counted, default=0)
            if number < highest - sending.REMEMBERED:
                detail = {"field": REPORT_HEADER, "highest": highest}
                return httpx.Response(
                    409, json={"error": {"code": "conflict", "message": "far back", "detail": detail}}
                )
            self.counted.add(number)
            return httpx.Response(200, json={})


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.mark.parametrize("parallel", [1, 4, 64])
def test_all_are_sent_once_and_nearly_in_order(service: Service, parallel: int) -> None:
    answered: list[int] = []
    (totals,) = load(
        service.client(), made(300), parallel=parallel, on_answer=lambda batch: answered.append(batch.number)
    ).values()
    assert sorted(service.asked) == list(range(1, 301)) and answered == list(range(1, 301))
    assert (totals.batches, totals.messages, totals.known, totals.refused) == (300, 600, 0, 0)
    # Whatever is sent, all but so many before it have been answered: the service can tell them all apart.
    assert all(number - place <= 2 * parallel for place, number in enumerate(service.asked, 1))


@pytest.mark.slow
def test_a_file_that_is_loaded_again_is_passed_over_quickly(service: Service) -> None:
    count = 3 * sending.REMEMBERED
    load(service.client(), made(count), parallel=8)
    service.asked.clear()
    (totals,) = load(service.client(), made(count), parallel=8).values()
    assert totals.batches == count and totals.known >= count - sending.REMEMBERED - 20
    assert len(service.asked) <= sending.REMEMBERED + 20


@pytest.mark.slow
def test_after_a_break_the_rest_is_sent(service: Service) -> None:
    def broken(number: int) -> httpx.Response | None:
        if number >= 1500:
            return httpx.Response(403, json={"error": {"code": "forbidden", "message": "revoked"}})
        return None

    service.before = broken
    with pytest.raises(Forbidden):
        load(service.client(), made(2000), parallel=8)
    assert service.counted == set(range(1, 1500))
    service.before = lambda number: None
    load(service.client(), made(2000), parallel=8)
    assert service.counted == set(range(1, 2001))


def test_a_busy_service_and_one_that_is_away_are_waited_for(service: Service) -> None:
    answers = [
        httpx.Response(429, json={"error": {"code": "overloaded", "message": "full"}}, headers={"Retry-After": "7"}),
        httpx.Response(503, json={"error": {"code": "unavailable", "message": "starting"}}),
    ]
    waits: list[float] = []

    def before(number: int) -> httpx.Response | None:
        if answers:
            return answers.pop(0)
        if len(waits) < 3:
            raise httpx.ConnectError("away")
        return None

    service.before = before
    (totals,) = load(service.client(), made(1), sleep=waits.append).values()
    assert waits == [7.0, 0.2, 0.4] and totals.batches == 1 and service.counted == {1}


def test_a_service_that_stays_away_is_given_up(service: Service) -> None:
    now = [0.0]

    def away(number: int) -> httpx.Response | None:
        raise httpx.ConnectError("away")

    def sleep(seconds: float) -> None:
        now[0] += seconds

    service.before = away
    with pytest.raises(httpx.ConnectError):
        load(service.client(), made(1), sleep=sleep, clock=lambda: now[0])
    assert sending.AWAY_S < now[0] < sending.AWAY_S + 2 * sending.LONGEST_WAIT_S


def test_refused_points_are_counted_with_their_reasons(service: Service) -> None:
    partly = {"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "too old"}}
    wholly = {"code": "bad_request", "message": "all too old", "detail": {"field": "resource_metrics", "rejected": 5}}

    def before(number: int) -> httpx.Response | None:
        return {1: httpx.Response(200, json=partly), 2: httpx.Response(400, json={"error": wholly})}.get(number)

    service.before = before
    (totals,) = load(service.client(), made(3)).values()
    assert totals.refused == 8 and totals.reasons == {"too old": 1, "all too old": 1}


def test_a_request_that_cannot_be_read_names_its_place(service: Service) -> None:
    malformed = {"error": {"code": "bad_request", "message": "body: not JSON", "detail": {"field": "body"}}}
    service.before = lambda number: httpx.Response(400, json=malformed) if number == 2 else None
    with pytest.raises(BadRequest, match="file: line 2: body: not JSON"):
        load(service.client(), made(5), parallel=1)


def test_an_end_does_not_wait_for_those_that_still_try(service: Service) -> None:
    tried = threading.Event()

    def before(number: int) -> httpx.Response | None:
        if number == 2:
            service.lock.release()
            tried.wait(20)
            service.lock.acquire()
            return httpx.Response(403, json={"error": {"code": "forbidden", "message": "revoked"}})
        if number == 3:
            tried.set()
            raise httpx.ConnectError("away")
        return None

    service.before = before
    began = time.monotonic()
    with pytest.raises(Forbidden):
        load(service.client(), made(3), parallel=2)
    assert tried.is_set() and time.monotonic() - began < sending.AWAY_S / 2


class Loader:
    """Takes bundles as the service does: parts of several files, each counted once."""

    def __init__(self) -> None:
        self.bundles: list[list[tuple[bytes, int]]] = []
        self.counted: set[tuple[bytes, int]] = set()

    def client(self) -> Client:
        return Client("http://service", "t", transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == PATH and request.headers["Content-Encoding"] == "zstd"
        plain = zstandard.ZstdDecompressor().decompress(request.content)
        parts = [(found.stream, found.ordinal) for found in map(decode, unbundle(plain))]
        self.bundles.append(parts)
        highest: dict[str, int] = {}
        for stream, number in parts:
            if (stream, number) in self.counted:
                newest = max(other for of, other in self.counted if of == stream)
                highest[stream.hex()] = max(newest, highest.get(stream.hex(), 0))
        self.counted.update(parts)
        refused = {"accepted": 0, "repeated": 0, "refused": 1, "reasons": {"too old": 1}, "known": 0}
        return httpx.Response(200, json={**refused, "highest": highest})


def part(stream: bytes, number: int) -> Batch:
    body = bundle([encode(PackedReport(stream, number))])
    return Batch(stream, number, PATH, {"Content-Type": MEDIA_TYPE}, body, 3, len(body), "", number)


@pytest.mark.parametrize(("alike", "coding"), [(True, ""), (False, "zstd")])
def test_what_shrinks_too_much_to_be_believed_goes_as_it_is(alike: bool, coding: str) -> None:
    """The service undoes what was sent, within its bound on decompression bombs."""
    body = bytes(4 << 20) if alike else random.Random(1).randbytes(4 << 20)
    request = Request([Batch(STREAM, 1, PATH, {"Content-Type": MEDIA_TYPE}, body, 1, len(body), "", 1)])
    sent, headers = sending.bundled(request)
    assert headers.get("Content-Encoding", "") == coding
    assert decompress(sent, headers.get("Content-Encoding", ""), LIMIT_PLAIN) == body


def test_parts_of_several_files_go_in_bundles_and_are_told_apart() -> None:
    loader = Loader()
    streams = [b"a" * 16, b"b" * 16]
    batches = [part(stream, number) for number in range(1, 501) for stream in streams]
    totals = load(loader.client(), batches, parallel=1)
    assert len(loader.bundles) == 5 and loader.counted == {(of, n) for of in streams for n in range(1, 501)}
    assert [(found.batches, found.messages, found.known) for found in totals.values()] == [(500, 1500, 0)] * 2
    assert totals[streams[0]].refused == 5 and totals[streams[0]].reasons == {"too old": 5}


def test_a_known_file_is_passed_over_and_another_beside_it_is_not() -> None:
    loader = Loader()
    known, new = b"a" * 16, b"b" * 16
    count = sending.REMEMBERED + 500
    loader.counted = {(known, number) for number in range(1, count + 1)}
    batches = [part(stream, number) for number in range(1, count + 1) for stream in (known, new)]
    totals = load(loader.client(), batches, parallel=1)
    assert (totals[known].known, totals[new].known) == (count, 0) and totals[new].batches == count
    sent = [number for parts in loader.bundles for stream, number in parts if stream == known]
    # The first bundle had gone before its answer told, and the last ones may not have been kept.
    assert set(range(501, count + 1)) <= set(sent) and len(sent) <= sending.REMEMBERED + BUNDLE_PARTS
    assert {number for stream, number in loader.counted if stream == new} == set(range(1, count + 1))
