"""The receiver takes what vLLM sends, and answers everything else with a clear refusal."""

import asyncio
import gzip
import socket
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from agents.backends.vllm.measures.traces import LARGEST_BODY_BYTES, LARGEST_DECODED_BYTES, MOST_WAITING, TraceReceiver
from tests.agents.backends.vllm.conftest import eventually
from tests.agents.backends.vllm.measures.spans import export, span
from tests.processes import free_port

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def served(work: Callable[[TraceReceiver, httpx.AsyncClient], Awaitable[None]]) -> None:
    async def run() -> None:
        receiver = TraceReceiver(free_port())
        serving = asyncio.create_task(receiver.run())
        transport = httpx.AsyncHTTPTransport(retries=0)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{receiver.port}", transport=transport) as http:
            try:
                await eventually(lambda: _listens(receiver.port))
                await work(receiver, http)
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(run())


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("encoding", "pack"), [("", bytes), ("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)]
)
def test_requests_are_taken_in_every_encoding(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    async def work(receiver: TraceReceiver, http: httpx.AsyncClient) -> None:
        assert not receiver.heard_within(60.0)
        headers = PROTOBUF | ({"Content-Encoding": encoding} if encoding else {})
        body = pack(export(span(id="a"), span(name="Init"), span(id="b")).SerializeToString())
        answer = await http.post("/v1/traces", content=body, headers=headers)
        assert answer.status_code == 200 and answer.headers["content-type"] == "application/x-protobuf"
        assert not ExportTraceServiceResponse.FromString(answer.content).HasField("partial_success")
        assert receiver.arrived.is_set() and receiver.heard_within(60.0)
        assert [one.request_id for one in receiver.take()] == ["a", "b"]
        assert receiver.take() == [] and not receiver.arrived.is_set()

    served(work)


def test_spans_that_cannot_be_read_are_told_back() -> None:
    async def work(receiver: TraceReceiver, http: httpx.AsyncClient) -> None:
        body = export(span(e2e=None), span()).SerializeToString()
        answer = await http.post("/v1/traces", content=body, headers=PROTOBUF)
        told = ExportTraceServiceResponse.FromString(answer.content).partial_success
        assert answer.status_code == 200 and told.rejected_spans == 1 and "e2e" in told.error_message
        assert len(receiver.take()) == 1

    served(work)


GOOD = export(span()).SerializeToString()


@pytest.mark.parametrize(
    ("path", "headers", "body", "status", "mend"),
    [
        ("/v1/traces", {"Content-Type": "application/json"}, b"{}", 415, "http/protobuf"),
        ("/v1/traces", PROTOBUF, b"\xff\xff\xff not protobuf", 400, "protobuf"),
        ("/v1/traces", PROTOBUF | {"Content-Encoding": "gzip"}, GOOD, 400, "gzip"),
        ("/v1/traces", PROTOBUF | {"Content-Encoding": "gzip"}, gzip.compress(GOOD)[:-9], 400, "cut off"),
        ("/v1/traces", PROTOBUF | {"Content-Encoding": "br"}, GOOD, 415, "gzip"),
        ("/v1/traces", PROTOBUF, bytes(LARGEST_BODY_BYTES + 1), 413, "smaller"),
        (
            "/v1/traces",
            PROTOBUF | {"Content-Encoding": "gzip"},
            gzip.compress(bytes(LARGEST_DECODED_BYTES + 1)),
            413,
            "smaller",
        ),
        ("/", PROTOBUF, GOOD, 404, "/v1/traces"),
        ("/opentelemetry.proto.collector.trace.v1.TraceService/Export", PROTOBUF, GOOD, 404, "/v1/traces"),
    ],
)
def test_what_is_wrong_is_refused_with_the_mend_and_the_next_is_taken(
    path: str, headers: dict[str, str], body: bytes, status: int, mend: str
) -> None:
    async def work(receiver: TraceReceiver, http: httpx.AsyncClient) -> None:
        answer = await http.post(path, content=body, headers=headers)
        assert answer.status_code == status
        assert mend in answer.json()["error"]["message"]
        assert receiver.take() == []
        assert (await http.post("/v1/traces", content=GOOD, headers=PROTOBUF)).status_code == 200
        assert len(receiver.take()) == 1

    served(work)


def test_another_method_is_refused() -> None:
    async def work(receiver: TraceReceiver, http: httpx.AsyncClient) -> None:
        assert (await http.get("/v1/traces")).status_code == 405

    served(work)


def test_what_is_not_counted_is_taken_and_passed_over() -> None:
    async def work(receiver: TraceReceiver, http: httpx.AsyncClient) -> None:
        receiver.count(False)
        assert (await http.post("/v1/traces", content=GOOD, headers=PROTOBUF)).status_code == 200
        assert receiver.take() == [] and not receiver.arrived.is_set()

    served(work)


@pytest.mark.slow
def test_too_many_that_wait_push_out_the_oldest_and_are_counted() -> None:
    async def work(receiver: TraceReceiver, http: httpx.AsyncClient) -> None:
        one = span(id="old")
        body = gzip.compress(export(*[one] * 9000, span(id="new")).SerializeToString())
        for _ in range(6):
            headers = PROTOBUF | {"Content-Encoding": "gzip"}
            assert (await http.post("/v1/traces", content=body, headers=headers)).status_code == 200
        taken = receiver.take()
        assert len(taken) == MOST_WAITING and receiver.dropped == 6 * 9001 - MOST_WAITING
        assert taken[-1].request_id == "new"

    served(work)


def test_a_port_that_is_taken_is_said_and_costs_no_more(caplog: Any) -> None:
    async def run() -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            receiver = TraceReceiver(other.getsockname()[1])
            serving = asyncio.create_task(receiver.run())
            await eventually(lambda: bool(receiver.error))
            assert str(receiver.port) in receiver.error
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(run())
