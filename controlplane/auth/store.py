"""Tokens in the database, inside the caller's transaction."""

import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import BindParameter, ColumnElement, update
from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.auth import enrolment_rules, revocations
from controlplane.auth.tables import FleetSecretRow, TokenRow
from controlplane.auth.token import digest, digests, new_token
from controlplane.auth.view import token_view
from controlplane.contract.bodies.access import Scope, TokenCreate, TokenCreated, TokenView
from controlplane.contract.errors import BadRequest
from controlplane.db.rows import existing, newest
from controlplane.keys import Keyring, Place, reencryption
from controlplane.ledger.actor import Actor, is_reserved

CHUNK = 500


def create(session: Session, wanted: TokenCreate, *, actor: str, now: datetime) -> TokenCreated:
    """Make a token that somebody asked for. Raises `BadRequest` for a name that the ledger has for others."""
    if is_reserved(wanted.name):
        raise BadRequest(f"name: {wanted.name!r} is the service's or an agent's own in the ledger", field="name")
    if wanted.enrolment is not None and wanted.scope is not Scope.ENROL:
        raise BadRequest(f"enrolment: is for tokens of scope enrol, this is {wanted.scope.value}", field="enrolment")
    if wanted.expires_at is not None and wanted.expires_at <= now:
        raise BadRequest("expires_at: lies in the past", field="expires_at")
    ends, owner = wanted.ends_at(now), wanted.owner or str(actor)
    made_by = actor.token_id if isinstance(actor, Actor) else None
    made, token = issue(
        session, name=wanted.name, scope=wanted.scope, now=now, owner=owner, made_by=made_by, expires_at=ends
    )
    if wanted.enrolment is not None:
        enrolment_rules.keep(session, made.id, wanted.enrolment)
    message = f"token {made.name!r} with scope {made.scope.value}"
    limits = wanted.model_dump(mode="json", include={"enrolment"}, exclude_none=True)
    if ends is not None:
        limits["expires_at"] = ends.isoformat()
    ledger.append(session, now, actor, "token.created", f"token/{made.id}", message, owner=owner, **limits)
    return TokenCreated(**made.model_dump(exclude={"enrolment"}), enrolment=wanted.enrolment, token=token)


def issue(
    session: Session,
    *,
    name: str,
    scope: Scope,
    now: datetime,
    node: str | None = None,
    pool: str | None = None,
    replaces: int | None = None,
    token: str | None = None,
    owner: str | None = None,
    made_by: int | None = None,
    expires_at: datetime | None = None,
) -> tuple[TokenView, str]:
    """Make a token (or register a given one); its secret is returned here and nowhere else."""
    token = token or new_token()
    row = TokenRow(
        name=name,
        scope=scope.value,
        node=node,
        pool=pool,
        replaces=replaces,
        owner=owner,
        made_by=made_by,
        digest=digest(token),
        created_at=now,
        expires_at=expires_at,
    )
    session.add(row)
    session.flush()
    return token_view(row), token


def get(session: Session, token_id: int) -> TokenView | None:
    row = session.get(TokenRow, token_id)
    return None if row is None else token_view(row, enrolment_rules.of(session, token_id))


def find(session: Session, token: str) -> TokenView | None:
    """The token with this secret, if there is one that was not revoked."""
    row = session.exec(select(TokenRow).where(col(TokenRow.digest).in_(digests(token)))).first()
    return None if row is None or row.revoked_at is not None else token_view(row)


def find_all(session: Session, tokens: Iterable[str]) -> dict[str, TokenView]:
    """Of tokens with these secrets those that were not revoked, by secret; whether they have expired is not asked."""
    secret_of = {kept: token for token in tokens for kept in digests(token)}
    wanted = list(secret_of)
    found = {}
    for start in range(0, len(wanted), CHUNK):
        chosen = col(TokenRow.digest).in_(wanted[start : start + CHUNK])
        for row in session.exec(select(TokenRow).where(chosen, col(TokenRow.revoked_at).is_(None))):
            found[secret_of[row.digest]] = token_view(row)
    return found


def made_from(session: Session, token_id: int) -> list[int]:
    """The tokens that a token was made with: the one that asked for it, the one that asked for that, and so on."""
    found: list[int] = []
    row = session.get(TokenRow, token_id)
    while row is not None and row.made_by is not None:
        found.append(row.made_by)  # Numbers fall on the way: nothing is made by what is younger.
        row = session.get(TokenRow, row.made_by)
    return found


def was_issued(session: Session, token: str) -> bool:
    """True for a live token and for a revoked one."""
    return session.exec(select(TokenRow.id).where(col(TokenRow.digest).in_(digests(token)))).first() is not None


def revoke(session: Session, token_id: int, *, actor: str, now: datetime) -> None:
    """End a token; one that has ended already stays as it was."""
    row = existing(session, TokenRow, token_id, "token", field="token_id")
    row.revoked_at = row.revoked_at or now
    revocations.count(session)
    ledger.append(session, now, actor, "token.revoked", f"token/{row.id}", f"token {row.name!r} revoked")


def of_node(session: Session, node: str) -> list[TokenRow]:
    """The node's live tokens: one, or two while one takes the other's place."""
    query = select(TokenRow).where(TokenRow.node == node, col(TokenRow.revoked_at).is_(None))
    return list(session.exec(query.order_by(col(TokenRow.id))))


def is_of_node(session: Session, node: str, token: str) -> bool:
    """Whether this secret is a live token of the node."""
    kept = digests(token)
    return any(row.digest in kept for row in of_node(session, node))


def end(session: Session, row: TokenRow, now: datetime) -> None:
    """Revoke a token in the caller's transaction; the ledger is the caller's."""
    row.revoked_at = row.revoked_at or now
    session.add(row)
    revocations.count(session)


def revoke_of_node(session: Session, node: str, now: datetime) -> None:
    """A node that enrols again gets a new token; its old ones end."""
    for row in of_node(session, node):
        end(session, row, now)


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
    rows = session.exec(newest(TokenRow, before_id, limit)).all()
    rules = enrolment_rules.of_all(session, [row.id for row in rows if row.id is not None])
    return [token_view(row, rules.get(row.id or 0)) for row in rows]


def lives(now: datetime | BindParameter[datetime]) -> ColumnElement[bool]:
    """That a token's row is neither revoked nor expired."""
    expires_at = col(TokenRow.expires_at)
    return col(TokenRow.revoked_at).is_(None) & (expires_at.is_(None) | (expires_at > now))


def any_of_scope(session: Session, scope: Scope, now: datetime) -> bool:
    return session.exec(select(TokenRow.id).where(TokenRow.scope == scope.value, lives(now))).first() is not None


def note_uses(session: Session, token_ids: Iterable[int], now: datetime) -> None:
    """Write down that these were used."""
    numbers = sorted(token_ids)
    for start in range(0, len(numbers), CHUNK):
        chosen = col(TokenRow.id).in_(numbers[start : start + CHUNK])
        session.execute(update(TokenRow).where(chosen).values(last_used_at=now))


def workload_key(session: Session, keyring: Keyring) -> str:
    """The fleet's key for hashing prompt blocks, made at first use (hexadecimal)."""
    return _key_of_the_fleet(session, keyring, "workload_key", 16)


def person_key(session: Session, keyring: Keyring) -> str:
    """The key for hashing whom an issuer knows people by, made at first use (hexadecimal). Of two who sign in first, at
    once, one waits for the other."""
    if session.get(FleetSecretRow, "person_key") is None:
        reencryption.locked(session)
    return _key_of_the_fleet(session, keyring, "person_key", 32)


def _key_of_the_fleet(session: Session, keyring: Keyring, name: str, size: int) -> str:
    place = Place("fleet_secret", "value", name)
    row = session.get(FleetSecretRow, place.row)
    if row is not None:
        return keyring.decrypt(place, row.value)
    key = secrets.token_hex(size)
    session.add(FleetSecretRow(name=str(place.row), value=keyring.encrypt(session, place, key)))
    session.flush()
    return key
