"""The issuer over HTTP: what it says of itself (OpenID Connect Discovery 1.0), its keys, and an ID token for a code.

Guarantee: each exchange is under one deadline and goes only where the address policy allows; what the issuer said is
kept for `KEPT_S`, and asked for again at once, once, where a token names a key that is not known. An issuer that does
not answer is not asked again within `QUIET_S`: who signs in meanwhile is told so.
"""

import base64
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote_plus, urlencode

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet

from controlplane.auth.oidc.id_token import Expected, UnknownKey, claims_of
from controlplane.auth.oidc.registration import Registration, is_safe
from controlplane.auth.oidc.sign_in_attempt import Attempt
from controlplane.contract.errors import BadSettings, SignInRefused, Unavailable
from controlplane.outgoing import AddressPolicy, exchange, new_client

logger = logging.getLogger(__name__)

DEADLINE_S = 10.0
MOST_BYTES = 1 << 20
KEPT_S = 3600.0
QUIET_S = 5.0
REFRESH_S = 600.0
"""How often the service's background work asks the issuer by itself, so that nobody who signs in has to wait for it."""
WELL_KNOWN = "/.well-known/openid-configuration"
S256 = "S256"


@dataclass(frozen=True)
class Metadata:
    """What is needed of the discovery document; `said_at_s` on the monotonic clock."""

    authorization_endpoint: str
    token_endpoint: str
    end_session_endpoint: str | None
    names_itself: bool
    """Its answers carry `iss` (RFC 9207)."""
    by_post: bool
    """It wants the client's secret in the body, not as basic authentication."""
    keys: tuple[Key, ...]
    said_at_s: float


class Issuer:
    """Thread-safe; its calls wait for the network."""

    def __init__(
        self,
        registration: Registration,
        policy: AddressPolicy,
        tls: ssl.SSLContext | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registration = registration
        self._http = new_client(DEADLINE_S, policy, tls=tls)
        self._monotonic = monotonic
        self._asking = threading.Lock()
        self._said: Metadata | None = None
        self._failed: tuple[float, str] | None = None

    @property
    def known(self) -> Metadata | None:
        """What it last said, however long ago; None before the first time."""
        return self._said

    def begin(self, now: datetime) -> tuple[str, Attempt]:
        """The page that a browser goes to, and the attempt that it keeps. Raises `Unavailable`."""
        attempt = Attempt.new(now)
        return self.registration.page_for(self.metadata().authorization_endpoint, attempt), attempt

    def claims(self, attempt: Attempt, code: str, iss: str | None, now: datetime) -> dict[str, Any]:
        """What the issuer says of who has come back with this code. Raises `SignInRefused`, `Unavailable`."""
        said = self.metadata()
        if iss is not None and iss != self.registration.issuer:
            raise SignInRefused("iss: the answer comes from another issuer", field="iss")
        if iss is None and said.names_itself:
            raise SignInRefused("iss: the issuer names itself in its answers, this one names nobody", field="iss")
        token = self._redeemed(said, code, attempt)
        expected = Expected(self.registration.issuer, self.registration.client_id, attempt.nonce)
        try:
            return claims_of(token, said.keys, expected, now)
        except UnknownKey:
            logger.info("an ID token names a key that is not known; the issuer's keys are asked for again")
            return claims_of(token, self.metadata(newer_than=said).keys, expected, now)

    def metadata(self, newer_than: Metadata | None = None) -> Metadata:
        """What the issuer says of itself; asked for anew when it is old or no newer than this. Raises `Unavailable`."""
        if (said := self._fresh(newer_than)) is not None:
            return said
        with self._asking:
            now_s = self._monotonic()
            if (said := self._fresh(newer_than)) is not None:  # Another has asked while this one waited.
                return said
            if self._failed is not None and now_s - self._failed[0] < QUIET_S:
                raise Unavailable(self._failed[1], field="oidc_issuer")
            try:
                self._said = self._asked()
            except Unavailable as error:
                self._failed = self._monotonic(), error.message
                raise
            self._failed = None
            return self._said

    def _fresh(self, newer_than: Metadata | None) -> Metadata | None:
        said = self._said
        is_new = said is not None and said is not newer_than and self._monotonic() - said.said_at_s < KEPT_S
        return said if is_new else None

    def refresh(self) -> None:
        """Ask again whatever is known. Raises `Unavailable`."""
        self.metadata(newer_than=self._said)

    def _asked(self) -> Metadata:
        issuer = self.registration.issuer
        document = self._json(issuer.rstrip("/") + WELL_KNOWN)
        if document.get("issuer") != issuer:
            raise Unavailable(f"the issuer calls itself {document.get('issuer')!r}, oidc_issuer says {issuer!r}")
        methods = document.get("code_challenge_methods_supported")
        if isinstance(methods, list) and S256 not in methods:
            raise Unavailable("the issuer does not take PKCE by S256")
        keys = self._json(_endpoint(document, "jwks_uri"))
        try:
            known = tuple(KeySet.import_key_set(keys).keys)  # type: ignore[arg-type]
        except (JoseError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise Unavailable(f"the issuer's keys cannot be read: {error}") from error
        ways = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        end_session = document.get("end_session_endpoint")
        return Metadata(
            authorization_endpoint=_endpoint(document, "authorization_endpoint"),
            token_endpoint=_endpoint(document, "token_endpoint"),
            end_session_endpoint=end_session if isinstance(end_session, str) and is_safe(end_session) else None,
            names_itself=document.get("authorization_response_iss_parameter_supported") is True,
            by_post="client_secret_basic" not in ways and "client_secret_post" in ways,
            keys=known,
            said_at_s=self._monotonic(),
        )

    def _redeemed(self, said: Metadata, code: str, attempt: Attempt) -> str:
        """The ID token for a code (RFC 6749, section 4.1.3; RFC 7636, section 4.5)."""
        client = self.registration
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": client.redirect_uri,
            "code_verifier": attempt.verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        try:
            secret = client.client_secret()
        except BadSettings as error:
            raise Unavailable(error.message, field="oidc_client_secret_file") from error
        if secret is None or said.by_post:
            form["client_id"] = client.client_id
        if secret is not None and said.by_post:
            form["client_secret"] = secret
        elif secret is not None:
            pair = f"{quote_plus(client.client_id)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        status, answer = self._exchanged(said.token_endpoint, urlencode(form).encode(), headers)
        if status in (400, 401):
            raise SignInRefused(f"the issuer did not take the code: {_error_of(answer)}", field="code")
        if status != 200:
            raise Unavailable(f"the issuer's token endpoint answered {status}")
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise SignInRefused("the issuer answered without an id_token; the scope openid asks for it", field="code")
        return token

    def _json(self, url: str) -> dict[str, Any]:
        status, found = self._exchanged(url, None, {"Accept": "application/json"})
        if status != 200:
            raise Unavailable(f"the issuer answered {status} at {url}")
        return found

    def _exchanged(self, url: str, form: bytes | None, headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        try:
            answer = exchange(
                self._http,
                url,
                form or b"",
                headers,
                deadline_s=DEADLINE_S,
                most_bytes=MOST_BYTES,
                method="GET" if form is None else "POST",
            )
            found = json.loads(answer.body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"the issuer does not answer at {url}: {error}") from error
        except ValueError as error:
            raise Unavailable(f"the issuer's answer at {url} is no JSON of at most {MOST_BYTES} bytes") from error
        if not isinstance(found, dict):
            raise Unavailable(f"the issuer's answer at {url} is no JSON object")
        return answer.status, found


def _endpoint(document: Mapping[str, Any], name: str) -> str:
    found = document.get(name)
    if not isinstance(found, str) or not is_safe(found):
        raise Unavailable(f"the issuer's {name} is no https address: {str(found)[:200]!r}")
    return found


def _error_of(answer: Mapping[str, Any]) -> str:
    return " ".join(str(answer[name])[:200] for name in ("error", "error_description") if name in answer) or "no reason"
