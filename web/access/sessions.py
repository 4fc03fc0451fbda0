"""The browser's session: a random secret in an HttpOnly cookie, which the service ends; never the token itself.

Guarantee: for a cookie or a token of another form nothing is made and nobody is asked; a form counts only with the
token that was written into it for this very session (`form_token`).
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import httpx
from fastapi import FastAPI, Request, Response

from controlplane.client import Client
from controlplane.client.named_proxy import authorities
from controlplane.contract.bodies.access import SESSION_PATTERN, TOKEN_PATTERN, Scope, SessionStart
from controlplane.contract.bodies.people import ADDRESS_HEADER, VOUCHER_HEADER
from controlplane.contract.errors import Forbidden, TailwrightError, Unauthenticated
from web.access.shared_answers import ChangingTransport, SharedAnswers, SharingTransport
from web.access.viewer import Viewer

COOKIE, SECURE_COOKIE = "tailwright_session", "__Host-tailwright_session"
"""Under TLS the prefix keeps other hosts of the domain from setting it (RFC 6265bis, section 4.1.3.2)."""
UNIX = "unix:"
"""What an address begins with that is a Unix socket."""
COOKIE_AGE_S = 12 * 3600
FORM_FIELD = "form"
SIGN_IN_TIMEOUT_S = 40.0
"""The issuer is asked meanwhile, three times at most."""

ScopesOf = Callable[[Sequence[str]], Mapping[str, Scope | None]]
"""What sessions may do, by their secrets, all of which the answer has; None for one that has ended."""

TellRead = Callable[[str, str], object]
"""A session's secret, and the API's path that it was answered without asking."""
TellRefused = Callable[[Request, TailwrightError], object]

_TOKEN = re.compile(TOKEN_PATTERN)
_SESSION = re.compile(SESSION_PATTERN)


class Api:
    """The service's API for all browsers: one pool of connections and one TLS context.

    `count_forged` hears of each form that was refused, `tell_refused` of each answer of an error. `voucher`: what the
    API knows this dashboard by; it believes it where a browser is. `scopes_of`: looks up many sessions at once; else
    each is asked for. `tell_read` hears of what a session was shown without the API having been asked by it.
    """

    def __init__(
        self,
        service_url: str,
        count_forged: Callable[[], object],
        voucher: str = "",
        scopes_of: ScopesOf | None = None,
        tell_refused: TellRefused = lambda request, error: None,
        tell_read: TellRead = lambda secret, path: None,
    ) -> None:
        socket = service_url.removeprefix(UNIX) if service_url.startswith(UNIX) else None
        self._service_url = "http://localhost" if socket else service_url
        self._transport = httpx.HTTPTransport(uds=socket, verify=authorities(self._service_url))
        self.count_forged = count_forged
        self.tell_refused = tell_refused
        self._tell_read = tell_read
        self._voucher = voucher
        self._answers = SharedAnswers()
        self.scopes_of = scopes_of or self._scopes_asked_for

    def as_holder(self, secret: str | None) -> Client:
        """What a session or a token may ask. It shares the pool, so it is not closed."""
        return Client(self._service_url, secret, transport=ChangingTransport(self._transport, self._answers))

    def as_viewer(self, secret: str) -> Viewer:
        """As `as_holder`, to look with: what others of the same scope were answered a moment ago is not asked anew.

        Raises `Unauthenticated` for a session that is not open.
        """
        scope = self.scopes_of([secret])[secret]
        if scope is None:
            raise Unauthenticated("this session has ended; sign in again", field="Authorization")
        tell_read = partial(self._tell_read, secret)
        return Viewer(self._service_url, secret, SharingTransport(self._transport, self._answers, scope, tell_read))

    def _scopes_asked_for(self, secrets: Sequence[str]) -> dict[str, Scope | None]:
        """One after the other, of the API."""
        found: dict[str, Scope | None] = dict.fromkeys(secrets)
        for secret in secrets:
            with suppress(Unauthenticated):
                found[secret] = self.as_holder(secret).own_session().scope
        return found

    def of_token(self, token: str) -> Client:
        """What a token may ask. Raises `Unauthenticated` for what has not the form of one."""
        if not _TOKEN.fullmatch(token):
            raise Unauthenticated(
                "unknown or revoked token: a token is tailwright_ and 43 characters", field="Authorization"
            )
        return self.as_holder(token)

    def code_for(self, token: str) -> str:
        """A sign-in code of this token. Raises `Unauthenticated`, `Forbidden` for one that may not read."""
        return self.of_token(token).create_sign_in_code().code

    def of_browser(self, request: Request) -> Client:
        """What a browser that is not signed in may ask, from where it is."""
        address = request.client.host if request.client else ""
        told = {VOUCHER_HEADER: self._voucher, ADDRESS_HEADER: address} if self._voucher else {}
        return Client(self._service_url, transport=self._transport, headers=told, timeout_s=SIGN_IN_TIMEOUT_S)

    def start_session(self, request: Request, code: str) -> str:
        """The secret of a new session. Raises `Unauthenticated` for a code that is used or too old."""
        return self.of_browser(request).start_session(SessionStart(code=code)).secret


def install(dashboard: FastAPI, api: Api) -> None:
    dashboard.state.api = api


def api_of(request: Request) -> Api:
    api: Api = request.app.state.api
    return api


def client_of(request: Request) -> Client:
    """The API as this browser's session may use it. Raises `Unauthenticated` when it has none."""
    return api_of(request).as_holder(_secret_of(request))


def viewer_of(request: Request) -> Viewer:
    """As `client_of`, for what is only looked at. Raises `Unauthenticated` where no session is open."""
    return api_of(request).as_viewer(_secret_of(request))


def form_token(request: Request) -> str:
    """What this session's forms carry: made of its secret, which it does not tell. Nothing without a session."""
    try:
        return hmac.new(_secret_of(request).encode(), FORM_FIELD.encode(), hashlib.sha256).hexdigest()
    except Unauthenticated:
        return ""


def signed_client_of(request: Request, form: str) -> Client:
    """As `client_of`, for a form that was sent. Raises `Forbidden` for one that this session was not given."""
    client = client_of(request)
    if not hmac.compare_digest(form.encode(), form_token(request).encode()):
        api_of(request).count_forged()
        raise Forbidden("this form is not of your session: open its page again", field=FORM_FIELD)
    return client


def holder_of(request: Request, token: str) -> Client:
    """The API as this token may use it, which its holder has just shown. Raises `Unauthenticated` for what is none."""
    return api_of(request).of_token(token)


def sign_in(request: Request, response: Response, secret: str) -> None:
    # Lax, not Strict: a link from an alert in a chat program has to open the dashboard signed in.
    secure = is_secure(request)
    response.set_cookie(
        _cookie(secure), secret, max_age=COOKIE_AGE_S, httponly=True, samesite="lax", secure=secure, path="/"
    )


def sign_out(request: Request, response: Response) -> None:
    secure = is_secure(request)
    response.delete_cookie(_cookie(secure), path="/", secure=secure, httponly=True, samesite="lax")


def _secret_of(request: Request) -> str:
    secret = request.cookies.get(_cookie(is_secure(request)), "")
    if not _SESSION.fullmatch(secret):
        raise Unauthenticated("sign in first")
    return secret


def is_secure(request: Request) -> bool:
    return request.url.scheme == "https"


def _cookie(secure: bool) -> str:
    return SECURE_COOKIE if secure else COOKIE
