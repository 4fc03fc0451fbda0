"""Who may do what: scopes of bearer tokens, and the wire models of tokens and enrolment."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, Self
from urllib.parse import urlencode

from pydantic import AwareDatetime, BaseModel, Field, model_validator

TOKEN_PATTERN = r"tailwright_[A-Za-z0-9_-]{43}"
"""The form of every token: what has another is none, and need not be asked about."""

SESSION_PREFIX, CODE_PREFIX = "tailwright_session_", "tailwright_code_"
SESSION_PATTERN = SESSION_PREFIX + "[A-Za-z0-9_-]{43}"
CODE_PATTERN = CODE_PREFIX + "[A-Za-z0-9_-]{43}"
"""The forms of a browser session's secret and of a sign-in code: neither can be taken for a token."""


Role = Literal["serving", "trial"]


class Scope(StrEnum):
    """What a token allows. `admin` implies `operate`, and that `read` and `post`; `agent` and `enrol` stand apart."""

    READ = "read"  # See everything.
    OPERATE = "operate"  # Rules, studies, rollouts, silences.
    ADMIN = "admin"  # Tokens, destinations, emergency changes.
    AGENT = "agent"  # Send telemetry and speak OpAMP as one node.
    ENROL = "enrol"  # Register a new node, nothing else.
    POST = "post"  # Tell of alerts of other systems and of deploys, nothing else.


IMPLIED: dict[Scope, frozenset[Scope]] = {
    Scope.READ: frozenset({Scope.READ}),
    Scope.OPERATE: frozenset({Scope.OPERATE, Scope.READ, Scope.POST}),
    Scope.ADMIN: frozenset({Scope.ADMIN, Scope.OPERATE, Scope.READ, Scope.AGENT, Scope.ENROL, Scope.POST}),
    Scope.AGENT: frozenset({Scope.AGENT}),
    Scope.ENROL: frozenset({Scope.ENROL}),
    Scope.POST: frozenset({Scope.POST}),
}


EXPIRES_IN_DAYS = 90
"""How long a token lasts where nobody says."""
LASTING = frozenset({Scope.AGENT, Scope.ENROL})
"""Scopes of the fleet's machines: where nobody says, their tokens end with the node or by hand, not by themselves."""

NAME_PATTERN = r"^[A-Za-z0-9._:-]+$"
"""The form of a node's or a pool's name."""


class EnrolmentRules(BaseModel):
    """What a token of scope `enrol` may register. What is left out is not limited."""

    uses: int | None = Field(default=None, ge=1, le=1_000_000, description="how many more times it registers a node")
    pools: list[str] | None = Field(
        default=None, min_length=1, max_length=100, description="the pools that it registers nodes in"
    )
    roles: list[Role] | None = Field(default=None, min_length=1, max_length=2, description="the roles it gives")
    nodes: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9._:*?-]+$",
        description="the form of the names that it registers: `*` for any characters, `?` for one",
    )


class TokenCreate(BaseModel):
    """A wanted token."""

    name: str = Field(
        min_length=1, max_length=128, description="whose token it is; the ledger's actor, 1 to 128 characters"
    )
    scope: Scope = Field(description="what the token allows")
    owner: str | None = Field(
        default=None, min_length=1, max_length=128, description="who answers for it; null: whoever makes it"
    )
    expires_at: AwareDatetime | None = Field(
        default=None,
        description=f"when it ends by itself, with its offset from UTC; null: in {EXPIRES_IN_DAYS} days, of scopes "
        "`agent` and `enrol` never",
    )
    never_expires: bool = Field(default=False, description="true: it lasts until it is revoked")
    enrolment: EnrolmentRules | None = Field(
        default=None, description="for scope `enrol`: what it may register; null: any node"
    )

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.never_expires and self.expires_at is not None:
            raise ValueError("expires_at and never_expires exclude each other: give one of them")
        return self

    def ends_at(self, now: datetime) -> datetime | None:
        """When a token that is made now ends; None: when it is revoked."""
        if self.never_expires or (self.expires_at is None and self.scope in LASTING):
            return None
        return self.expires_at or now + timedelta(days=EXPIRES_IN_DAYS)


class TokenView(BaseModel):
    """A token without its secret: only the hash is kept."""

    id: int = Field(description="the token's number")
    name: str = Field(description="whose token it is; the ledger's actor")
    scope: Scope = Field(description="what the token allows")
    node: str | None = Field(
        default=None, description="the node that a token of scope `agent` is bound to; null for the others"
    )
    owner: str | None = Field(default=None, description="who answers for it; null for those that the service made")
    created_at: datetime = Field(description="when it was made")
    pool: str | None = Field(default=None, description="the pool that the token's node was enrolled in")
    expires_at: datetime | None = Field(default=None, description="when it ends by itself; null: never")
    revoked_at: datetime | None = Field(default=None, description="when it was revoked; null: it was not")
    last_used_at: datetime | None = Field(
        default=None, description="when it was last used, to within two minutes; null: never, or it is a node's"
    )
    enrolment: EnrolmentRules | None = Field(
        default=None, description="for scope `enrol`: what it may still register; null: any node"
    )


class TokenCreated(TokenView):
    """A new token with its secret."""

    token: str = Field(description="the secret itself; shown only in this answer")


class SignInCode(BaseModel):
    """A code that signs one browser in, once."""

    code: str = Field(description="the code itself, for `/login?code=CODE`; shown only in this answer")
    expires_at: datetime = Field(description="when it is too late to use it")

    def link(self, dashboard_url: str, page: str = "/") -> str:
        """The address that signs a browser in and leads it to the page, a path of the dashboard."""
        query = {"code": self.code} | ({} if page == "/" else {"next": page})
        return f"{dashboard_url.rstrip('/')}/login?{urlencode(query)}"


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
        min_length=1, max_length=128, pattern=NAME_PATTERN, description="the node's `service.instance.id`"
    )
    pool: str = Field(
        min_length=1,
        max_length=128,
        pattern=NAME_PATTERN,
        description="the pool it serves in; made by its first node",
    )
    backend: str = Field(min_length=1, max_length=64, description="what runs the model: `embedded` or `vllm`")
    role: Role = Field(default="serving", description="`serving` takes production traffic, `trial` is for studies")
    old_token: str | None = Field(
        default=None,
        max_length=512,
        repr=False,
        description="the node's token so far: who shows it may enrol a node that is heard from again",
    )


class EnrolmentReply(BaseModel):
    """The node's own token (scope agent), the pool and the role that it was given, and the fleet's key for hashing
    prompt blocks (hexadecimal)."""

    node: str = Field(description="the node that was registered")
    pool: str = Field(description="the pool it serves in")
    role: Role = Field(description="whether it takes production traffic")
    token: str = Field(description="the node's own token, of scope `agent`; shown only in this answer")
    workload_key: str = Field(description="the fleet's key for hashing prompt blocks, hexadecimal")
