"""The control socket: HTTP/1.1 over a Unix socket that only its owner can open (mode 600).

    PUT  /target {"url"}   new and waiting requests go there; a hold is over
    PUT  /hold             new requests wait, until a target is put
    GET  /state            see `ProxyState`
    GET  /metrics          the same for Prometheus
    POST /stop             end gracefully: no new connections, running requests are waited for

Errors have the contract's form; nothing changes with them.
"""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from agents.backends.vllm.proxy.forwarding import Forwarder
from agents.backends.vllm.proxy.proxy_metrics import CONTENT_TYPE, exposition
from agents.backends.vllm.proxy.state import ProxyState
from agents.backends.vllm.proxy.switchboard import Switchboard
from agents.backends.vllm.proxy.target import target_url
from agents.host.error_answers import errors_answered
from controlplane.contract.errors import BadRequest, nearest
from controlplane.serving.limits import Doorkeeper

BODY_LIMIT_BYTES: Final = 64 * 1024
_ERRORS: Final = errors_answered(
    largest_bytes=BODY_LIMIT_BYTES, not_found="no such path; there are /target, /hold, /state, /metrics, /stop"
)

log = logging.getLogger("tailwright.vllm_proxy")


class Control:
    """The handlers. `stop` asks the process to end."""

    def __init__(
        self,
        board: Switchboard,
        forwarder: Forwarder,
        door: Doorkeeper,
        address: tuple[str, int],
        stop: Callable[[], None],
        *,
        by_tls: bool = False,
        target_ca_file: Path | None = None,
    ) -> None:
        self._board = board
        self._door = door
        self._forwarder = forwarder
        self._host, self._port = address
        self._by_tls = by_tls
        self._target_ca_file = target_ca_file
        self._stop = stop
        self._now = asyncio.get_running_loop().time
        self._version = _version()

    def app(self) -> web.Application:
        app = web.Application(middlewares=[_ERRORS], client_max_size=BODY_LIMIT_BYTES)
        app.router.add_put("/target", self._put_target)
        app.router.add_put("/hold", self._put_hold)
        app.router.add_get("/state", self._get_state)
        app.router.add_get("/metrics", self._get_metrics)
        app.router.add_post("/stop", self._post_stop)
        return app

    def state(self) -> ProxyState:
        board, now = self._board, self._now()
        since = board.held_since()
        return ProxyState(
            target=board.target,
            held=board.held,
            waiting=board.waiting,
            waiting_bytes=board.waiting_bytes,
            in_flight=board.in_flight(),
            requests=board.requests,
            resent=board.resent,
            failed={failure.value: count for failure, count in board.failed.items()},
            left=board.left,
            refused=dict(self._door.refused),
            held_since=None if since is None else time.time() - (now - since),
            held_seconds_total=board.held_s(now),
            hold_s=board.limits.hold_s,
            stopping=board.stopping,
            host=self._host,
            port=self._port,
            pid=os.getpid(),
            version=self._version,
            tls=self._by_tls,
            target_ca_file=str(self._target_ca_file or ""),
        )

    async def _put_target(self, request: web.Request) -> web.Response:
        url = target_url((await _fields(request, "url")).get("url"))
        before = self._board.target
        log.info("new requests go to %s (before: %s), %d waiting ones too", url, before, self._board.waiting)
        self._board.switch(url, self._now())
        self._forwarder.changed()
        return self._state_answer()

    async def _put_hold(self, request: web.Request) -> web.Response:
        await _fields(request)
        log.info("new requests wait, at most %g s each", self._board.limits.hold_s)
        self._board.hold(self._now())
        return self._state_answer()

    async def _get_state(self, _: web.Request) -> web.Response:
        return self._state_answer()

    async def _get_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=exposition(self.state()).encode(), headers={"Content-Type": CONTENT_TYPE})

    async def _post_stop(self, request: web.Request) -> web.Response:
        await _fields(request)
        self._stop()
        return self._state_answer(status=202)

    def _state_answer(self, status: int = 200) -> web.Response:
        return web.json_response(vars(self.state()), status=status)


async def _fields(request: web.Request, *known: str) -> dict[str, Any]:
    """The JSON object of a request's body; an empty body is an empty object."""
    raw = await request.read()
    try:
        told = json.loads(raw) if raw else {}
    except ValueError as error:
        raise BadRequest(f"body: not JSON ({error})", field="body") from None
    if not isinstance(told, dict):
        raise BadRequest(f"body: a JSON object is wanted, got {told!r}", field="body")
    for name in told:
        if name not in known:
            hint = nearest(name, list(known)) if known else "this call takes no fields"
            raise BadRequest(f"{name}: no such field; {hint}", field=name)
    return told


def _version() -> str:
    try:
        return version("tailwright")
    except PackageNotFoundError:
        return "unknown"
