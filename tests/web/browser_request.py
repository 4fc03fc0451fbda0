"""A request as a signed-in browser sends it, for what is drawn without a service."""

import hashlib
from typing import Any

from fastapi import FastAPI, Request

from controlplane.contract.bodies.access import SESSION_PREFIX
from web.access.sessions import COOKIE
from web.frame import broken_parts


def secret_of(who: str) -> str:
    """A session's secret, another for each."""
    return SESSION_PREFIX + hashlib.sha256(who.encode()).hexdigest()[:43]


def request_of(who: str, broken: list[str] | None = None) -> Request:
    """Of the browser of `who`. `broken`: gets the names of parts that an error of our own kept from being drawn."""
    app = FastAPI()
    heard: list[str] = [] if broken is None else broken
    app.state.trace_url = None
    broken_parts.install(app, broken_parts.BrokenParts(heard.append))
    headers = [(b"cookie", f"{COOKIE}={secret_of(who)}".encode())]
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers}
    return Request(scope | {"scheme": "http", "app": app})
