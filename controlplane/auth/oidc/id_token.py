"""ID tokens checked (OpenID Connect Core 1.0, section 3.1.3.7; RFC 8725). Pure: keys and time are given.

Guarantee: claims are returned only of a token that a key of the issuer's has signed by one of `ALGORITHMS`, an
asymmetric one that fits the key's kind (never `none`, never a MAC keyed with a public key), issued by this issuer for
this client in answer to this attempt, and now.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import jws, jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from controlplane.contract.errors import SignInRefused

ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
LEEWAY_S = 30
"""How far the issuer's clock and ours may be apart."""
LEAST_RSA_BITS = 2048
LONGEST = 65_536

# RFC 9864 renames EdDSA; issuers go on saying so.
warnings.filterwarnings("ignore", message="EdDSA is deprecated", category=SecurityWarning)


@dataclass(frozen=True)
class Expected:
    """What a token must say."""

    issuer: str
    client_id: str
    nonce: str


class UnknownKey(SignInRefused):
    """No key that is known fits: the issuer may have others by now."""

    code = "unknown_key"


def claims_of(token: str, keys: Sequence[Key], expected: Expected, now: datetime) -> dict[str, Any]:
    """The claims of a token that is what it must be. Raises `UnknownKey`, `SignInRefused`."""
    if len(token) > LONGEST:
        raise SignInRefused(f"id_token: longer than {LONGEST} characters", field="id_token")
    try:
        header = jws.extract_compact(token.encode()).headers()
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise SignInRefused(
                f"id_token: signed by {algorithm!r}; taken are {', '.join(ALGORITHMS)}", field="id_token"
            )
        signed = _verified(token, [key for key in keys if _fits(key, algorithm, header.get("kid"))], algorithm)
        claims = CodeIDToken(
            signed.claims,
            signed.header,
            {
                "iss": {"essential": True, "value": expected.issuer},
                "aud": {"essential": True, "value": expected.client_id},
            },
            {"nonce": expected.nonce, "client_id": expected.client_id},
        )
        claims.validate(int(now.timestamp()), LEEWAY_S)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise SignInRefused(f"id_token: {error}", field="id_token") from error
    if not claims["sub"] or len(claims["sub"]) > 255:
        raise SignInRefused("id_token: sub is empty or too long", field="id_token")
    return dict(claims)


def _verified(token: str, keys: Sequence[Key], algorithm: str) -> jwt.Token:
    """By the key it names, or where it names none by any. Raises `UnknownKey`, `JoseError`."""
    if not keys:
        raise UnknownKey("id_token: signed with a key that the issuer does not publish", field="id_token")
    failed: JoseError | None = None
    for key in keys:
        try:
            return jwt.decode(token, key, algorithms=[algorithm])
        except JoseError as error:
            failed = error
    assert failed is not None
    raise failed


def _fits(key: Key, algorithm: str, key_id: str | None) -> bool:
    """Whether a token of this algorithm and key id may be signed with this key."""
    said = key.as_dict(private=False)
    if (key_id is not None and said.get("kid") != key_id) or said.get("use", "sig") != "sig":
        return False
    if said.get("alg", algorithm) != algorithm:
        return False
    if isinstance(key, RSAKey):
        return algorithm in {"RS256", "PS256"} and key.public_key.key_size >= LEAST_RSA_BITS
    if isinstance(key, ECKey):
        return algorithm == "ES256" and key.curve_name == "P-256"
    return isinstance(key, OKPKey) and algorithm == "EdDSA" and key.curve_name == "Ed25519"
