"""What a hostile or broken client may hold of a server, by real sockets on a real server."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from controlplane.serving.limited_http import protocol
from controlplane.serving.limits import Doorkeeper, Refused, ServerLimits
from tests.processes import wait_for

SIZES = ServerLimits(head_bytes=8192, head_fields=20, connections=12, connections_of_address=8)
TIMES = ServerLimits(head_s=0.3, body_s=0.3, body_bytes_per_s=10**6)
"""Each by itself, so that a busy machine is not taken for a slow client."""


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Reads the whole body and says how long it was."""
    assert scope["type"] == "http"
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    answer = b"%d" % size
    length = (b"content-length", b"%d" % len(answer))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": answer})


class Served:
    def __init__(self, door: Doorkeeper, port: int) -> None:
        self.door, self.port = door, port
        self.url = f"http://127.0.0.1:{port}"

    def connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port))
        made.settimeout(10)
        return made

    def until_closed(self, connection: socket.socket) -> bytes:
        """What it answers until it closes."""
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                answer += piece
        return answer

    def is_open(self, count: int) -> None:
        wait_for("so many connections", lambda: self.door.open.total() == count, 10)


@contextlib.contextmanager
def serving(limits: ServerLimits, exempt: frozenset[str] = frozenset()) -> Iterator[Served]:
    door = Doorkeeper(limits, exempt)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, http=protocol(door), lifespan="off", log_level="error", timeout_keep_alive=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        wait_for("the server", lambda: server.started)
        yield Served(door, listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(SIZES) as running:
        yield running


@pytest.fixture
def hasty() -> Iterator[Served]:
    with serving(TIMES) as running:
        yield running


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def refusal(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    return status_of(answer), json.loads(body)["error"]["code"]


def test_usual_requests_pass_and_a_connection_is_used_again(served: Served) -> None:
    with httpx.Client(base_url=served.url, trust_env=False) as client:
        for size in (0, 1, 10**6):
            assert client.post("/", content=b"x" * size).text == str(size)
        assert served.door.open.total() == 1
    served.is_open(0)
    assert not served.door.refused


def test_a_field_that_never_ends_is_not_held(served: Served) -> None:
    with served.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nX-Long: ")
        with contextlib.suppress(OSError):
            for _ in range(100):
                client.sendall(b"a" * 4096)
        answer = served.until_closed(client)
    assert answer == b"" or refusal(answer) == (431, "head_bytes")
    assert served.door.refused == {Refused.HEAD_BYTES: 1}


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 21 + b"\r\n", Refused.HEAD_FIELDS),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 8192 + b"\r\n\r\n", Refused.HEAD_BYTES),
        (b"GET /" + b"a" * 8192 + b" HTTP/1.1\r\nHost: a\r\n\r\n", Refused.HEAD_BYTES),
    ],
)
def test_a_head_that_is_too_much_is_refused_whole(served: Served, head: bytes, reason: Refused) -> None:
    with served.connect() as client:
        client.sendall(head)
        assert refusal(served.until_closed(client)) == (431, reason.value)
    assert served.door.refused == {reason: 1}


def test_a_large_body_does_not_count_as_head(served: Served) -> None:
    with served.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000)
        assert served.until_closed(client).endswith(b"100000")
    assert not served.door.refused


def test_who_says_nothing_or_half_a_head_is_let_go(hasty: Served) -> None:
    with hasty.connect() as silent, hasty.connect() as half:
        half.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert hasty.until_closed(silent) == b""
        assert refusal(hasty.until_closed(half)) == (408, "head_time")
    assert hasty.door.refused == {Refused.HEAD_TIME: 2}
    hasty.is_open(0)


def test_a_head_that_drips_has_no_longer(hasty: Served) -> None:
    with hasty.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\n")
        answer = b""
        with contextlib.suppress(OSError):
            client.settimeout(0.05)
            for _ in range(200):
                client.sendall(b"A: b\r\n"[:1])
                with contextlib.suppress(TimeoutError):
                    answer += client.recv(4096)
                    break
        assert status_of(answer) in (408, 400) and hasty.door.refused[Refused.HEAD_TIME] == 1


def test_a_second_request_has_its_own_time(hasty: Served) -> None:
    with hasty.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert status_of(client.recv(4096)) == 200
        client.sendall(b"GET / HT")
        assert refusal(hasty.until_closed(client)) == (408, "head_time")


@pytest.mark.parametrize("kind", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
def test_a_body_that_stops_is_given_up(hasty: Served, kind: bytes) -> None:
    with hasty.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\n" + kind + b"\r\n\r\n")
        assert refusal(hasty.until_closed(client)) == (408, "body_time")
    assert hasty.door.refused == {Refused.BODY_TIME: 1}


def test_a_long_body_has_the_time_that_its_bytes_need() -> None:
    with serving(ServerLimits(body_s=0.2, body_bytes_per_s=2000)) as served, served.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 3000\r\n\r\n")
        began = time.monotonic()
        for _ in range(3):
            client.sendall(b"x" * 1000)
            time.sleep(0.25)
        assert served.until_closed(client).endswith(b"3000") and time.monotonic() - began > 0.2


def test_connections_are_limited_by_address_and_counted_again_when_they_end(served: Served) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(served.connect())
            client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n")
        served.is_open(8)
        with served.connect() as one_more:
            assert refusal(served.until_closed(one_more)) == (429, "connections_of_address")
    served.is_open(0)
    assert httpx.get(served.url, trust_env=False).status_code == 200


def test_everybody_behind_a_trusted_proxy_shares_the_whole_limit() -> None:
    with serving(SIZES, frozenset({"127.0.0.1"})) as served, contextlib.ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(served.connect()).sendall(b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n")
        served.is_open(12)
        with served.connect() as one_more:
            assert refusal(served.until_closed(one_more)) == (503, "connections")
