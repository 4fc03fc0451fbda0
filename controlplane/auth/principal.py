"""Who speaks: the principal behind an Authorization header, and what its scope lets it do."""

from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.auth import store
from controlplane.contract.bodies.access import IMPLIED, Scope
from controlplane.contract.errors import Forbidden, Unauthenticated
from controlplane.db.database import Database
from controlplane.ledger import Actor


@dataclass(frozen=True)
class Principal:
    """Who speaks: the token's name, its scope, and the node or browser session that it is bound to."""

    name: str
    scope: Scope
    token_id: int
    node: str | None = None
    session_id: int | None = None

    @property
    def actor(self) -> Actor:
        """Whom the ledger names."""
        return Actor(self.name, self.token_id)


def authenticate(database: Database, authorization: str | None) -> Principal:
    """The principal behind an Authorization header. Raises `Unauthenticated`."""
    header = authorization or ""
    found = authenticate_all(database, [header])[header]
    if isinstance(found, str):
        raise Unauthenticated(found, field="Authorization")
    return found


def authenticate_all(database: Database, authorizations: Iterable[str]) -> dict[str, Principal | str]:
    """The principals behind Authorization headers; for one that has none, why it is refused."""
    token_of = {header: _token(header) for header in authorizations}
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
            found[header] = Principal(view.name, view.scope, view.id, view.node)
    return found


def _token(authorization: str) -> str | None:
    scheme, _, token = authorization.partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def check_scope(principal: Principal, wanted: Scope) -> None:
    """Raises `Forbidden` when the principal's scope does not imply `wanted`."""
    if wanted not in IMPLIED[principal.scope]:
        raise Forbidden(
            f"this needs scope {wanted.value}, the token {principal.name!r} has {principal.scope.value}",
            field="Authorization",
            needed=wanted.value,
        )
