"""What a hostile or broken client may hold of a running service, attacked over real sockets (SEC H6, M11, L6)."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from controlplane.app.serve import Server, server_of
from controlplane.app.settings import ServiceSettings
from controlplane.contract.metrics import REQUESTS
from controlplane.contract.reports.opamp import REPLACED_CODE
from controlplane.fleet.opamp.hub import SocketLimits
from controlplane.serving.limits import Refused
from tests.processes import free_port, wait_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SERIES = 50
MEMORY = 64 << 20
"""An attack's hundred megabytes would show above it; what a service allocates beside does not."""


class Attacked:
    """A service on a port, by its sockets."""

    def __init__(self, port: int, data: Path) -> None:
        self.port, self.data = port, data
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=30)

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), source_address=(source, 0))
        made.settimeout(30)
        return made

    def asked(self, request: bytes, source: str = "127.0.0.1") -> bytes:
        """All that a client reads that first sends all; a reset would raise."""
        with self.connect(source) as client:
            client.sendall(request)
            return read_whole(client)

    def bearer(self, file: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {(self.data / file).read_text().strip()}"}

    def node_token(self, node: str) -> str:
        body = {"node": node, "pool": "chat", "backend": "embedded", "role": "serving"}
        answer = self.http.post("/api/v1/enrol", json=body, headers=self.bearer("enrolment-token"))
        return str(answer.raise_for_status().json()["token"])

    def opamp(self, token: str) -> ClientConnection:
        url = self.url.replace("http", "ws") + "/v1/opamp"
        return connect(url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None)

    def counted(self, reason: Refused) -> float:
        for line in self.http.get("/metrics").text.splitlines():
            if line.startswith(f'tailwright_http_refused_total{{reason="{reason.value}"}}'):
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"/metrics does not count {reason.value}")


class Process(Attacked):
    def __init__(self, folder: Path) -> None:
        super().__init__(free_port(), folder / "data")
        words = f"-m controlplane.command.main up --no-tuner --no-dashboard --port {self.port} --data-dir {self.data}"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TAILWRIGHT_")}
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *words.split(), "--query-max-series", str(SERIES)],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
            )

    def resident_bytes(self) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
        raise AssertionError("the process has no memory any more")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A process of its own, with the limits that everybody has."""
    running = Process(tmp_path_factory.mktemp("limits"))
    try:
        wait_for("the service", lambda: running.http.get("/readyz").status_code == 200)
        yield running
    finally:
        running.process.kill()
        running.process.wait()


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Attacked, Server]]:
    """A service in this process, whose limits tests make short or small."""
    data = tmp_path_factory.mktemp("hasty")
    server = server_of(ServiceSettings(data_dir=data, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    assert server.accepting.wait(60)
    running = Attacked(server.port, data)
    yield running, server
    running.http.close()
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def limited(hasty: tuple[Attacked, Server]) -> Iterator[Callable[..., tuple[Attacked, Server]]]:
    """The service in this process, with other limits for one test; nothing was refused in it yet."""
    running, server = hasty
    door = server.service.door
    before = door.limits

    def given(**limits: Any) -> tuple[Attacked, Server]:
        running.http.close()
        running.http = httpx.Client(base_url=running.url, trust_env=False, timeout=30)
        wait_for("no connection of another test", lambda: not door.open)
        door.refused.clear()
        door.limits = replace(before, **limits)
        return running, server

    yield given
    door.limits = before


def read_whole(client: socket.socket) -> bytes:
    answer = b""
    while piece := client.recv(65536):
        answer += piece
    return answer


def refusal(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])
    assert fields[b"content-type"] == b"application/json" and fields[b"x-content-type-options"] == b"nosniff"
    error = json.loads(body)["error"]
    assert error["message"]
    return int(answer.split(b" ", 2)[1]), error["code"]


# -- memory ------------------------------------------------------------------------------------------------------------


def test_heads_without_an_end_are_not_held(service: Process) -> None:
    """Five times 60 MB of one header field, at once."""
    before = service.resident_bytes()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(service.connect()) for _ in range(5)]
        for client in clients:
            client.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: ")
        for _ in range(60 << 4):
            for client in list(clients):
                try:
                    client.sendall(b"a" * 65536)
                except OSError:
                    clients.remove(client)
        assert not clients, "each was cut off"
        assert service.http.get("/healthz").status_code == 200
    assert service.resident_bytes() - before < MEMORY
    wait_for("the count", lambda: service.counted(Refused.HEAD_BYTES) >= 5)


REFUSED = {
    "bytes": (b"GET /healthz HTTP/1.1\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n", 431, Refused.HEAD_BYTES),
    "fields": (b"GET /healthz HTTP/1.1\r\n" + b"A: b\r\n" * 50_000 + b"\r\n", 431, Refused.HEAD_FIELDS),
    "no-http": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), 400, Refused.MALFORMED),
    "no-host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400, Refused.MALFORMED),
    "two-hosts": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nhost: evil.example\r\n\r\n", 400, Refused.MALFORMED),
}


@pytest.fixture(scope="module")
def answers(service: Process) -> dict[str, bytes]:
    """What each of `REFUSED` is told; by then all are counted, which /metrics tells some seconds later."""
    wanted = Counter(reason for _, _, reason in REFUSED.values())
    before = {reason: service.counted(reason) for reason in wanted}
    told = {name: service.asked(request) for name, (request, _, _) in REFUSED.items()}
    wait_for("the counts", lambda: all(service.counted(one) >= before[one] + wanted[one] for one in wanted))
    return told


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_before_the_framework_says_why(service: Process, answers: dict[str, bytes], name: str) -> None:
    _, status, reason = REFUSED[name]
    assert refusal(answers[name]) == (status, reason.value)
    assert "Invalid HTTP" not in service.log.read_text(), "whoever likes could fill the log"


def test_a_body_that_is_too_large_is_answered_and_not_reset(service: Process) -> None:
    body = b"[" + b" " * (1 << 20)
    head = f"POST /api/v1/silences HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nContent-Type: application/json\r\n"
    admin = service.bearer("admin-token")["Authorization"]
    head += f"Authorization: {admin}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(20):
        assert refusal(service.asked(head.encode() + body)) == (413, "too_large")


def test_answers_have_so_many_series_and_say_what_is_left_out(service: Process) -> None:
    """Three hundred tenants, each with one request more than the one before."""
    tenants, now_ns = 300, time.time_ns() // 5_000_000_000 * 5_000_000_000
    points = [
        {
            "attributes": [{"key": "tailwright.tenant", "value": {"stringValue": f"t{number:03}"}}],
            "startTimeUnixNano": str(now_ns - 5_000_000_000),
            "timeUnixNano": str(now_ns),
            "asDouble": number + 1,
        }
        for number in range(tenants)
    ]
    said = {"service.instance.id": "t1", "tailwright.pool": "chat"}
    resource = {"attributes": [{"key": key, "value": {"stringValue": value}} for key, value in said.items()]}
    finished = {
        "name": REQUESTS.name,
        "sum": {"aggregationTemporality": 1, "isMonotonic": True, "dataPoints": points},
    }
    report = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [finished]}]}]}
    sent = service.http.post(
        "/v1/metrics", json=report, headers={"Authorization": f"Bearer {service.node_token('t1')}"}
    )
    assert sent.status_code == 200 and not sent.json().get("partialSuccess"), sent.text
    reader = service.bearer("dashboard-token")
    asked = {"metric": "requests", "by": "tenant", "window": "1m", "end": datetime.now(UTC).isoformat()}
    answer = service.http.get("/api/v1/scalars", params=asked, headers=reader).json()
    kept = [one["labels"]["tenant"] for one in answer["series"]]
    assert kept == [f"t{number:03}" for number in range(tenants - SERIES, tenants)], "those with the most requests"
    assert answer["left_out"]["series"] == tenants - SERIES
    one = service.http.get("/api/v1/scalars", params={**asked, "tenant": "t000"}, headers=reader).json()
    assert [series["value"] for series in one["series"]] == [1.0] and one["left_out"] is None


# -- time --------------------------------------------------------------------------------------------------------------


def test_stalled_connections_do_not_stay(limited: Callable[..., tuple[Attacked, Server]]) -> None:
    """Silent, half a head, half a JSON body, half a chunked one: 60 of each."""
    running, server = limited(head_s=1.0, body_s=1.0)
    head = f"POST /api/v1/silences HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\nContent-Type: application/json\r\n"
    head += f"Authorization: {running.bearer('admin-token')['Authorization']}\r\n"
    kinds = (b"", b"GET /healthz HTTP/1.1\r\nHost: a", head.encode() + b"Content-Length: 100\r\n\r\n{")
    kinds += (head.encode() + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",)
    door = server.service.door
    with contextlib.ExitStack() as stack:
        clients = []
        for number in range(240):
            clients.append(stack.enter_context(running.connect()))
            clients[-1].sendall(kinds[number % 4])
        answers = [read_whole(client) for client in clients]
    assert {refusal(answer) if answer else None for answer in answers[0::4]} == {None}
    assert {refusal(answer) for answer in answers[1::4]} == {(408, "head_time")}
    assert {refusal(answer) for answer in answers[2::4] + answers[3::4]} == {(408, "body_time")}
    assert door.refused == {Refused.HEAD_TIME: 120, Refused.BODY_TIME: 120}
    wait_for("all are closed", lambda: not door.open)


def test_a_node_s_token_holds_one_silent_websocket_for_a_while(
    limited: Callable[..., tuple[Attacked, Server]], monkeypatch: pytest.MonkeyPatch
) -> None:
    running, server = limited()
    hub, door = server.service.fleet, server.service.door
    monkeypatch.setattr(hub, "limits", SocketLimits(first_message_s=3.0, idle_s=3.0))
    token = running.node_token("silent")
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(running.opamp(token)) for _ in range(200)]
        codes = []
        for one in sockets:
            with pytest.raises(ConnectionClosed) as closed:
                one.recv(timeout=30)
            assert closed.value.rcvd is not None
            codes.append(closed.value.rcvd.code)
    # Where the machine took long, some had waited their time when a newer one came.
    assert codes[-1] == 1008 and set(codes) <= {1008, REPLACED_CODE}
    assert door.refused[Refused.OPAMP_REPLACED] == codes.count(REPLACED_CODE) > 0
    assert door.refused[Refused.OPAMP_FIRST_MESSAGE] == codes.count(1008)
    wait_for("all are gone", lambda: hub.connections == 0)


# -- number ------------------------------------------------------------------------------------------------------------


def test_connections_of_one_address_are_bounded_and_others_come_in(
    limited: Callable[..., tuple[Attacked, Server]],
) -> None:
    """And whoever forges `X-Forwarded-For`, from an address that is no proxy's, is counted by the true one."""
    running, server = limited(connections_of_address=20)
    forged = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.%d\r\n"
    with contextlib.ExitStack() as stack:
        for number in range(20):
            client = stack.enter_context(running.connect("127.0.0.2"))
            client.sendall(forged % number + b"Content-Length: 10\r\n\r\n")
        wait_for("they are open", lambda: server.service.door.open["127.0.0.2"] == 20)
        answer = running.asked(forged % 99 + b"\r\n", "127.0.0.2")
        assert refusal(answer) == (429, "connections_of_address")
        assert running.http.get("/healthz").status_code == 200
    assert server.service.door.refused == {Refused.CONNECTIONS_OF_ADDRESS: 1}


def test_connections_are_bounded_in_all(limited: Callable[..., tuple[Attacked, Server]]) -> None:
    running, server = limited(connections=20)
    with contextlib.ExitStack() as stack:
        for number in range(20):
            client = stack.enter_context(running.connect(f"127.0.0.{2 + number}"))
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
        wait_for("they are open", lambda: server.service.door.open.total() == 20)
        assert refusal(running.asked(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")) == (503, "connections")
    wait_for("they are closed", lambda: not server.service.door.open)
    assert running.http.get("/healthz").status_code == 200


def test_heavy_queries_of_a_token_are_few(limited: Callable[..., tuple[Attacked, Server]]) -> None:
    running, server = limited()
    desk, admin = server.service.desk, running.bearer("admin-token")
    me = running.http.get("/api/v1/tokens", headers=admin).json()["items"]
    (number,) = [one["id"] for one in me if one["scope"] == "admin"]
    with contextlib.ExitStack() as stack:
        for _ in range(desk.limits.heavy_at_once):
            desk.enter(f"token/{number}")
            stack.callback(desk.leave, f"token/{number}")
        refused = running.http.get("/api/v1/export", params={"metric": "ttft"}, headers=admin)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "overloaded")
        assert int(refused.headers["Retry-After"]) >= 1
        light = {"metric": "ttft", "window": "5m"}
        assert running.http.get("/api/v1/quantiles", params=light, headers=admin).status_code == 200
        others = running.http.get(
            "/api/v1/export", params={"metric": "ttft"}, headers=running.bearer("dashboard-token")
        )
        assert others.status_code == 200
    assert server.service.door.refused == {Refused.QUERIES_AT_ONCE: 1}
    wait_for("each place was given back", lambda: not desk.heavy)
