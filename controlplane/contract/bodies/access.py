"""Who may do what: scopes of bearer tokens, and the wire models of tokens and enrolment."""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field

TOKEN_PATTERN = r"tailwright_[A-Za-z0-9_-]{43}"
"""The form of every token: what has another is none, and need not be asked about."""

SESSION_PREFIX, CODE_PREFIX = "tailwright_session_", "tailwright_code_"
SESSION_PATTERN = SESSION_PREFIX + "[A-Za-z0-9_-]{43}"
CODE_PATTERN = CODE_PREFIX + "[A-Za-z0-9_-]{43}"
"""The forms of a browser session's secret and of a sign-in code: neither can be taken for a token."""


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
    """A wanted token."""

    name: str = Field(
        min_length=1, max_length=128, description="whose token it is; the ledger's actor, 1 to 128 characters"
    )
    scope: Scope = Field(description="what the token allows")


class TokenView(BaseModel):
    """A token without its secret: only the hash is kept."""

    id: int = Field(description="the token's number")
    name: str = Field(description="whose token it is; the ledger's actor")
    scope: Scope = Field(description="what the token allows")
    node: str | None = Field(
        default=None, description="the node that a token of scope `agent` is bound to; null for the others"
    )
    created_at: datetime = Field(description="when it was made")
    revoked_at: datetime | None = Field(default=None, description="when it was revoked; null while it is valid")


class TokenCreated(TokenView):
    """A new token with its secret."""

    token: str = Field(description="the secret itself; shown only in this answer")


class SignInCode(BaseModel):
    """A code that signs one browser in, once."""

    code: str = Field(description="the code itself, for `/login?code=CODE`; shown only in this answer")
    expires_at: datetime = Field(description="when it is too late to use it")


class SessionStart(BaseModel):
    """What starts a browser's session."""

    code: str = Field(max_length=128, description="a code of POST /api/v1/sign-in-codes")


class SessionStarted(BaseModel):
    """A browser's session: as a bearer token it has the scope of the token that made its code."""

    secret: str = Field(description="what the session is known by; shown only in this answer")
    expires_at: datetime = Field(description="when it ends at the latest; unused, signed out or revoked it ends before")


class EnrolmentRequest(BaseModel):
    """What an agent says of its node to be registered. `node` is its service.instance.id."""

    node: str = Field(
        min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._:-]+$", description="the node's `service.instance.id`"
    )
    pool: str = Field(
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9._:-]+$",
        description="the pool it serves in; made by its first node",
    )
    backend: str = Field(min_length=1, max_length=64, description="what runs the model: `embedded` or `vllm`")
    role: str = Field(
        default="serving",
        pattern="^(serving|trial)$",
        description="`serving` takes production traffic, `trial` is for studies",
    )


class EnrolmentReply(BaseModel):
    """The node's own token (scope agent), and the fleet's key for hashing prompt blocks (hexadecimal)."""

    node: str = Field(description="the node that was registered")
    token: str = Field(description="the node's own token, of scope `agent`; shown only in this answer")
    workload_key: str = Field(description="the fleet's key for hashing prompt blocks, hexadecimal")
