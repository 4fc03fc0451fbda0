"""ASGI middleware: what a browser may do with each answer (Content-Security-Policy level 3, Fetch, Referrer Policy,
HTTP Strict Transport Security of RFC 6797).

Guarantee: no answer runs a script that is not a file of this server, none is shown in another's frame, read as another
type, or kept; none tells another site its address. What has a validator (a file) may be kept. An answer of the API
is a file to save, never a page. Whoever came by TLS comes by TLS for a year, unless to a loopback name, where a browser
would take every other server of the machine for one with TLS too.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.contract.host_names import LOOPBACK_NAMES, answers_to
from controlplane.serving.browser_policy import HEADERS

# As ASGI sends them: a report's answer goes through here, too.
_ADDED = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_KEPT = frozenset({b"cache-control", b"etag"})
_NOT_KEPT = (b"cache-control", b"no-store")
_TLS_FROM_NOW_ON = (b"strict-transport-security", b"max-age=31536000; includeSubDomains")
_API = "/api/"
_FILE = (b"content-disposition", b'attachment; filename="api.json"')


class AnswerHeaders:
    """Adds `HEADERS` to every answer that does not say otherwise, `Cache-Control: no-store` where nothing says how it
    may be kept, `Content-Disposition` to JSON of the API, and `Strict-Transport-Security` under https, by this server's
    TLS or an allowed proxy's word."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        first = [*_ADDED, _TLS_FROM_NOW_ON] if scope["scheme"] == "https" and not _is_loopback(scope) else _ADDED
        is_api = scope["path"].startswith(_API)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name.lower(): value for name, value in message.get("headers", ())}
                more = [header for header in first if header[0] not in said]
                if _KEPT.isdisjoint(said):
                    more.append(_NOT_KEPT)
                if is_api and said.get(b"content-type") == b"application/json" and _FILE[0] not in said:
                    more.append(_FILE)
                message["headers"] = [*message.get("headers", ()), *more]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _is_loopback(scope: Scope) -> bool:
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    return answers_to(host, LOOPBACK_NAMES)
