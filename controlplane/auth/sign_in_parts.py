"""What the routes of signing in are served with."""

import secrets
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends

from controlplane.auth.oidc.issuer import Issuer
from controlplane.auth.token_cache import AuthParts


@dataclass(frozen=True, kw_only=True)
class SignInParts(AuthParts):
    """`issuer`: where people sign in, if anywhere; `token_sign_in`: whether a token may begin a browser's session;
    `login_url`: the dashboard's sign-in page; `voucher`: what the dashboard of this process is known by."""

    issuer: Issuer | None = None
    token_sign_in: bool = True
    login_url: str = ""
    voucher: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


Sign = Annotated[SignInParts, Depends(SignInParts.given)]
