"""People who sign in at an issuer (OpenID Connect): their roles, their sessions, and the wire models of signing in."""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field

from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.ledger import LedgerEntry

ATTEMPT_PREFIX = "tailwright_attempt_"
ATTEMPT_PATTERN = ATTEMPT_PREFIX + "[0-9]{10}_[A-Za-z0-9_-]{43}"
"""The form of what binds an attempt to sign in to its browser."""

VOUCHER_HEADER, ADDRESS_HEADER = "Tailwright-Voucher", "Tailwright-Browser-Address"
"""How the dashboard tells the API of its own process which address a browser has."""


class Role(StrEnum):
    """What a person may do, by the groups that the issuer names."""

    VIEWER = "viewer"  # See everything.
    OPERATOR = "operator"  # And rules, studies, rollouts, silences.
    ADMIN = "admin"  # And all else.


SCOPE_OF: dict[Role, Scope] = {Role.VIEWER: Scope.READ, Role.OPERATOR: Scope.OPERATE, Role.ADMIN: Scope.ADMIN}
"""The scope that a person's session has."""


class SignInWays(BaseModel):
    """How a browser may be signed in."""

    token: bool = Field(description="true: with a token")
    issuer: str | None = Field(description="whose sign-in page people are sent to; null: there is none")
    end_session_url: str | None = Field(
        default=None,
        description="where a person signs out of the issuer, too; null: it has no such page, or is not known",
    )


class SignInBegun(BaseModel):
    """An attempt to sign in at the issuer."""

    url: str = Field(description="the issuer's page, where the browser goes next")
    secret: str = Field(description="what binds the attempt to this browser: to be kept there, and brought back")
    expires_at: datetime = Field(description="when it is too late to come back")


class SignInFinish(BaseModel):
    """What the issuer has sent a browser back with, and what was kept there meanwhile."""

    secret: str = Field(max_length=128, description="the attempt's secret")
    state: str = Field(max_length=512, description="`state` of the issuer's answer")
    code: str = Field(min_length=1, max_length=4096, description="`code` of the issuer's answer")
    iss: str | None = Field(default=None, max_length=2048, description="`iss` of the issuer's answer, where it has one")


class Person(BaseModel):
    """Somebody who has signed in at the issuer."""

    id: int = Field(description="the person's number, `person_id` in the ledger")
    name: str = Field(description="the verified email, or the name of the user")
    issuer: str = Field(description="who says so")
    subject: str = Field(description="what the issuer knows the person by; it never changes")
    role: Role = Field(description="as of the last sign-in")
    first_seen_at: datetime = Field(description="of the first sign-in")
    signed_in_at: datetime = Field(description="of the last sign-in")
    open_sessions: int = Field(description="how many sessions are open")


class PersonalData(BaseModel):
    """All that is kept of one person."""

    person: Person = Field(description="as of the last sign-in")
    sessions: list["SessionView"] = Field(description="those that are open")
    entries: list[LedgerEntry] = Field(description="of the ledger: what the person did and what was done to them")
    next: str | None = Field(default=None, description="where older entries go on; null: there are none")


class SessionView(BaseModel):
    """A browser's open session, without its secret."""

    id: int = Field(description="the session's number")
    name: str = Field(description="of the person or the token; the ledger's actor")
    person_id: int | None = Field(default=None, description="of a person's session; null of a token's")
    token_id: int | None = Field(default=None, description="of a token's session; null of a person's")
    scope: Scope = Field(description="what it may do now")
    address: str | None = Field(default=None, description="where the browser was when it began; null: not known")
    started_at: datetime = Field(description="when it began")
    used_at: datetime = Field(description="when it was last used, to within a minute")
    expires_at: datetime = Field(description="when it ends at the latest")
    own: bool = Field(description="whether it is the session that asks")

    @property
    def subject(self) -> str:
        """What the ledger calls whoever it is of."""
        return f"token/{self.token_id}" if self.person_id is None else f"person/{self.person_id}"
