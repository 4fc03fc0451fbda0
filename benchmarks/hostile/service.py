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
from benchmarks.hostile.routes import NODE, PAGES, PARTS, PLAIN, SPARED, Routes, drawn_page

STREAMS = ("/api/v1/stream",)


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
        self._routes = Routes(self.document, spared=SPARED, endless=STREAMS)
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
        for _ in range(count):
            if rng.random() < 0.2:
                address = drawn_page(rng)
                answer = self.browser.get(address)
                tally.note(f"GET {address}", answer.status_code, answer.text)
                continue
            drawn = self._routes.draw(rng)
            headers = {"Content-Type": drawn.kind} if drawn.kind else {}
            answer = self.http.request(drawn.method, drawn.address, content=drawn.body or None, headers=headers)
            tally.note(drawn.told, answer.status_code, answer.text)

    # -- afterwards ----------------------------------------------------------------------------------------------

    def sweep(self, tally: Tally, rng: random.Random | None = None) -> None:
        """Every GET route of the document, plainly asked, and every page of the dashboard, with all of its parts. With
        rng, with a quarter of all parts."""
        for address in self._addresses():
            with self.http.stream("GET", address) as answer:
                shown = (
                    ""
                    if address.startswith(STREAMS) and answer.is_success
                    else answer.read().decode("utf-8", "replace")
                )
                tally.note(f"GET {address}", answer.status_code, shown)
        parts = PARTS if rng is None else rng.sample(PARTS, len(PARTS) // 4)
        for address in (*PAGES, *parts):
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
