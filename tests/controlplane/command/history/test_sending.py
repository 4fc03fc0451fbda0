"""Sending: nearly in order, patient, and nothing twice however often it is begun again."""

import threading
import time
from collections.abc import Callable

import httpx
import pytest

from controlplane.client import Client
from controlplane.command.history import sending
from controlplane.command.history.batches import Batch
from controlplane.command.history.sending import load
from controlplane.contract.errors import BadRequest, Forbidden
from controlplane.contract.packed_report import REPORT_HEADER, report_header

STREAM = b"f" * 16
KEPT = httpx.Response(200, json={})


def made(count: int) -> list[Batch]:
    headers = {"Content-Type": "application/json"}
    return [
        Batch(
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
    totals = load(service.client(), made(300), parallel=parallel, on_answer=lambda batch: answered.append(batch.number))
    assert sorted(service.asked) == list(range(1, 301)) and answered == list(range(1, 301))
    assert (totals.requests, totals.messages, totals.known, totals.refused) == (300, 600, 0, 0)
    # Whatever is sent, all but so many before it have been answered: the service can tell them all apart.
    assert all(number - place <= 2 * parallel for place, number in enumerate(service.asked, 1))


def test_a_file_that_is_loaded_again_is_passed_over_quickly(service: Service) -> None:
    count = 3 * sending.REMEMBERED
    load(service.client(), made(count), parallel=8)
    service.asked.clear()
    totals = load(service.client(), made(count), parallel=8)
    assert totals.requests == count and totals.known >= count - sending.REMEMBERED - 20
    assert len(service.asked) <= sending.REMEMBERED + 20


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
    totals = load(service.client(), made(1), sleep=waits.append)
    assert waits == [7.0, 0.2, 0.4] and totals.requests == 1 and service.counted == {1}


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
    totals = load(service.client(), made(3))
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
