"""Who speaks: the principal behind an Authorization header, and what its scope lets it do."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from controlplane.auth import store
from controlplane.contract.bearer import bearer_token
from controlplane.contract.bodies.access import IMPLIED, Scope
from controlplane.contract.errors import Forbidden, TokenExpired, Unauthenticated
from controlplane.db.database import Database
from controlplane.ledger import Actor


@dataclass(frozen=True)
class Principal:
    """Who speaks: the token's name or the person's, its scope, and the node (with its pool) or browser session that
    it is bound to.

    A token has `token_id`; a person, who speaks by a session alone, `person_id`.
    """

    name: str
    scope: Scope
    token_id: int | None
    node: str | None = None
    session_id: int | None = None
    pool: str | None = None
    expires_at: datetime | None = None
    person_id: int | None = None

    @property
    def kind(self) -> str:
        """What it is, in words."""
        return "the token" if self.person_id is None else "the session of"

    @property
    def holder(self) -> str:
        """The token or the person: the same for all requests of one, whichever session they come by."""
        return f"token/{self.token_id}" if self.person_id is None else f"person/{self.person_id}"

    @property
    def actor(self) -> Actor:
        """Whom the ledger names."""
        return Actor(self.name, self.token_id, self.person_id)


def authenticate(database: Database, authorization: str | None, now: datetime) -> Principal:
    """The principal behind an Authorization header. Raises `Unauthenticated`."""
    header = authorization or ""
    found = authenticate_all(database, [header])[header]
    if isinstance(found, str):
        raise Unauthenticated(found, field="Authorization")
    if found.expires_at is not None:
        check_time(found.expires_at, now)
    return found


def check_time(expires_at: datetime, now: datetime) -> None:
    """Raises `TokenExpired` when a token's time is over."""
    if expires_at <= now:
        raise TokenExpired(
            f"this token has expired on {expires_at:%Y-%m-%d}; an admin makes another: tailwright tokens create. "
            "Where no admin's token is left, the service has put one into admin-token in its data folder",
            field="Authorization",
        )


def authenticate_all(database: Database, authorizations: Iterable[str]) -> dict[str, Principal | str]:
    """The principals behind Authorization headers; for one that has none, why it is refused. Time is not asked."""
    token_of = {header: bearer_token(header) for header in authorizations}
    with database.read_session() as session:
        live = store.find_all(session, {token for token in token_of.values() if token is not None})
    found: dict[str, Principal | str] = {}
    for header, token in token_of.items():
        if token is None:
            found[header] = "send 'Authorization: Bearer TOKEN'"
        elif token not in live:
            found[header] = "this token is unknown or revoked"
        else:
            view = live[token]
            found[header] = Principal(
                view.name, view.scope, view.id, view.node, pool=view.pool, expires_at=view.expires_at
            )
    return found


def check_scope(principal: Principal, wanted: Scope) -> None:
    """Raises `Forbidden` when the principal's scope does not imply `wanted`."""
    if wanted not in IMPLIED[principal.scope]:
        raise Forbidden(
            f"this needs scope {wanted.value}, {principal.kind} {principal.name!r} has {principal.scope.value}",
            field="Authorization",
            needed=wanted.value,
        )
