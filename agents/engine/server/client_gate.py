"""What a client must bring: the server's own name in `Host`, and on /v1 an API key where the server has keys.

Guarantee: a request that brings less is answered before its body is read, counted by reason, and reaches no route.
"""

import hmac
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from agents.engine.server.request_edge import answer_error
from controlplane.contract.bearer import bearer_of
from controlplane.contract.errors import BadSettings, TailwrightError, Unauthenticated, UnknownHost
from controlplane.contract.host_names import answers_to

_GUARDED = "/v1/"


class ApiKeys:
    """The keys in a file, one a line; a changed file counts from the next request on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed_ns = -1
        self._keys: list[bytes] = []
        try:
            self._read()
        except OSError as error:
            raise BadSettings(f"api_key_file: {path} cannot be read: {error}", field="api_key_file") from error
        if not self._keys:
            raise BadSettings(f"api_key_file: {path} holds no key; write one on each line", field="api_key_file")

    def __contains__(self, key: bytes) -> bool:
        """A file that cannot be read any more leaves no key valid."""
        try:
            self._read()
        except OSError:
            self._keys, self._changed_ns = [], -1
        matches = [hmac.compare_digest(key, known) for known in self._keys]
        return any(matches)

    def _read(self) -> None:
        changed_ns = self._path.stat().st_mtime_ns
        if changed_ns != self._changed_ns:
            self._keys = [line.strip() for line in self._path.read_bytes().splitlines() if line.strip()]
            self._changed_ns = changed_ns


class ClientGate:
    """ASGI middleware. `refused` counts by reason: host, api_key."""

    def __init__(self, app: ASGIApp, names: Collection[str], api_keys: ApiKeys | None, refused: Counter[str]) -> None:
        self._app = app
        self._names = names
        self._keys = api_keys
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        failure = self._failure(scope) if scope["type"] == "http" else None
        if failure is None:
            await self._app(scope, receive, send)
        else:
            await answer_error(failure, scope["path"])(scope, receive, send)

    def _failure(self, scope: Scope) -> TailwrightError | None:
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        if not answers_to(host, self._names):
            self._refused["host"] += 1
            return UnknownHost(host)
        if (
            self._keys is not None
            and scope["path"].startswith(_GUARDED)
            and bearer_of(scope["headers"]) not in self._keys
        ):
            self._refused["api_key"] += 1
            return Unauthenticated("send one of this engine's API keys as 'Authorization: Bearer KEY'")
        return None
