"""A real issuer on a free loopback port: discovery, keys, an authorization page that lets everybody in, codes for once.

It keeps to OpenID Connect Core 1.0 and RFC 7636 until a test has it say otherwise.
"""

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.processes import free_port

CLIENT_ID, CLIENT_SECRET = "tailwright", "s3cret &:/"
Signer = Callable[[dict[str, Any]], str]


def make_key(algorithm: str, kid: str) -> Key:
    parameters = {"kid": kid, "use": "sig"}
    if algorithm == "ES256":
        return ECKey.generate_key("P-256", parameters)
    if algorithm == "EdDSA":
        return OKPKey.generate_key("Ed25519", parameters)
    return RSAKey.generate_key(2048, parameters)


@cache
def first_key() -> Key:
    """Every issuer's own at first: an RSA key takes forty milliseconds to make, and each test has an issuer."""
    return make_key("RS256", "first")


def part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass
class Issuer:
    """`person`: claims of whoever signs in; `says`: what its ID tokens say in place of the truth (None: leave it out);
    `metadata`: the same of its discovery document; `sign`: how its ID tokens are signed; `can`: the classes (acr) that
    whoever signs in can prove: it takes the first of these that it is asked for."""

    url: str
    key: Key = field(default_factory=first_key)
    algorithm: str = "RS256"
    published: list[Key] = field(default_factory=list)
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "u1", "email": "ada@example.com", "groups": ["ops"]})
    says: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    sign: Signer | None = None
    can: tuple[str, ...] = ()
    secret: str = CLIENT_SECRET
    asks_first: bool = False
    asked: Counter[str] = field(default_factory=Counter)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.published = self.published or [self.key]

    def rotate(self, algorithm: str = "RS256", kid: str = "second") -> None:
        """From now on another key signs, and it alone is published."""
        self.key, self.algorithm = make_key(algorithm, kid), algorithm
        self.published = [self.key]

    def signed(self, claims: dict[str, Any]) -> str:
        header = {"alg": self.algorithm, "kid": self.key.kid}
        return jwt.encode(header, claims, self.key, algorithms=[self.algorithm])

    def unsigned(self, claims: dict[str, Any]) -> str:
        return f"{part({'alg': 'none', 'kid': self.key.kid})}.{part(claims)}."

    def keyed_with_public_key(self, claims: dict[str, Any]) -> str:
        """HS256, its secret the public key as everybody can fetch it."""
        head = f"{part({'alg': 'HS256', 'kid': self.key.kid})}.{part(claims)}"
        pem = self.key.as_pem(private=False)
        return f"{head}.{part(hmac.new(pem, head.encode(), hashlib.sha256).digest())}"

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discovery),
                Route("/keys", self._keys),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/bye", self._bye),
            ]
        )

    async def _discovery(self, _: Request) -> Response:
        self.asked["discovery"] += 1
        told = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "end_session_endpoint": f"{self.url}/bye",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        return JSONResponse({**told, **self.metadata})

    async def _keys(self, _: Request) -> Response:
        self.asked["keys"] += 1
        return JSONResponse({"keys": [key.as_dict(private=False) for key in self.published]})

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        if asked.get("code_challenge_method") != "S256" or not asked.get("code_challenge"):
            return JSONResponse({"error": "invalid_request", "error_description": "PKCE is required"}, 400)
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        back = f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], 'iss': self.url})}"
        if self.asks_first:
            return HTMLResponse(f'<h1>Issuer</h1><a id="yes" href="{back.replace("&", "&amp;")}">It is me</a>')
        return RedirectResponse(back, 303)

    async def _token(self, request: Request) -> Response:
        self.asked["token"] += 1
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        asked = self.codes.pop(form.get("code", ""), None)
        made = part(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        pair = base64.b64decode(request.headers.get("Authorization", "Basic ").partition(" ")[2]).decode()
        if pair != f"{CLIENT_ID}:{quote_plus(self.secret)}":
            return JSONResponse({"error": "invalid_client"}, 401)
        if asked is None or made != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant", "error_description": "no such code"}, 400)
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "exp": now + 300,
            "iat": now,
            "nonce": asked["nonce"],
        }
        asked_for = (name for name in asked.get("acr_values", "").split() if name in self.can)
        claims["acr"] = next(asked_for, None)
        claims = {name: value for name, value in {**claims, **self.person, **self.says}.items() if value is not None}
        token = (self.sign or self.signed)(claims)
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": token})

    async def _bye(self, request: Request) -> Response:
        return HTMLResponse(f"<h1>Gone</h1>{request.query_params.get('post_logout_redirect_uri', '')}")


@contextmanager
def issuing() -> Iterator[Issuer]:
    port = free_port()
    issuer = Issuer(f"http://127.0.0.1:{port}")
    server = uvicorn.Server(uvicorn.Config(issuer.app(), host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        yield issuer
    finally:
        server.should_exit = True
        thread.join(30)
