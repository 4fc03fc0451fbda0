"""What the fleet's owner and the issuer have agreed: settings of signing in, checked (pure)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from controlplane.auth.oidc.group_roles import GroupRoles
from controlplane.auth.oidc.second_factor import SecondFactor
from controlplane.auth.oidc.sign_in_attempt import Attempt
from controlplane.contract.host_names import is_loopback

CALLBACK = "/login/callback"
"""Where the issuer sends a browser back to, below the service's own address."""


@dataclass(frozen=True)
class Registration:
    """`redirect_uri` is registered with the issuer; a client without a secret is a public one, PKCE alone proves it.
    `client_secret`: what it is now, as its file has it.
    `admins`: what an admin has to show beside a group; None: nothing."""

    issuer: str
    client_id: str
    redirect_uri: str
    roles: GroupRoles
    client_secret: Callable[[], str | None] = field(default=lambda: None, repr=False)
    groups_claim: str = "groups"
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    admins: SecondFactor | None = None

    def page_for(self, authorization_endpoint: str, attempt: Attempt) -> str:
        """The issuer's page that this attempt's browser goes to."""
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(self.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        if self.admins is not None and self.admins.classes:
            # As a wish: who will be what is known afterwards only, and a viewer may well have one factor.
            asked["acr_values"] = " ".join(self.admins.classes)
        return _with_query(authorization_endpoint, asked)

    def sign_out_page(self, end_session_endpoint: str, back_to: str) -> str:
        """Where a person signs out of the issuer (OpenID Connect RP-Initiated Logout 1.0)."""
        return _with_query(end_session_endpoint, {"client_id": self.client_id, "post_logout_redirect_uri": back_to})


def is_safe(url: str) -> bool:
    """Whether what goes there cannot be read on the way: https, or this machine itself."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def _with_query(url: str, asked: dict[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(asked)}"
