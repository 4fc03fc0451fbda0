"""What the fuzzing sends, by surface. Shot n of a surface is drawn from the seed, the surface's name and n alone.

Times in reports are those of the moment of drawing; everything else of a shot is the same again by its number.
"""

import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.chaos_measures import damage
from benchmarks.chaos_measures.fuzz_targets import Targets
from benchmarks.hostile.reports import agent_message, metrics_body
from benchmarks.hostile.routes import SPARED, Drawn, Routes, drawn_page
from benchmarks.hostile.values import anything
from benchmarks.telemetry_measures.fleet.report_bodies import Report, Template, node_name, pool_name, templates
from controlplane.contract.knobs import KNOBS, EngineConfig
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.reports import packed_report

SOCKETS = 4
POLLING, PLAIN, REAL = SOCKETS, 2 * SOCKETS, 3 * SOCKETS
"""The first node that polls, that sends made-up reports, that sends real ones; before them those of WebSockets."""
NODES = {node_name(number): pool_name(0) if number >= REAL else "chat" for number in range(4 * SOCKETS)}
"""Their pools: a report counts in the pool that its node was enrolled for."""
_ENDLESS = ("/api/v1/stream",)
_ENGINE_WORDS: Mapping[str, Sequence[Any]] = {
    "model": ("tailwright-py-5m", None),
    "prompt": ("def f(x):", "", [1, 2, 3], ["a", "b"], "x = " * 20),
    "messages": ([{"role": "user", "content": "Write a loop."}], []),
    "max_tokens": (1, 2, 4, 4),
    "max_completion_tokens": (1, 2, 4, 4),
    "n": (1, 1, 2),
    "stream": (True, False),
    "temperature": (0, 0.7, 1.0, None),
    "tokens": ([1, 2, 3], [2**31], []),
}
_ENGINE_PATHS = ["/v1/completions", "/v1/chat/completions", "/v1/models", "/tokenize", "/health", "/metrics", "/config"]
_SERVICE_PATHS = ["/api/v1/nodes", "/v1/metrics", "/v1/traces", "/v1/opamp", "/healthz", "/metrics", "/", "/login"]
_SERVICE_PATHS += ["/api/v1/quantiles?metric=ttft&q=0.5&window=5m", "/api/v1/silences", "/openapi.json", "/assets/x"]
_HANDSHAKE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@dataclass(frozen=True)
class Shot:
    """data: what is written. loose: it need not be a request: no answer is asked for, only an end of its own."""

    data: bytes
    told: str
    loose: bool = False
    bodiless: bool = False


@dataclass(frozen=True)
class Surface:
    """`share`: of all shots. target: whose process; address: where it is reached; socket: shots are frames."""

    name: str
    share: float
    target: str
    address: str
    draw: Callable[[random.Random, int], Shot]
    workers: int = 2
    handshake: Callable[[int], bytes] | None = None

    def shot(self, seed: int, number: int) -> Shot:
        return self.draw(random.Random(f"{seed} {self.name} {number}"), number)


def surfaces(targets: Targets, seed: int) -> list[Surface]:
    """All of them; the shares add up to 1."""
    service, engine = Routes(targets.service_document, spared=SPARED, endless=_ENDLESS), targets.engine_document
    asked = Routes(engine, named=_ENGINE_WORDS)
    admin = f"Authorization: Bearer {targets.admin_token}\r\n"
    agents = _Agents(targets, seed)
    control = Routes(_control_document(), named={name: _knob_values(name) for name in KNOBS})

    def routed(routes: Routes, headers: str) -> Callable[[random.Random, int], Shot]:
        return lambda rng, _number: _request(routes.draw(rng), headers)

    def pages(rng: random.Random, _number: int) -> Shot:
        return _request(Drawn("GET", drawn_page(rng), b"", ""), f"Cookie: {targets.cookie}\r\n")

    def raw(paths: list[str]) -> Callable[[random.Random, int], Shot]:
        def draw(rng: random.Random, _number: int) -> Shot:
            data = damage.nearly_http(rng, paths)
            return Shot(data, repr(data[:150]), loose=True)

        return draw

    return [
        Surface("API", 0.12, "service", "service", routed(service, admin), 4),
        Surface("pages", 0.03, "service", "service", pages),
        Surface("service, raw bytes", 0.08, "service", "service", raw(_SERVICE_PATHS), 8),
        Surface("OTLP", 0.13, "service", "service", agents.otlp, 3),
        Surface("packed reports", 0.14, "service", "service", agents.packed, 3),
        Surface("OpAMP, HTTP", 0.05, "service", "service", agents.opamp_http),
        Surface("OpAMP, WebSocket", 0.08, "service", "service", agents.opamp_socket, SOCKETS, agents.handshake),
        Surface("engine", 0.09, "engine", "engine", routed(asked, ""), 4),
        Surface("engine, raw bytes", 0.08, "engine", "engine", raw(_ENGINE_PATHS), 8),
        Surface("engine control", 0.05, "engine", "engine control", routed(control, "")),
        Surface("proxy", 0.08, "proxy", "proxy", routed(asked, ""), 3),
        Surface("proxy, raw bytes", 0.07, "proxy", "proxy", raw(_ENGINE_PATHS), 8),
    ]


class _Agents:
    """What agents send."""

    def __init__(self, targets: Targets, seed: int) -> None:
        self._tokens = targets.nodes
        self._real: list[tuple[Template, str]] = [
            *((made, packed_report.MEDIA_TYPE) for made in templates(seed, 8, packed=True)),
            *((made, "application/x-protobuf") for made in templates(seed, 4, packed=False)),
        ]

    def _node(self, number: int, first: int) -> tuple[str, str]:
        name = node_name(first + number % SOCKETS)
        return name, f"Authorization: Bearer {self._tokens[name]}\r\n"

    def otlp(self, rng: random.Random, number: int) -> Shot:
        """/v1/metrics and /v1/traces: of any fields, of hostile values, real ones damaged; in any content coding."""
        kind = rng.randrange(4)
        node, token = self._node(number, REAL if kind == 1 else PLAIN)
        media = "application/x-protobuf"
        if kind == 0:
            body = damage.protobuf(rng)
        elif kind == 1:
            body = damage.damaged(rng, self._report(rng, number, packed=False))
        else:
            body, media = metrics_body(rng, node)
        path = "/v1/traces" if rng.random() < 0.2 else "/v1/metrics"
        return self._post(rng, path, body, media, token)

    def packed(self, rng: random.Random, number: int) -> Shot:
        """Real packed reports, whole (one in four) or damaged."""
        _, token = self._node(number, REAL)
        body = self._report(rng, number, packed=True)
        for _ in range(rng.randrange(4)):
            body = damage.damaged(rng, body)
        return self._post(rng, "/v1/metrics", body, packed_report.MEDIA_TYPE, token)

    def opamp_http(self, rng: random.Random, number: int) -> Shot:
        node, token = self._node(number, POLLING)
        return self._post(rng, "/v1/opamp", self._message(rng, number, node), "application/x-protobuf", token)

    def opamp_socket(self, rng: random.Random, number: int) -> Shot:
        payload = b"\x00" + self._message(rng, number, self._node(number, 0)[0])
        if rng.random() < 0.1:
            data = damage.nearly_frames(rng, payload)
            return Shot(data, repr(data[:150]), loose=True)
        return Shot(damage.frame(payload), repr(payload[:150]))

    def handshake(self, number: int) -> bytes:
        _, token = self._node(number, 0)
        return f"GET /v1/opamp HTTP/1.1\r\nHost: 127.0.0.1\r\n{token}{_HANDSHAKE}\r\n".encode()

    def _message(self, rng: random.Random, number: int, node: str) -> bytes:
        kind = rng.random()
        if kind < 0.25:
            return damage.protobuf(rng)
        real = agent_message(rng, node, uuid.uuid5(uuid.NAMESPACE_DNS, node).bytes, number + 1)
        return damage.damaged(rng, real) if kind < 0.6 else real

    def _report(self, rng: random.Random, number: int, *, packed: bool) -> bytes:
        template, _ = rng.choice(self._real[:8] if packed else self._real[8:])
        window = int(time.time() // WINDOW_S) - rng.choice((1, 1, 2, 3, 50))
        return template.body(Report(REAL + number % SOCKETS, 0, rng.randbytes(16), 1, window))

    def _post(self, rng: random.Random, path: str, body: bytes, media: str, token: str) -> Shot:
        body, coding = damage.encoded(rng, body)
        if coding:
            token += f"Content-Encoding: {coding}\r\n"
        if rng.random() < 0.05:
            media = rng.choice(("application/json", "text/plain", packed_report.MEDIA_TYPE, 'a/b; c="', ""))
        return _request(Drawn("POST", path, body, media), token)


def _request(drawn: Drawn, headers: str) -> Shot:
    if drawn.kind:
        headers += f"Content-Type: {drawn.kind}\r\n"
    if drawn.body or drawn.method in ("POST", "PUT", "PATCH"):
        headers += f"Content-Length: {len(drawn.body)}\r\n"
    head = f"{drawn.method} {drawn.address} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n"
    return Shot(head.encode() + drawn.body, drawn.told, bodiless=drawn.method == "HEAD")


def _knob_values(name: str) -> list[Any]:
    default = EngineConfig().knobs()[name]
    return [default, default, 1, 8, anything(random.Random(name))]


def _control_document() -> dict[str, Any]:
    """The control socket has no OpenAPI document of its bodies: this one says what it takes."""
    knobs = {"type": "object", "properties": {name: {} for name in KNOBS}}
    body = {"type": "object", "properties": {"knobs": knobs, "revision": {"type": "integer"}}, "required": ["knobs"]}
    put = {"requestBody": {"content": {"application/json": {"schema": body}}}}
    parameters = [{"name": "after", "in": "query"}]
    unknown = {"get": {"parameters": parameters}}
    return {"paths": {"/config": {"get": {}, "put": put}, "/cache/reset": {"post": {}}, "/nothing": unknown}}
