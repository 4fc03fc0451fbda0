"""The clock under httpx and httpx2, over transports that need no network."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any, Self

import httpx
import httpx2
import pytest

from agents.client_measure import ClientRecord, Ending, Recorder, timed_transport, unwrap_httpx, wrap_httpx

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2])
URL = "http://server:8000/v1/chat/completions"
ASKED = {"model": "m-1", "messages": [{"role": "user", "content": 'say "model": "other"'}]}
DONE = b"data: [DONE]\n\n"


def event(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


WHOLE = [event("a"), event("b"), event("", "stop"), DONE]


class Broken(Exception):
    pass


class Body:
    """A body of given chunks, in either library, sync or async; notes that it was closed."""

    def __init__(self, chunks: list[bytes], error: Exception | None = None) -> None:
        self.chunks, self.error = chunks, error
        self.closed = 0

    def of(self, library: Any, *, of_async: bool) -> Any:
        note = self

        class Sync(library.SyncByteStream):  # type: ignore[misc]
            def __iter__(self) -> Iterator[bytes]:
                yield from note.chunks
                if note.error is not None:
                    raise note.error

            def close(self) -> None:
                note.closed += 1

        class Async(library.AsyncByteStream):  # type: ignore[misc]
            async def __aiter__(self) -> AsyncIterator[bytes]:
                for chunk in note.chunks:
                    yield chunk
                if note.error is not None:
                    raise note.error

            async def aclose(self) -> None:
                note.closed += 1

        return Async() if of_async else Sync()


class Transport:
    """Answers as it is told, and keeps the requests."""

    def __init__(self, library: Any, body: Body, status: int = 200, content_type: str = "text/event-stream") -> None:
        self.library, self.body, self.status, self.type = library, body, status, content_type
        self.requests: list[Any] = []
        self.error: BaseException | None = None
        self.mark = "inner"

    def _answer(self, request: Any, *, of_async: bool) -> Any:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        stream = self.body.of(self.library, of_async=of_async)
        return self.library.Response(self.status, headers={"content-type": self.type}, stream=stream)

    def handle_request(self, request: Any) -> Any:
        if "trace" in request.extensions:
            request.extensions["trace"]("http11.send_request_headers.started", {})
        return self._answer(request, of_async=False)

    async def handle_async_request(self, request: Any) -> Any:
        if "trace" in request.extensions:
            await request.extensions["trace"]("http11.send_request_headers.started", {})
        return self._answer(request, of_async=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None: ...


def read(transport: Transport, records: list[ClientRecord], **options: Any) -> bytes:
    library: Any = transport.library
    with library.Client(transport=timed_transport(transport, records.append)) as client:
        with client.stream("POST", URL, json=ASKED, **options) as response:
            return b"".join(response.iter_raw())


def read_async(transport: Transport, records: list[ClientRecord], **options: Any) -> bytes:
    async def run() -> bytes:
        library: Any = transport.library
        async with library.AsyncClient(transport=timed_transport(transport, records.append)) as client:
            async with client.stream("POST", URL, json=ASKED, **options) as response:
                return b"".join([chunk async for chunk in response.aiter_raw()])

    return asyncio.run(run())


BOTH = pytest.mark.parametrize("reading", [read, read_async])
Reading = Callable[..., bytes]


@LIBRARIES
@BOTH
def test_a_stream_goes_through_as_it_is_and_makes_one_record(library: ModuleType, reading: Reading) -> None:
    transport, records = Transport(library, Body(WHOLE)), list[ClientRecord]()
    assert reading(transport, records) == b"".join(WHOLE)
    (record,) = records
    assert (record.ending, record.finish_reason, record.status) == (Ending.COMPLETE, "stop", 200)
    assert (record.model, record.operation, record.target) == ("m-1", "chat", "server:8000")
    assert record.pieces == 2 and len(record.gaps_s) == 1 and record.reused is True
    assert transport.body.closed == 1


@LIBRARIES
@BOTH
def test_the_request_gets_an_id_and_keeps_one_it_has(library: ModuleType, reading: Reading) -> None:
    transport, records = Transport(library, Body(WHOLE)), list[ClientRecord]()
    reading(transport, records)
    reading(transport, records, headers={"x-request-id": "mine-7"})
    made, kept = [request.headers["X-Request-Id"] for request in transport.requests]
    assert len(made) == 32 and kept == "mine-7"
    assert [record.request_id for record in records] == [made, kept]


@LIBRARIES
def test_the_callers_own_trace_is_told_too_and_left_in_place(library: ModuleType) -> None:
    told: list[str] = []

    def own(name: str, info: Any) -> None:
        told.append(name)

    transport, records = Transport(library, Body(WHOLE)), list[ClientRecord]()
    read(transport, records, extensions={"trace": own})
    assert told == ["http11.send_request_headers.started"]
    assert transport.requests[0].extensions["trace"] is own
    read(transport, records)
    assert "trace" not in transport.requests[1].extensions


@LIBRARIES
@BOTH
def test_an_exception_of_the_transport_is_the_callers(library: ModuleType, reading: Reading) -> None:
    transport, records = Transport(library, Body([])), list[ClientRecord]()
    transport.error = Broken("no route")
    with pytest.raises(Broken) as raised:
        reading(transport, records)
    assert raised.value is transport.error
    assert [(record.ending, record.error, record.status) for record in records] == [(Ending.ERROR, "Broken", None)]


@LIBRARIES
@BOTH
def test_a_body_that_breaks_off_is_an_error(library: ModuleType, reading: Reading) -> None:
    body, records = Body(WHOLE[:2], Broken("reset")), list[ClientRecord]()
    with pytest.raises(Broken):
        reading(Transport(library, body), records)
    assert [(record.ending, record.error, record.pieces) for record in records] == [(Ending.ERROR, "Broken", 2)]
    assert body.closed == 1


@BOTH
def test_a_stream_that_just_stops_is_incomplete(reading: Reading) -> None:
    records: list[ClientRecord] = []
    reading(Transport(httpx, Body(WHOLE[:2])), records)
    assert [(record.ending, record.error) for record in records] == [(Ending.ERROR, "incomplete")]


@BOTH
def test_an_error_in_the_stream_is_an_error(reading: Reading) -> None:
    records: list[ClientRecord] = []
    told = b'data: {"error": {"message": "out of memory"}}\n\n'
    reading(Transport(httpx, Body([*WHOLE[:2], told, DONE])), records)
    assert [(record.ending, record.error) for record in records] == [(Ending.ERROR, "told")]


@LIBRARIES
@BOTH
def test_a_refusal_is_an_error_by_its_status(library: ModuleType, reading: Reading) -> None:
    records: list[ClientRecord] = []
    body = b'{"error": {"message": "full"}}'
    assert reading(Transport(library, Body([body]), 429, "application/json"), records) == body
    assert [(record.ending, record.error, record.status) for record in records] == [(Ending.ERROR, "429", 429)]


def test_what_comes_after_done_is_no_time_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    for place in ("transport", "http_exchange"):
        monkeypatch.setattr(f"agents.client_measure.{place}.perf_counter", lambda: now[0])
    records: list[ClientRecord] = []
    with httpx.Client(transport=timed_transport(Transport(httpx, Body(WHOLE)), records.append)) as client:  # type: ignore[arg-type]
        with client.stream("POST", URL, json=ASKED) as response:
            chunks = response.iter_raw()
            for _ in WHOLE:
                now[0] += 1.0
                next(chunks)
            now[0] += 10.0
    (record,) = records
    assert (record.e2e_s, record.ttft_s, record.gaps_s) == (4.0, 1.0, (1.0,))


@LIBRARIES
def test_closing_before_the_end_is_a_cancellation_and_after_done_it_is_not(library: Any) -> None:
    records: list[ClientRecord] = []
    for reads in (1, len(WHOLE)):
        transport = Transport(library, Body(WHOLE))
        with library.Client(transport=timed_transport(transport, records.append)) as client:
            with client.stream("POST", URL, json=ASKED) as response:
                chunks = response.iter_raw()
                for _ in range(reads):
                    next(chunks)
        assert transport.body.closed == 1
    assert [record.ending for record in records] == [Ending.CANCELLED, Ending.COMPLETE]


def test_a_cancelled_task_is_a_cancellation() -> None:
    records: list[ClientRecord] = []

    async def run() -> None:
        reading = asyncio.Event()

        class Endless(httpx.AsyncByteStream):
            async def __aiter__(self) -> AsyncIterator[bytes]:
                yield WHOLE[0]
                reading.set()
                await asyncio.Event().wait()

        async def answer(request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Endless())

        async with httpx.AsyncClient(transport=timed_transport(httpx.MockTransport(answer), records.append)) as client:
            task = asyncio.create_task(client.post(URL, json=ASKED))
            await reading.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())
    assert [(record.ending, record.pieces) for record in records] == [(Ending.CANCELLED, 1)]


@LIBRARIES
def test_an_answer_in_one_piece(library: Any) -> None:
    told = {"choices": [{"message": {"content": "x"}, "finish_reason": "length"}], "usage": {"completion_tokens": 5}}
    body = json.dumps(told).encode()
    records: list[ClientRecord] = []
    transports = [
        Transport(library, Body([body[:20], body[20:]]), content_type="application/json"),
        library.MockTransport(lambda request: library.Response(200, json=told)),  # Which has read it before we see it.
    ]
    for transport in transports:
        with library.Client(transport=timed_transport(transport, records.append)) as client:
            assert client.post(URL, json=ASKED).json() == told
    for record in records:
        assert (record.ending, record.finish_reason, record.output_tokens) == (Ending.COMPLETE, "length", 5)
        assert record.ttft_s is None and record.tpot_s is None and record.gaps_s == ()
    assert len(records) == 2


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/chat/completions"), ("POST", "/v1/embeddings")])
def test_other_requests_are_left_alone(method: str, path: str) -> None:
    records: list[ClientRecord] = []
    transport = Transport(httpx, Body([b"{}"]), content_type="application/json")
    with httpx.Client(transport=timed_transport(transport, records.append)) as client:  # type: ignore[arg-type]
        client.request(method, f"http://server{path}").raise_for_status()
    assert records == [] and "X-Request-Id" not in transport.requests[0].headers


def test_the_model_of_a_streamed_body_is_not_looked_for() -> None:
    records: list[ClientRecord] = []

    def body() -> Iterator[bytes]:
        yield json.dumps(ASKED).encode()

    transport = Transport(httpx, Body(WHOLE))
    with httpx.Client(transport=timed_transport(transport, records.append)) as client:  # type: ignore[arg-type]
        client.post(URL, content=body())
    assert [(record.model, record.ending) for record in records] == [("", Ending.COMPLETE)]


@LIBRARIES
def test_wrapping_a_client_takes_its_proxies_too_and_can_be_undone(library: Any, recorder: Recorder) -> None:
    transport, mounted = Transport(library, Body(WHOLE)), Transport(library, Body(WHOLE))
    with library.Client(transport=transport, mounts={"https://": mounted, "http://none": None}) as client:
        assert wrap_httpx(client, recorder) is client
        wrap_httpx(client, recorder)
        for scheme in ("http", "https"):
            client.post(f"{scheme}://server/v1/chat/completions", json=ASKED)
        assert recorder.snapshot().requests == 2, "a client wrapped twice tells each request once"
        assert client._transport.mark == "inner", "other attributes are the transport's own"
        assert unwrap_httpx(client) is client and client._transport is transport
        client.post(URL, json=ASKED)
        client.post(URL.replace("http:", "https:"), json=ASKED)
    assert recorder.snapshot().requests == 2


def test_what_is_no_client_is_refused_by_name(recorder: Recorder) -> None:
    with pytest.raises(TypeError, match="dict is no client of httpx"):
        wrap_httpx({}, recorder)
