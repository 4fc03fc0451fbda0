"""What a hostile or broken client may hold of a server, by real sockets on a real server."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Container, Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from controlplane.api.error_handlers import error_response
from controlplane.serving import limited_http
from controlplane.serving.address_gate import AddressGate
from controlplane.serving.browser_policy import HEADERS
from controlplane.serving.limited_http import LimitedHttp, protocol
from controlplane.serving.limits import Doorkeeper, Refused, ServerLimits
from controlplane.serving.proxies import Proxies
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
def serving(
    limits: ServerLimits, exempt: Container[str] = frozenset(), app: Any = None, proxies: str = "127.0.0.1"
) -> Iterator[Served]:
    door = Doorkeeper(limits, exempt)
    listener = socket.create_server(("127.0.0.1", 0))
    gated = AddressGate(app or application, door, error_response)
    config = uvicorn.Config(
        gated, forwarded_allow_ips=proxies, http=protocol(door), lifespan="off", log_level="error", timeout_keep_alive=1
    )
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
    fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])
    assert fields[b"connection"] == b"close" and fields[b"content-type"] == b"application/json"
    assert {name.lower().encode(): value.lower().encode() for name, value in HEADERS.items()}.items() <= fields.items()
    assert fields[b"cache-control"] == b"no-store" and int(fields[b"content-length"]) == len(body)
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


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nhOsT: a\r\nConnection: close\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200),
    ],
)
def test_a_request_names_one_host(served: Served, head: bytes, status: int) -> None:
    """RFC 9112, section 3.2; HTTP/1.0 has none."""
    with served.connect() as client:
        client.sendall(head)
        answers = served.until_closed(client)
    assert status_of(answers) == status
    assert answers.count(b"HTTP/1.1 200") == (head.count(b"GET") if status == 200 else 0)
    assert served.door.refused == ({} if status == 200 else {Refused.MALFORMED: 1})


def test_a_large_body_does_not_count_as_head(served: Served) -> None:
    with served.connect() as client:
        client.sendall(
            b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
        )
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
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\n" + kind + b"\r\n\r\n")
        assert refusal(hasty.until_closed(client)) == (408, "body_time")
    assert hasty.door.refused == {Refused.BODY_TIME: 1}


def test_a_long_body_has_the_time_that_its_bytes_need() -> None:
    with serving(ServerLimits(body_s=0.2, body_bytes_per_s=2000)) as served, served.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3000\r\n\r\n")
        began = time.monotonic()
        for _ in range(3):
            client.sendall(b"x" * 1000)
            time.sleep(0.25)
        assert served.until_closed(client).endswith(b"3000") and time.monotonic() - began > 0.2


def test_connections_are_limited_by_address_and_counted_again_when_they_end(served: Served) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(served.connect())
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
        served.is_open(8)
        with served.connect() as one_more:
            assert refusal(served.until_closed(one_more)) == (429, "connections_of_address")
    served.is_open(0)
    assert httpx.get(served.url, trust_env=False).status_code == 200


def test_everybody_behind_a_trusted_proxy_shares_the_whole_limit() -> None:
    with serving(SIZES, frozenset({"127.0.0.1"})) as served, contextlib.ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(served.connect()).sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
        served.is_open(12)
        with served.connect() as one_more:
            assert refusal(served.until_closed(one_more)) == (503, "connections")


def test_what_is_no_http_is_answered_in_the_contract_s_form_too(served: Served) -> None:
    with served.connect() as client:
        client.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
        assert refusal(served.until_closed(client)) == (400, "malformed")
    assert served.door.refused == {Refused.MALFORMED: 1}


def read_whole(client: socket.socket) -> bytes:
    """What a client reads that sends all before it reads: a reset would raise."""
    answer = b""
    while piece := client.recv(65536):
        answer += piece
    return answer


def test_who_sends_on_reads_the_refusal_and_no_reset(served: Served) -> None:
    with served.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * (1 << 20))
        assert refusal(read_whole(client)) == (431, "head_bytes")
    served.is_open(0)


async def closes_early(scope: Any, receive: Any, send: Any) -> None:
    """Answers 413 without reading the body, and wants the connection to end."""
    headers = [(b"content-length", b"2"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": b"no"})


def test_an_answer_before_the_body_is_whole_is_read_too() -> None:
    with serving(SIZES, app=closes_early) as served:
        for _ in range(5):
            with served.connect() as client:
                client.sendall(
                    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n" + b"x" * ((1 << 20) + 1)
                )
                answer = read_whole(client)
                assert status_of(answer) == 413 and answer.endswith(b"no")
        served.is_open(0)
        assert not served.door.refused


def test_no_more_than_so_much_is_dropped_for_the_answer_s_sake(served: Served) -> None:
    with served.connect() as client:
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 64 << 20:
                sent += client.send(b"a" * 65536)
        assert sent < 64 << 20
    served.is_open(0)
    assert sum(served.door.refused.values()) == 1


def test_a_refused_connection_ends_though_the_client_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_http, "DRAIN_S", 0.2)
    with serving(SIZES) as served, served.connect() as client:
        client.sendall(b"no http at all\r\n\r\n")
        served.is_open(0)


def test_nothing_is_answered_within_another_answer() -> None:
    begun = threading.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    with serving(SIZES, app=endless) as served, served.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert begun.wait(10)
        client.sendall(b"no http at all\r\n\r\n")
        answer = served.until_closed(client)
        assert status_of(answer) == 200 and answer.endswith(b"first")


def test_a_connection_has_one_timer_for_all_of_its_requests(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[float] = []
    set_timer = LimitedHttp._set_timer

    def counted(self: LimitedHttp, seconds: float) -> None:
        made.append(seconds)
        set_timer(self, seconds)

    monkeypatch.setattr(LimitedHttp, "_set_timer", counted)
    with httpx.Client(base_url=served.url, trust_env=False) as client:
        for _ in range(50):
            assert client.post("/", content=b"x" * 100).text == "100"
    assert len(made) < 10


FORWARDED = b"X-Forwarded-For: 203.0.113.%d\r\n"


def test_clients_behind_a_proxy_are_bounded_by_their_own_address() -> None:
    limits = ServerLimits(connections_of_address=3)
    with serving(limits, Proxies.of(["127.0.0.0/8"])) as served, contextlib.ExitStack() as stack:
        for client in (1, 1, 1, 2):
            waiting = stack.enter_context(served.connect())
            waiting.sendall(b"POST / HTTP/1.1\r\nHost: a\r\n" + FORWARDED % client + b"Content-Length: 10\r\n\r\n")
        wait_for("their requests", lambda: served.door.under_way == {"203.0.113.1": 3, "203.0.113.2": 1}, 10)
        for client, status in ((1, 429), (2, 200)):
            with served.connect() as one_more:
                one_more.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + FORWARDED % client + b"\r\n")
                answer = served.until_closed(one_more)
                assert status_of(answer) == status, answer
        assert served.door.refused == {Refused.CONNECTIONS_OF_ADDRESS: 1}
    wait_for("none under way", lambda: not served.door.under_way, 10)


def test_a_forged_address_of_anybody_else_changes_nothing() -> None:
    limits = ServerLimits(connections_of_address=3)
    trusted = "203.0.113.0/24"
    with serving(limits, Proxies.of([trusted]), proxies=trusted) as served, contextlib.ExitStack() as stack:
        for client in range(3):
            waiting = stack.enter_context(served.connect())
            waiting.sendall(b"POST / HTTP/1.1\r\nHost: a\r\n" + FORWARDED % client + b"Content-Length: 10\r\n\r\n")
        served.is_open(3)
        with served.connect() as one_more:
            one_more.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n" + FORWARDED % 9 + b"\r\n")
            assert refusal(served.until_closed(one_more)) == (429, "connections_of_address")
        assert set(served.door.open) == {"127.0.0.1"} and not served.door.under_way
