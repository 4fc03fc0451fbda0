"""Sessions of browsers, and the one-time codes that start them, in the database: every replica knows the same ones.

Guarantee: a code starts one session at most, within `CODE_S` of its making; a session ends `LONGEST_S` after its start,
`IDLE_S` after its last use, when it is signed out, and when its token is revoked, whichever is first. At rest both are
hashes only, and a session's token is nowhere: its number is kept.
"""

import re
import secrets
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import delete
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, col, select

from controlplane.auth.principal import Principal
from controlplane.auth.tables import BrowserSessionRow, SignInCodeRow, TokenRow
from controlplane.auth.token import digest
from controlplane.contract.bodies.access import (
    CODE_PATTERN,
    CODE_PREFIX,
    SESSION_PATTERN,
    SESSION_PREFIX,
    Scope,
    SessionStarted,
    SignInCode,
)
from controlplane.contract.errors import Unauthenticated, Unavailable
from controlplane.db.database import Database

LONGEST_S, IDLE_S, CODE_S = 12 * 3600, 3600, 60
NOTED_S = 60
"""A use is written down when the last one that was is this old: not each request of a page that refreshes itself."""

_BEARER = re.compile(rf"(?i:bearer) +({SESSION_PATTERN}) *")
_CODE = re.compile(CODE_PATTERN)


class Found(NamedTuple):
    """A live session's row, and whose it is."""

    row: BrowserSessionRow
    principal: Principal


def secret_in(authorization: str) -> str | None:
    """The session's secret in an Authorization header; None for any other."""
    found = _BEARER.fullmatch(authorization)
    return found[1] if found else None


def is_live(started_at: datetime, used_at: datetime, now: datetime) -> bool:
    """Whether neither limit of a session has passed."""
    return now < started_at + timedelta(seconds=LONGEST_S) and now < used_at + timedelta(seconds=IDLE_S)


def make_code(session: Session, token_id: int, now: datetime) -> SignInCode:
    """A code that starts one session of this token."""
    session.execute(delete(SignInCodeRow).where(col(SignInCodeRow.expires_at) <= now))
    code = CODE_PREFIX + secrets.token_urlsafe(32)
    row = SignInCodeRow(digest=digest(code), token_id=token_id, expires_at=now + timedelta(seconds=CODE_S))
    session.add(row)
    return SignInCode(code=code, expires_at=row.expires_at)


def has_code_form(code: str) -> bool:
    """What has another form is no code, and need not be looked up."""
    return _CODE.fullmatch(code) is not None


def start(session: Session, code: str, now: datetime) -> SessionStarted | None:
    """Use up a code; None for one that is unknown, used or too old, or whose token was revoked."""
    row = session.get(SignInCodeRow, digest(code))
    if row is None:
        return None
    # Of two who bring the same code at once, one deletes it.
    used_up = delete(SignInCodeRow).where(col(SignInCodeRow.digest) == row.digest).returning(col(SignInCodeRow.digest))
    is_mine = session.execute(used_up).first() is not None
    token = session.get(TokenRow, row.token_id)
    if not is_mine or row.expires_at <= now or token is None or token.revoked_at is not None:
        return None
    _forget_ended(session, now)
    secret = SESSION_PREFIX + secrets.token_urlsafe(32)
    session.add(BrowserSessionRow(digest=digest(secret), token_id=row.token_id, started_at=now, used_at=now))
    return SessionStarted(secret=secret, expires_at=now + timedelta(seconds=LONGEST_S))


def authenticate_session(database: Database, secret: str, now: datetime) -> Principal:
    """Whose session it is; its use is noted. Raises `Unauthenticated`, `Unavailable`."""
    try:
        with database.read_session() as session:
            found = _live(session, secret, now)
        if found is None:
            raise Unauthenticated("this session has ended; sign in again", field="Authorization")
        if found.row.used_at + timedelta(seconds=NOTED_S) <= now:
            _note_use(database, found.row.digest, now)
    except SQLAlchemyError as error:
        raise Unavailable("the database does not answer; try again later") from error
    return found.principal


def end(session: Session, session_id: int) -> None:
    """Sign out; a session that has ended stays so."""
    session.execute(delete(BrowserSessionRow).where(col(BrowserSessionRow.id) == session_id))


def _live(session: Session, secret: str, now: datetime) -> Found | None:
    query = select(BrowserSessionRow, TokenRow).where(
        BrowserSessionRow.digest == digest(secret),
        col(TokenRow.id) == col(BrowserSessionRow.token_id),
        col(TokenRow.revoked_at).is_(None),
    )
    found = session.exec(query).first()
    if found is None or not is_live(found[0].started_at, found[0].used_at, now):
        return None
    row, token = found
    assert row.id is not None and token.id is not None
    return Found(row, Principal(token.name, Scope(token.scope), token.id, token.node, row.id))


def _note_use(database: Database, secret_digest: str, now: datetime) -> None:
    with database.session() as session:
        row = session.exec(select(BrowserSessionRow).where(BrowserSessionRow.digest == secret_digest)).first()
        if row is not None:
            row.used_at = now


def _forget_ended(session: Session, now: datetime) -> None:
    longest, idle = now - timedelta(seconds=LONGEST_S), now - timedelta(seconds=IDLE_S)
    ended = (col(BrowserSessionRow.started_at) <= longest) | (col(BrowserSessionRow.used_at) <= idle)
    session.execute(delete(BrowserSessionRow).where(ended))
