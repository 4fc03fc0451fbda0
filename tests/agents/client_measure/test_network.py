"""Network time is a figure: what a proxy adds on the way is found again, and the server's own time is not touched.

Through a real engine, over plain HTTP and over TLS with delays of known size. Delays are far above what a request takes
here, so that no bound depends on how fast the machine is.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from agents.client_measure import ClientRecord, Ending, NetworkTime, Recorder, join, wrap_httpx
from controlplane.contract import metrics
from tests.agents.client_measure.served_engine import PROMPT, WHOLE, ServedEngine
from tests.agents.client_measure.tls_proxy import Authority, Delays, tls_proxy
from tests.agents.engine.serving import eventually

pytestmark = pytest.mark.slow

HANDSHAKE_S, TO_SERVER_S, TO_CLIENT_S = 0.2, 0.25, 0.3
TOKENS = 6
STREAM = {"prompt": PROMPT, "model": "tiny", "max_tokens": TOKENS, "stream": True, **WHOLE}


@dataclass(frozen=True)
class Seen:
    """Two requests over one connection: the first opens it."""

    records: list[ClientRecord]
    times: list[NetworkTime]
    recorder: Recorder


def ask(url: str, engine: ServedEngine, context: Any = True, body: dict[str, Any] = STREAM) -> Seen:
    recorder = Recorder("c")
    with wrap_httpx(httpx.Client(verify=context, timeout=60), recorder) as client:
        for _ in range(2):
            with client.stream("POST", f"{url}/v1/completions", json=body) as response:
                assert response.status_code == 200
                for _ in response.iter_raw():
                    pass
    return seen_by(recorder, engine)


def ask_async(url: str, engine: ServedEngine, context: Any = True, body: dict[str, Any] = STREAM) -> Seen:
    recorder = Recorder("c")

    async def run() -> None:
        async with wrap_httpx(httpx.AsyncClient(verify=context, timeout=60), recorder) as client:
            for _ in range(2):
                async with client.stream("POST", f"{url}/v1/completions", json=body) as response:
                    async for _ in response.aiter_raw():
                        pass

    asyncio.run(run())
    return seen_by(recorder, engine)


def seen_by(recorder: Recorder, engine: ServedEngine) -> Seen:
    records = recorder.take_records()
    assert [record.ending for record in records] == [Ending.COMPLETE] * 2
    result = join(records, engine.records(*(record.request_id for record in records)))
    assert (result.unmatched_client, result.unmatched_server, result.ambiguous) == (0, 0, 0)
    recorder.record_network(result.matched)
    return Seen(records, list(result.matched), recorder)


Ask = Callable[..., Seen]
BOTH = pytest.mark.parametrize("asking", [ask, ask_async])


@pytest.fixture(scope="module")
def delayed(engine: ServedEngine, authority: Authority) -> Iterator[str]:
    with tls_proxy(engine.url, authority, Delays(HANDSHAKE_S, TO_SERVER_S, TO_CLIENT_S)) as proxy:
        yield proxy.url


@pytest.mark.clock
@BOTH
def test_what_the_way_adds_is_found_and_the_servers_time_is_not_touched(
    engine: ServedEngine, delayed: str, authority: Authority, asking: Ask
) -> None:
    added = TO_SERVER_S + TO_CLIENT_S
    for found in asking(delayed, engine, authority.client).times:
        assert added * 0.999 <= found.network_s < 2 * added
        assert found.network_ttft_s is not None and added * 0.999 <= found.network_ttft_s < 2 * added
        assert found.server_e2e_s < added < found.client_e2e_s, "the delay is no time of the server's"
        assert found.network_s == pytest.approx(
            found.client_e2e_s - found.server_e2e_s - found.pool_s - (found.connect_s or 0.0) - (found.tls_s or 0.0)
        )


@pytest.mark.clock
@BOTH
def test_connect_and_tls_are_apart_and_only_of_new_connections(
    engine: ServedEngine, delayed: str, authority: Authority, asking: Ask
) -> None:
    seen = asking(delayed, engine, authority.client)
    first, second = seen.records
    assert first.reused is False and second.reused is True
    assert first.tls_s is not None and HANDSHAKE_S * 0.999 <= first.tls_s < 3 * HANDSHAKE_S
    assert first.connect_s is not None and first.connect_s < HANDSHAKE_S, "the handshake's delay is TLS's alone"
    assert (second.connect_s, second.tls_s, second.lookup_s) == (None, None, None)
    counted = seen.recorder.snapshot()
    assert counted.count(metrics.CLIENT_TLS) == counted.count(metrics.CLIENT_CONNECT) == 1
    assert counted.count(metrics.CLIENT_NETWORK) == counted.count(metrics.CLIENT_NETWORK_TTFT) == 2
    network = counted.quantile(metrics.CLIENT_NETWORK, 0.5)
    assert network is not None and network >= (TO_SERVER_S + TO_CLIENT_S) * 0.97


@pytest.mark.clock
@BOTH
def test_without_anything_on_the_way_nothing_like_it_is_found(engine: ServedEngine, asking: Ask) -> None:
    seen = asking(engine.url, engine)
    for record, found in zip(seen.records, seen.times, strict=True):
        assert record.tls_s is None
        assert found.network_s < TO_SERVER_S + TO_CLIENT_S
        assert found.client_e2e_s >= found.server_e2e_s + found.network_s - 1e-9
        assert 0 < record.pieces <= TOKENS and record.finish_reason == "length"
        assert record.ttft_s is not None and 0.0 < record.ttft_s <= record.e2e_s
    gaps = seen.recorder.snapshot().count(metrics.CLIENT_ITL)
    assert gaps == sum(record.pieces - 1 for record in seen.records)


def test_an_answer_in_one_piece_has_its_network_time_too(
    engine: ServedEngine, delayed: str, authority: Authority
) -> None:
    seen = ask(delayed, engine, authority.client, {**STREAM, "stream": False})
    for record, found in zip(seen.records, seen.times, strict=True):
        assert record.output_tokens == TOKENS and record.finish_reason == "length" and record.ttft_s is None
        assert found.network_ttft_s is None
        assert found.network_s >= (TO_SERVER_S + TO_CLIENT_S) * 0.999


def test_several_prompts_and_answers_are_one_request(engine: ServedEngine) -> None:
    recorder = Recorder("c")
    body = {**STREAM, "prompt": [PROMPT, "import os"], "n": 2, "temperature": 1.0}
    with wrap_httpx(httpx.Client(timeout=60), recorder) as client:
        client.post(f"{engine.url}/v1/completions", json=body).raise_for_status()
    (record,) = recorder.take_records()
    outputs = [record.request_id, *(f"{record.request_id}-{place}" for place in (1, 2, 3))]
    result = join([record], engine.records(*outputs))
    (found,) = result.matched
    assert result.unmatched_server == 0 and found.server_e2e_s == max(
        server.parts["e2e"] for server in engine.records(*outputs)
    )


def test_a_consumer_that_dawdles_is_told_from_the_network(
    engine: ServedEngine, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that only the consumer's dawdling moves: what it adds to e2e is known to be no network."""
    now = [100.0]
    for place in ("transport", "http_exchange"):
        monkeypatch.setattr(f"agents.client_measure.{place}.perf_counter", lambda: now[0])
    # An engine that is kept from the processor tells several tokens at once: their beginning is read first.
    monkeypatch.setattr("httpcore._sync.http11.HTTP11Connection.READ_NUM_BYTES", 64)
    body, headers = STREAM, {"X-Request-Id": "dawdler"}
    with wrap_httpx(httpx.Client(timeout=60), recorder) as client:
        with client.stream("POST", f"{engine.url}/v1/completions", json=body, headers=headers) as response:
            chunks = response.iter_raw()
            next(chunks)
            now[0] += 50.0
            for _ in chunks:
                pass
    (record,) = recorder.take_records()
    (found,) = join([record], engine.records("dawdler")).matched
    assert record.e2e_s == record.held_s == record.behind_s == 50.0
    assert found.network_s > 0.0 >= found.network_s - found.uncertainty_s


def test_a_refused_connection_is_an_error_with_no_answer(recorder: Recorder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with wrap_httpx(httpx.Client(), recorder) as client, pytest.raises(httpx.ConnectError):
        client.post(f"http://127.0.0.1:{port}/v1/completions", json=STREAM)
    (record,) = recorder.take_records()
    assert (record.ending, record.error, record.status) == (Ending.ERROR, "ConnectError", None)
    assert record.connect_s is not None and record.reused is False


@pytest.mark.clock
def test_a_slow_lookup_shows_in_connect(engine: ServedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    own, waiting = socket.getaddrinfo, threading.Event()

    def slow(*asked: Any, **more: Any) -> Any:
        waiting.wait(0.3)
        return own(*asked, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    first, _ = ask(engine.url.replace("127.0.0.1", "localhost"), engine).records
    assert first.connect_s is not None and first.connect_s >= 0.3
    if first.lookup_s is not None:  # Where the kernel tells the handshake.
        assert first.connect_s - 0.1 < first.lookup_s <= first.connect_s


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="watches the kernel's table of connections")
def test_a_slow_tcp_connect_shows_in_connect(engine: ServedEngine, recorder: Recorder) -> None:
    """A listener whose queue is full does not answer a SYN: the kernel tries again after a second."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    address = listener.getsockname()
    queued = socket.create_connection(address)
    state = f"0100007F:{address[1]:04X} 02"

    def relay() -> None:
        eventually(lambda: state in Path("/proc/net/tcp").read_text())
        listener.accept()[0].close()
        connection, _ = listener.accept()
        with connection:
            connection.recv(2**16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    thread = threading.Thread(target=relay)
    thread.start()
    with wrap_httpx(httpx.Client(timeout=60), recorder) as client:
        client.post(f"http://127.0.0.1:{address[1]}/v1/completions", json=STREAM).raise_for_status()
    thread.join(20)
    queued.close()
    listener.close()
    (record,) = recorder.take_records()
    assert record.connect_s is not None and 0.5 < record.connect_s < record.e2e_s
    assert record.lookup_s is None, "the kernel leaves the lost try out, so nothing can be told apart"
