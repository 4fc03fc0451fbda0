"""The join with the service's records, which arrive later than the client's."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from agents.client_measure import Ending, NetworkJoin, Recorder, network_times
from controlplane.client import Client
from controlplane.contract import metrics
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.errors import Unavailable
from tests.agents.client_measure.test_recorder import record

NOW = 1_000_000.0


class Service:
    """Lists its records in pages of two, newest first."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []
        self.queries: list[dict[str, str]] = []
        self.failing = False

    def add(self, request_id: str, e2e_s: float = 1.0) -> None:
        made = RequestRecord(
            node="node-a",
            pool="chat",
            model="m",
            revision=1,
            request_id=request_id,
            arrival=datetime.fromtimestamp(NOW, UTC),
            prompt_tokens=3,
            cached_tokens=0,
            output_tokens=4,
            finish_reason="stop",
            parts={"e2e": e2e_s, "ttft": e2e_s / 4},
        )
        self.records.insert(0, made)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.failing:
            return httpx.Response(503, json={"error": {"code": "unavailable", "message": "not now"}})
        asked = dict(request.url.params)
        self.queries.append(asked)
        assert request.url.path == "/api/v1/requests"
        first = int(asked.get("cursor", 0))
        items = self.records[first : first + 2]
        more = str(first + 2) if first + 2 < len(self.records) else None
        page = Page[RequestRecord](items=items, next=more)
        return httpx.Response(200, content=page.model_dump_json())


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client("http://service", transport=httpx.MockTransport(service)) as made:
        yield made


def test_all_pages_of_the_time_in_question_are_read(service: Service, client: Client) -> None:
    for number in range(5):
        service.add(f"cmpl-r-{number}-0")
    ours: list[Any] = [record(number, started=NOW + number) for number in range(4)]
    result = network_times(client, ours, pool="chat")
    assert [found.request_id for found in result.matched] == ["r-0", "r-1", "r-2", "r-3"]
    assert result.unmatched_server == 1 and len(service.queries) == 3
    asked = service.queries[0]
    assert asked["pool"] == "chat"
    assert datetime.fromisoformat(asked["start"]) <= datetime.fromtimestamp(NOW, UTC) - timedelta(seconds=30)
    assert datetime.fromisoformat(asked["end"]) >= datetime.fromtimestamp(NOW + 3, UTC) + timedelta(seconds=30)


def test_nothing_measured_nothing_asked(service: Service, client: Client) -> None:
    assert network_times(client, []).matched == () and service.queries == []


def test_a_record_waits_for_its_counterpart_and_counts_once(
    service: Service, client: Client, recorder: Recorder
) -> None:
    joining = NetworkJoin(recorder, client, pool="chat", give_up_s=300)
    recorder.record(record(0, started=NOW))
    recorder.record(record(1, started=NOW, ending=Ending.CANCELLED))
    assert joining.collect(NOW) == ()
    service.add("r-0")
    recorder.record(record(2, started=NOW))
    service.add("r-2", e2e_s=1.5)
    found = joining.collect(NOW + 10)
    assert {one.request_id: one.network_s for one in found} == {"r-0": 1.0, "r-2": 0.5}
    assert joining.collect(NOW + 20) == () and joining.given_up == 0
    assert recorder.snapshot().count(metrics.CLIENT_NETWORK) == 2


def test_what_never_comes_is_given_up_and_counted(client: Client, recorder: Recorder) -> None:
    joining = NetworkJoin(recorder, client, give_up_s=300)
    recorder.record(record(0, started=NOW, e2e_s=10.0))
    joining.collect(NOW + 309)
    assert joining.given_up == 0
    joining.collect(NOW + 311)
    assert joining.given_up == 1


def test_an_outage_of_the_service_loses_no_record(service: Service, client: Client, recorder: Recorder) -> None:
    joining = NetworkJoin(recorder, client)
    recorder.record(record(0, started=NOW))
    service.add("r-0")
    service.failing = True
    with pytest.raises(Unavailable):
        joining.collect(NOW)
    service.failing = False
    assert [found.request_id for found in joining.collect(NOW)] == ["r-0"]
