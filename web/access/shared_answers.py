"""Answers of the API that several viewers ask for at once, asked for once (request coalescing).

Guarantee: only GETs of `SHARED` are shared, only among browsers whose sessions have the same scope, and none is older
than `KEPT_S`. What depends on who asks is asked by each. Once a browser here has changed something, nothing that was
asked before is answered: whoever acts sees what came of it.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx
from cachetools import TTLCache

from controlplane.contract.bodies.access import Scope

KEPT_S = 1.5
MOST_KEPT = 512
SHARED = (
    *("/api/v1/fleet", "/api/v1/node-figures", "/api/v1/nodes", "/api/v1/configs"),
    *("/api/v1/alerts", "/api/v1/alert-rules", "/api/v1/symptoms", "/api/v1/silences", "/api/v1/inhibit-rules"),
    *("/api/v1/incidents", "/api/v1/routes", "/api/v1/events", "/api/v1/inbound/alerts"),
    *("/api/v1/destinations", "/api/v1/deliveries", "/api/v1/studies", "/api/v1/rollouts", "/api/v1/ledger"),
    *("/api/v1/freezes", "/api/v1/pins", "/api/v1/rollout-policies", "/api/v1/rollout-hooks", "/api/v1/verdicts"),
    *("/api/v1/quantiles", "/api/v1/scalars", "/api/v1/rates", "/api/v1/shares", "/api/v1/heatmap", "/api/v1/compare"),
    *("/api/v1/exemplars", "/api/v1/requests", "/api/v1/request-facets", "/api/v1/explain", "/api/v1/workload"),
    *("/api/v1/advice", "/api/v1/workloads", "/api/v1/prompt-sets"),
    *("/api/v1/onboarding", "/api/v1/service"),
)
"""What every session of a scope is answered alike, with all that stands below it."""


def is_shared(path: str) -> bool:
    """Whether the path is of `SHARED`, or below one of them."""
    return any(path == one or path.startswith(f"{one}/") for one in SHARED)


@dataclass(frozen=True)
class Kept:
    """One answer, read whole."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def response(self) -> httpx.Response:
        return httpx.Response(self.status, headers=self.headers, content=self.body)


class SharedAnswers:
    """The answers kept, by scope and address. Those who ask meanwhile wait for the first one's."""

    def __init__(self, timer: Callable[[], float] = time.monotonic) -> None:
        self._kept: TTLCache[tuple[str, str], Kept] = TTLCache(MOST_KEPT, KEPT_S, timer)
        self._locks: TTLCache[tuple[str, str], threading.Lock] = TTLCache(MOST_KEPT, 60.0, timer)
        self._lock = threading.Lock()
        self._changes = 0

    def answer(self, key: tuple[str, str], ask: Callable[[], Kept]) -> Kept:
        with self._lock:
            turn = self._locks.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                kept, changes = self._kept.get(key), self._changes
            if kept is None:
                kept = ask()
                with self._lock:
                    if kept.status == httpx.codes.OK and changes == self._changes:
                        self._kept[key] = kept
            return kept

    def forget(self) -> None:
        """Something was changed: what is kept, or being asked for now, may be of before."""
        with self._lock:
            self._changes += 1
            self._kept.clear()

    @property
    def changes(self) -> int:
        """How often something was changed."""
        return self._changes


class ChangingTransport(httpx.BaseTransport):
    """Hands on to `inner`; after what is no GET, the answers are forgotten."""

    def __init__(self, inner: httpx.BaseTransport, answers: SharedAnswers) -> None:
        self._inner, self._answers = inner, answers

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._inner.handle_request(request)
        finally:
            if request.method != "GET":
                self._answers.forget()


class SharingTransport(httpx.BaseTransport):
    """Hands on to `inner` what is not shared, or has not been answered a moment ago to a session of this scope."""

    def __init__(
        self,
        inner: httpx.BaseTransport,
        answers: SharedAnswers,
        scope: Scope,
        tell_read: Callable[[str], object] = lambda path: None,
    ) -> None:
        """`tell_read` hears of each path whose answer another session had asked for."""
        self._inner, self._answers, self.scope, self._tell_read = inner, answers, scope, tell_read
        self.own_answers = 0
        """How many were not shared."""

    @property
    def changes(self) -> int:
        return self._answers.changes

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method != "GET" or not is_shared(request.url.path):
            self.own_answers += 1
            return self._inner.handle_request(request)
        asked = False

        def ask() -> Kept:
            nonlocal asked
            asked = True
            return self._asked(request)

        kept = self._answers.answer((self.scope, str(request.url)), ask)
        if not asked:
            self._tell_read(request.url.path)
        return kept.response()

    def _asked(self, request: httpx.Request) -> Kept:
        response = self._inner.handle_request(request)
        try:
            body = response.read()
        finally:
            response.close()
        hidden = {b"content-encoding", b"transfer-encoding", b"content-length"}
        headers = [(name, value) for name, value in response.headers.raw if name.lower() not in hidden]
        return Kept(response.status_code, headers, body)
