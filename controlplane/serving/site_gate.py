"""ASGI middleware: what a page of another site sends is answered 403 unread (Fetch Metadata, RFC 6454).

Guarantee: a browser's request that changes something passes only from a page of this very origin: another port, scheme
or sub-domain is another site. What is no browser says neither and passes; a page says both or one.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.contract.errors import Forbidden, TailwrightError
from controlplane.serving.limits import Doorkeeper, Refused, address_in

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
OURS = frozenset({"same-origin", "none"})
"""Of Sec-Fetch-Site: a page of this origin, or the reader himself."""
_TOLD = frozenset({b"origin", b"sec-fetch-site", b"host"})
UNTOLD = "null"
"""Of Origin: a browser that was told to name no referrer. The form's token decides then."""


class SiteGate:
    """`refuse` makes the answer that says an error."""

    def __init__(self, app: ASGIApp, door: Doorkeeper, refuse: Callable[[TailwrightError], ASGIApp]) -> None:
        self._app = app
        self._door = door
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in SAFE:
            told = {name: value.decode("latin-1") for name, value in scope["headers"] if name in _TOLD}
            origin, site, host = told.get(b"origin"), told.get(b"sec-fetch-site"), told.get(b"host", "")
            if not is_ours(origin, site, scope["scheme"], host):
                self._door.refuse_access(Refused.CROSS_SITE, address_in(scope))
                error = Forbidden("a page of another site may not send this", field="Origin")
                await self._refuse(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def is_ours(origin: str | None, site: str | None, scheme: str, host: str) -> bool:
    """Whether a request that changes something comes from a page of `scheme://host`, or from no page at all.

    Where this server is asked by http, a proxy may have been asked by https.
    """
    if site is not None and site not in OURS:
        return False
    if origin is None or origin == UNTOLD:
        return True
    try:
        named = urlsplit(origin)
    except ValueError:
        return False
    return named.netloc.lower() == host.lower() and named.scheme in {scheme, "https"}
