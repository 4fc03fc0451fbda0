"""A running service under fuzz: its OpenAPI document says what there is to ask, and every answer below 500 is right."""

import random
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from benchmarks.hostile.reports import agent_message, metrics_body
from benchmarks.hostile.values import anything, json_bytes, mutated, text

NODE = "hostile-1"
PLAIN = {
    "metric": "ttft",
    "q": "0.5,0.99",
    "window": "5m",
    "step": "5s",
    "pool": "chat",
    "query": "quantiles",
    "node": NODE,
    "format": "csv",
}
"""Parameters that mean something, by name; a sweep gives those that a route wants."""
PAGES = (
    *(
        "/",
        "/overview",
        "/fleet",
        "/latency",
        "/alerts",
        "/studies",
        "/rollouts",
        "/ledger",
        "/login",
        f"/nodes/{NODE}",
    ),
    *(
        f"/fragments/{name}"
        for name in ("headline", "open_alerts", "activity", "fleet", "recent", "exemplars", "slowest")
    ),
    *(
        f"/fragments/{name}"
        for name in ("alerts", "studies", "rollouts", "ledger", f"node?node={NODE}", "node", "alert?id=1")
    ),
    *(
        "/charts/latency?pool=chat&metric=ttft&span=15m",
        "/charts/marks?pool=chat",
        "/alerts/1",
        "/studies/1",
        "/rollouts/1",
    ),
)
STREAMS = ("/api/v1/stream",)
SPARED = {("delete", "/api/v1/tokens/{token_id}"), ("delete", "/api/v1/nodes/{node}")}
"""What would take the fuzzing's own tokens away."""
KINDS = (
    "application/json",
    "application/json",
    "application/json",
    "text/plain",
    "application/x-www-form-urlencoded",
    "",
)


@dataclass
class Tally:
    """Answers by status, and what was answered 500 or more."""

    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def note(self, what: str, status: int, answered: str = "") -> None:
        self.statuses[status] += 1
        if status >= 500:
            self.failures.append(f"{status} {what[:300]}: {answered[:200]}")


class Service:
    """One service at `url`. `close` it."""

    def __init__(self, url: str, admin_token: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {admin_token}"}, timeout=60.0)
        self.browser = httpx.Client(base_url=url, timeout=60.0)
        assert self.browser.post("/login", data={"token": admin_token}).status_code == 303
        self.document: dict[str, Any] = self.http.get("/openapi.json").json()
        wanted = {"node": NODE, "pool": "chat", "backend": "embedded"}
        enrolled = self.http.post("/api/v1/enrol", json=wanted)
        enrolled.raise_for_status()
        self.agent_token = enrolled.json()["token"]
        self.agent = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {self.agent_token}"}, timeout=60.0)
        self._uid, self._sequence = uuid.UUID(int=7).bytes, 0

    def close(self) -> None:
        for client in (self.http, self.browser, self.agent):
            client.close()

    # -- what agents send ----------------------------------------------------------------------------------------

    def messages(self, rng: random.Random, count: int, tally: Tally) -> None:
        """OpAMP messages, by HTTP and by WebSocket in turn."""
        while count > 0:
            by_http, by_socket = min(count, 20), max(0, min(count - 20, 20))
            for _ in range(by_http):
                headers = {"Content-Type": "application/x-protobuf"}
                answer = self.agent.post("/v1/opamp", content=self._message(rng), headers=headers)
                tally.note("POST /v1/opamp", answer.status_code, answer.text)
            self._by_socket([self._message(rng) for _ in range(by_socket)], tally)
            count -= by_http + by_socket

    def _message(self, rng: random.Random) -> bytes:
        self._sequence += rng.choice((1, 1, 1, 2))
        return agent_message(rng, NODE, self._uid, self._sequence)

    def _by_socket(self, messages: list[bytes], tally: Tally) -> None:
        waiting = list(messages)
        while waiting:
            headers = {"Authorization": f"Bearer {self.agent_token}"}
            with connect(self.url.replace("http", "ws") + "/v1/opamp", additional_headers=headers) as socket:
                try:
                    while waiting:
                        socket.send(b"\x00" + waiting.pop(0))
                        socket.recv(timeout=60)
                        tally.note("WebSocket /v1/opamp", 200)
                except ConnectionClosed as closed:
                    # 1007 and such: the message could not be read. 1011 is the protocol's 500.
                    code = closed.rcvd.code if closed.rcvd is not None else 1011
                    tally.note("WebSocket /v1/opamp", 500 if code in (1006, 1011) else 400, str(closed))

    def reports(self, rng: random.Random, count: int, tally: Tally) -> None:
        """Bodies of /v1/metrics."""
        for _ in range(count):
            body, media = metrics_body(rng, NODE)
            answer = self.agent.post("/v1/metrics", content=body, headers={"Content-Type": media})
            tally.note(f"POST /v1/metrics {media} {body[:80]!r}", answer.status_code, answer.text)

    # -- what clients send ---------------------------------------------------------------------------------------

    def requests(self, rng: random.Random, count: int, tally: Tally) -> None:
        """Any route of the document and any page, with any parameters and bodies."""
        routes = [
            (method, path, operation)
            for path, operations in self.document["paths"].items()
            for method, operation in operations.items()
            if (method, path) not in SPARED and path not in STREAMS
        ]
        for _ in range(count):
            if rng.random() < 0.2:
                self._page(rng, tally)
            else:
                self._request(rng, *rng.choice(routes), tally)

    def _request(self, rng: random.Random, method: str, path: str, operation: dict[str, Any], tally: Tally) -> None:
        address = path
        query = []
        for parameter in operation.get("parameters", ()):
            name = parameter["name"]
            value = PLAIN.get(name, "1") if rng.random() < 0.5 else text(rng)
            if parameter["in"] == "path":
                address = address.replace(f"{{{name}}}", quote(value[:2000], safe=""))
            elif rng.random() < 0.6:
                query.append(f"{quote(name)}={quote(value)}")
        if query:
            address += "?" + "&".join(query)
        body, kind = self._body(rng, operation)
        answer = self._send(self.http, method.upper(), address, body, kind)
        tally.note(f"{method.upper()} {address} {body[:120]!r}", answer.status_code, answer.text)

    def _body(self, rng: random.Random, operation: dict[str, Any]) -> tuple[bytes, str]:
        content = operation.get("requestBody", {}).get("content", {})
        if not content:
            return (rng.randbytes(20), "text/plain") if rng.random() < 0.1 else (b"", "")
        schema = content.get("application/json", {}).get("schema", {})
        body = json_bytes(self._of(rng, schema, 4))
        if rng.random() < 0.2:
            body = rng.choice((mutated(rng, body), b"[" * 100_000, b'{"a":' * 900 + b"1" + b"}" * 900, b"\xff", b""))
        return body, rng.choice(KINDS)

    def _of(self, rng: random.Random, schema: dict[str, Any], depth: int) -> Any:
        """A value of this schema, though any part may be anything."""
        if depth == 0 or rng.random() < 0.15:
            return anything(rng)
        if "$ref" in schema:
            named = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            return self._of(rng, named, depth)
        for choice in ("anyOf", "oneOf"):
            if choice in schema:
                return self._of(rng, rng.choice(schema[choice]), depth)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type")
        if kind == "object":
            wanted = schema.get("properties", {})
            required = schema.get("required", ())
            found = {
                name: self._of(rng, part, depth - 1)
                for name, part in wanted.items()
                if name in required or rng.random() < 0.4
            }
            return found or {"max_num_seqs": rng.choice((4, anything(rng)))}
        if kind == "array":
            return [self._of(rng, schema.get("items", {}), depth - 1) for _ in range(rng.randrange(3))]
        plain = {
            "integer": 1,
            "number": 0.5,
            "boolean": True,
            "null": None,
            "string": rng.choice(("chat", "ttft", "x")),
        }
        return plain.get(str(kind), anything(rng))

    def _page(self, rng: random.Random, tally: Tally) -> None:
        address = rng.choice(PAGES).partition("?")[0]
        if rng.random() < 0.3:
            address = rng.choice(("/nodes/", "/fragments/", "/charts/", "/alerts/", "/", "/studies/")) + quote(
                text(rng), safe=""
            )
        names = rng.sample(("pool", "span", "metric", "at", "above", "node", "id", "kind", "next", "token"), 3)
        address += "?" + "&".join(f"{name}={quote(text(rng))}" for name in names)
        answer = self.browser.get(address)
        tally.note(f"GET {address}", answer.status_code, answer.text)

    def _send(self, http: httpx.Client, method: str, address: str, body: bytes, kind: str) -> httpx.Response:
        headers = {"Content-Type": kind} if kind else {}
        return http.request(method, address, content=body or None, headers=headers)

    # -- afterwards ----------------------------------------------------------------------------------------------

    def sweep(self, tally: Tally) -> None:
        """Every GET route of the document, plainly asked, and every page of the dashboard."""
        for address in self._addresses():
            with self.http.stream("GET", address) as answer:
                shown = (
                    ""
                    if address.startswith(STREAMS) and answer.is_success
                    else answer.read().decode("utf-8", "replace")
                )
                tally.note(f"GET {address}", answer.status_code, shown)
        for address in PAGES:
            page = self.browser.get(address)
            tally.note(f"GET {address}", page.status_code, page.text)

    def _addresses(self) -> Iterator[str]:
        for path, operations in self.document["paths"].items():
            if "get" not in operations:
                continue
            address, query = path, []
            for parameter in operations["get"].get("parameters", ()):
                value = PLAIN.get(parameter["name"], "1")
                if parameter["in"] == "path":
                    address = address.replace(f"{{{parameter['name']}}}", value)
                elif parameter["in"] == "query" and parameter.get("required"):
                    query.append(f"{parameter['name']}={quote(value)}")
            yield address + ("?" + "&".join(query) if query else "")
