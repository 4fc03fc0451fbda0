"""The browser's session: a bearer token in an HttpOnly cookie, and one API client for each token in use."""

import re
from collections import OrderedDict
from threading import Lock

from fastapi import Request, Response

from controlplane.client import Client
from controlplane.contract.bodies.access import TOKEN_PATTERN
from controlplane.contract.errors import Unauthenticated

COOKIE = "tailwright_token"
COOKIE_AGE_S = 12 * 3600

_TOKEN = re.compile(TOKEN_PATTERN)


class Clients:
    """At most `limit` open clients, the least recently used closed first: making one costs a TLS context."""

    def __init__(self, service_url: str, limit: int = 32) -> None:
        self._service_url = service_url
        self._limit = limit
        self._open: OrderedDict[str, Client] = OrderedDict()
        self._lock = Lock()

    def of(self, token: str) -> Client:
        """Raises `Unauthenticated` for what has not a token's form: no client is made for it, nothing is sent."""
        if not _TOKEN.fullmatch(token):
            raise Unauthenticated("unknown or revoked token: a token is tailwright_ and 43 characters")
        with self._lock:
            client = self._open.pop(token, None) or Client(self._service_url, token)
            self._open[token] = client
            if len(self._open) > self._limit:
                self._open.popitem(last=False)[1].close()
            return client

    def close(self) -> None:
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()


def clients_of(request: Request) -> Clients:
    clients: Clients = request.app.state.clients
    return clients


def client_of(request: Request) -> Client:
    """The API client of this browser. Raises `Unauthenticated` when it has no session."""
    token = request.cookies.get(COOKIE)
    if not token:
        raise Unauthenticated("sign in first")
    return clients_of(request).of(token)


def sign_in(response: Response, token: str, *, secure: bool) -> None:
    # Lax, not Strict: a link from an alert in a chat program has to open the dashboard signed in.
    response.set_cookie(COOKIE, token, max_age=COOKIE_AGE_S, httponly=True, samesite="lax", secure=secure, path="/")


def sign_out(response: Response) -> None:
    response.delete_cookie(COOKIE, path="/")
