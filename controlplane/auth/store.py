"""Tokens in the database, inside the caller's transaction."""

import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.auth import revocations
from controlplane.auth.tables import FleetSecretRow, TokenRow
from controlplane.auth.token import digest, new_token
from controlplane.auth.view import token_view
from controlplane.contract.bodies.access import Scope, TokenCreate, TokenCreated, TokenView
from controlplane.contract.errors import BadRequest
from controlplane.db.rows import existing, newest
from controlplane.ledger.actor import is_reserved

CHUNK = 500


def create(session: Session, wanted: TokenCreate, *, actor: str, now: datetime) -> TokenCreated:
    """Make a token that somebody asked for. Raises `BadRequest` for a name that the ledger has for others."""
    if is_reserved(wanted.name):
        raise BadRequest(f"name: {wanted.name!r} is the service's or an agent's own in the ledger", field="name")
    made, token = issue(session, name=wanted.name, scope=wanted.scope, now=now)
    message = f"token {made.name!r} with scope {made.scope.value}"
    ledger.append(session, now, actor, "token.created", f"token/{made.id}", message)
    return TokenCreated(**made.model_dump(), token=token)


def issue(
    session: Session, *, name: str, scope: Scope, now: datetime, node: str | None = None, token: str | None = None
) -> tuple[TokenView, str]:
    """Make a token (or register a given one); its secret is returned here and nowhere else."""
    token = token or new_token()
    row = TokenRow(name=name, scope=scope.value, node=node, digest=digest(token), created_at=now)
    session.add(row)
    session.flush()
    return token_view(row), token


def get(session: Session, token_id: int) -> TokenView | None:
    row = session.get(TokenRow, token_id)
    return None if row is None else token_view(row)


def find(session: Session, token: str) -> TokenView | None:
    """The live token with this secret, if any."""
    row = session.exec(select(TokenRow).where(TokenRow.digest == digest(token))).first()
    return None if row is None or row.revoked_at is not None else token_view(row)


def find_all(session: Session, tokens: Iterable[str]) -> dict[str, TokenView]:
    """The live ones of tokens with these secrets, by secret."""
    secret_of = {digest(token): token for token in tokens}
    digests = list(secret_of)
    found = {}
    for start in range(0, len(digests), CHUNK):
        chosen = col(TokenRow.digest).in_(digests[start : start + CHUNK])
        for row in session.exec(select(TokenRow).where(chosen, col(TokenRow.revoked_at).is_(None))):
            found[secret_of[row.digest]] = token_view(row)
    return found


def was_issued(session: Session, token: str) -> bool:
    """True for a live token and for a revoked one."""
    return session.exec(select(TokenRow.id).where(TokenRow.digest == digest(token))).first() is not None


def revoke(session: Session, token_id: int, *, actor: str, now: datetime) -> None:
    """End a token; one that has ended already stays as it was."""
    row = existing(session, TokenRow, token_id, "token", field="token_id")
    row.revoked_at = row.revoked_at or now
    revocations.count(session)
    ledger.append(session, now, actor, "token.revoked", f"token/{row.id}", f"token {row.name!r} revoked")


def revoke_of_node(session: Session, node: str, now: datetime) -> None:
    """A node that enrols again gets a new token; its old ones end."""
    for row in session.exec(select(TokenRow).where(TokenRow.node == node, col(TokenRow.revoked_at).is_(None))):
        row.revoked_at = now
        revocations.count(session)


def revoked(session: Session) -> dict[str, datetime]:
    """When the revoked tokens ended, by digest."""
    query = select(TokenRow).where(col(TokenRow.revoked_at).is_not(None))
    return {row.digest: row.revoked_at for row in session.exec(query) if row.revoked_at is not None}


def revoke_again(session: Session, ended: Mapping[str, datetime], now: datetime) -> list[str]:
    """End the live tokens that had ended elsewhere, given by digest; returns their names."""
    names = []
    for row in session.exec(select(TokenRow).where(col(TokenRow.revoked_at).is_(None)).order_by(col(TokenRow.id))):
        if row.digest in ended:
            row.revoked_at = ended[row.digest]
            revocations.count(session)
            message = f"token {row.name!r} stays revoked after a backup was restored"
            ledger.append(session, now, ledger.SERVICE, "token.revoked", f"token/{row.id}", message)
            names.append(row.name)
    return names


def listing(session: Session, *, before_id: int | None, limit: int) -> list[TokenView]:
    return [token_view(row) for row in session.exec(newest(TokenRow, before_id, limit))]


def any_of_scope(session: Session, scope: Scope) -> bool:
    query = select(TokenRow.id).where(TokenRow.scope == scope.value, col(TokenRow.revoked_at).is_(None))
    return session.exec(query).first() is not None


def workload_key(session: Session) -> str:
    """The fleet's key for hashing prompt blocks, made at first use (hexadecimal)."""
    row = session.get(FleetSecretRow, "workload_key")
    if row is None:
        row = FleetSecretRow(name="workload_key", value=secrets.token_hex(16))
        session.add(row)
        session.flush()
    return row.value
