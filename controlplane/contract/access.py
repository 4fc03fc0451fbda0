"""Who may do what: scopes of bearer tokens, and the wire models of tokens and enrolment."""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field

TOKEN_PATTERN = r"trimtab_[A-Za-z0-9_-]{43}"
"""The form of every token: what has another is none, and need not be asked about."""


class Scope(StrEnum):
    """What a token allows. `admin` implies `operate`, which implies `read`; `agent` and `enrol` stand apart."""

    READ = "read"  # See everything.
    OPERATE = "operate"  # Rules, studies, rollouts, silences.
    ADMIN = "admin"  # Tokens, destinations, emergency changes.
    AGENT = "agent"  # Send telemetry and speak OpAMP as one node.
    ENROL = "enrol"  # Register a new node, nothing else.


IMPLIED: dict[Scope, frozenset[Scope]] = {
    Scope.READ: frozenset({Scope.READ}),
    Scope.OPERATE: frozenset({Scope.OPERATE, Scope.READ}),
    Scope.ADMIN: frozenset({Scope.ADMIN, Scope.OPERATE, Scope.READ, Scope.AGENT, Scope.ENROL}),
    Scope.AGENT: frozenset({Scope.AGENT}),
    Scope.ENROL: frozenset({Scope.ENROL}),
}


class TokenCreate(BaseModel):
    name: str = Field(min_length=1, max_length=128)
    scope: Scope


class TokenView(BaseModel):
    """A token without its secret: only the hash is kept."""

    id: int
    name: str
    scope: Scope
    node: str | None = None  # The node an agent token is bound to.
    created_at: datetime
    revoked_at: datetime | None = None


class TokenCreated(TokenView):
    token: str  # Shown once.


class EnrolmentRequest(BaseModel):
    """What an agent says of its node to be registered. `node` is its service.instance.id."""

    node: str = Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._:-]+$")
    pool: str = Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._:-]+$")
    backend: str = Field(min_length=1, max_length=64)
    role: str = Field(default="serving", pattern="^(serving|trial)$")


class EnrolmentReply(BaseModel):
    """The node's own token (scope agent), and the fleet's key for hashing prompt blocks (hexadecimal)."""

    node: str
    token: str
    workload_key: str
