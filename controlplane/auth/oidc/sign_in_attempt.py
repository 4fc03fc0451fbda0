"""One attempt to sign in: what binds it to a browser is all made of one secret, which only that browser holds.

Guarantee: `state`, `nonce` and the PKCE verifier are HMACs of the whole secret, its time included: whoever changes any
of it has another attempt, which the issuer's answer does not fit. Nothing is stored for somebody who is not known yet.
"""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from authlib.oauth2.rfc7636 import create_s256_code_challenge

from controlplane.contract.bodies.people import ATTEMPT_PATTERN, ATTEMPT_PREFIX
from controlplane.contract.errors import SignInRefused

LASTS_S = 600
"""Time for a person to find the second factor."""

_FORM = re.compile(ATTEMPT_PATTERN)


@dataclass(frozen=True)
class Attempt:
    """`secret` is the browser's; the rest goes to the issuer."""

    secret: str

    @classmethod
    def new(cls, now: datetime) -> "Attempt":
        expires_at = int((now + timedelta(seconds=LASTS_S)).timestamp())
        return cls(f"{ATTEMPT_PREFIX}{expires_at:010d}_{secrets.token_urlsafe(32)}")

    @classmethod
    def brought(cls, secret: str, state: str, now: datetime) -> "Attempt":
        """The attempt that a browser comes back with. Raises `SignInRefused`."""
        if not _FORM.fullmatch(secret):
            raise SignInRefused("this browser has not begun to sign in here; begin again", field="secret")
        attempt = cls(secret)
        if not hmac.compare_digest(attempt.state.encode(), state.encode()):
            raise SignInRefused("state: this answer belongs to another attempt to sign in; begin again", field="state")
        if attempt.expires_at <= now:
            raise SignInRefused("signing in took too long; begin again", field="secret")
        return attempt

    @property
    def expires_at(self) -> datetime:
        return datetime.fromtimestamp(int(self.secret.removeprefix(ATTEMPT_PREFIX)[:10]), UTC)

    @property
    def state(self) -> str:
        return self._made("state")

    @property
    def nonce(self) -> str:
        return self._made("nonce")

    @property
    def verifier(self) -> str:
        """RFC 7636, section 4.1: 43 characters."""
        return self._made("verifier")

    @property
    def challenge(self) -> str:
        """The verifier's, by S256."""
        return str(create_s256_code_challenge(self.verifier))

    def _made(self, name: str) -> str:
        made = hmac.new(self.secret.encode(), name.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(made).rstrip(b"=").decode()
