"""Sessions of browsers, and the one-time codes that start them, in the database: every replica knows the same ones.

Guarantee: a code starts one session at most, within `CODE_S` of its making; a session ends `LONGEST_S` after its start,
`IDLE_S` after its last use, when it is signed out, and when its token is revoked or expires, whichever is first. At
rest both are hashes only, and a session's token is nowhere: its number is kept. A session is a token's or a person's.
"""

import re
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Row, bindparam, delete
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, col, or_, select
from sqlmodel.sql.expression import SelectOfScalar

from controlplane.auth import store
from controlplane.auth.browser_address import SeenFrom, address_place
from controlplane.auth.principal import Principal
from controlplane.auth.tables import BrowserSessionRow, PersonRow, SignInCodeRow, TokenRow
from controlplane.auth.token import digest, digests
from controlplane.auth.watch.security_log import Speaker, session_begun
from controlplane.contract.bodies.access import (
    CODE_PATTERN,
    CODE_PREFIX,
    SESSION_PATTERN,
    SESSION_PREFIX,
    Scope,
    SessionStarted,
    SignInCode,
)
from controlplane.contract.bodies.people import SCOPE_OF, Role, SessionView
from controlplane.contract.errors import NotFound, Unauthenticated, Unavailable
from controlplane.db.column_types import UtcDateTime
from controlplane.db.database import Database
from controlplane.db.rows import newest
from controlplane.keys import Keyring

LONGEST_S, IDLE_S, CODE_S = 12 * 3600, 1800, 60
NOTED_S = 60
"""A use is written down when the last one that was is this old: not each request of a page that refreshes itself."""

_BEARER = re.compile(rf"(?i:bearer) +({SESSION_PATTERN}) *")
_CODE = re.compile(CODE_PATTERN)


_LIVES = store.lives(bindparam("now", type_=UtcDateTime))
_LIVE = (
    select(  # type: ignore[call-overload]
        *(col(BrowserSessionRow.id), col(BrowserSessionRow.digest)),
        *(col(BrowserSessionRow.started_at), col(BrowserSessionRow.used_at)),
        *(col(PersonRow.id).label("person_id"), col(PersonRow.name).label("person"), col(PersonRow.role)),
        *(col(TokenRow.id).label("token_id"), col(TokenRow.name).label("token")),
        *(col(TokenRow.scope), col(TokenRow.node)),
    )
    .outerjoin(PersonRow, col(PersonRow.id) == col(BrowserSessionRow.person_id))
    .outerjoin(TokenRow, (col(TokenRow.id) == col(BrowserSessionRow.token_id)) & _LIVES)
    .where(
        col(BrowserSessionRow.digest).in_(bindparam("digests", expanding=True)),
        col(PersonRow.id).is_not(None) | col(TokenRow.id).is_not(None),
    )
)
"""Sessions by their digests, with the person or the living token of each. Made once: it is asked with each request of
a browser, and to make it took as long as to run it."""


class Found(NamedTuple):
    """A live session, when it was last noted to be used, and whose it is."""

    digest: str
    used_at: datetime
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


def start(session: Session, code: str, now: datetime, seen: SeenFrom | None = None) -> SessionStarted | None:
    """Use up a code; None for one that is unknown, used or too old, or whose token has ended."""
    row = session.exec(select(SignInCodeRow).where(col(SignInCodeRow.digest).in_(digests(code)))).first()
    if row is None:
        return None
    # Of two who bring the same code at once, one deletes it.
    used_up = delete(SignInCodeRow).where(col(SignInCodeRow.digest) == row.digest).returning(col(SignInCodeRow.digest))
    is_mine = session.execute(used_up).first() is not None
    token = session.exec(select(TokenRow).where(TokenRow.id == row.token_id, store.lives(now))).first()
    if not is_mine or row.expires_at <= now or token is None:
        return None
    return begin(session, now, token_id=row.token_id, seen=seen)


def begin(
    session: Session,
    now: datetime,
    *,
    token_id: int | None = None,
    person_id: int | None = None,
    seen: SeenFrom | None = None,
) -> SessionStarted:
    """A new session of a token or of a person, for who has proven to be that. `seen`: where the browser is."""
    forget_ended(session, now)
    secret = SESSION_PREFIX + secrets.token_urlsafe(32)
    row = BrowserSessionRow(
        digest=digest(secret),
        token_id=token_id,
        person_id=person_id,
        started_at=now,
        used_at=now,
    )
    session.add(row)
    session.flush()
    assert row.id is not None
    address = None if seen is None else seen.address
    if seen is not None and address is not None:
        row.address = seen.keyring.encrypt(session, address_place(row.id), address)
        session.flush()
    name, holder = _holder(session, row)
    session_begun(session, Speaker(name, holder, row.id, address or "unknown"))
    return SessionStarted(secret=secret, expires_at=now + timedelta(seconds=LONGEST_S))


def authenticate_session(database: Database, secret: str, now: datetime) -> Principal:
    """Whose session it is; its use is noted. Raises `Unauthenticated`, `Unavailable`."""
    found = _used(database, [secret], now)
    if secret not in found:
        raise Unauthenticated("this session has ended; sign in again", field="Authorization")
    return found[secret].principal


def principals_of(database: Database, secrets: Sequence[str], now: datetime) -> dict[str, Principal | None]:
    """Whose each of these sessions is, None where it has ended; their use is noted. Raises `Unavailable`."""
    found = _used(database, secrets, now)
    return {secret: found[secret].principal if secret in found else None for secret in secrets}


def listing(
    session: Session,
    keyring: Keyring,
    now: datetime,
    *,
    before_id: int | None,
    limit: int,
    of: Principal | None,
    asks: int | None,
) -> list[SessionView]:
    """Open sessions, newest first: all, or those `of` one's token or person. `asks`: the session that asks, if one.

    Raises `Undecryptable`.
    """
    query = _open(newest(BrowserSessionRow, before_id, limit), now)
    if of is not None:
        query = query.where(
            BrowserSessionRow.person_id == of.person_id
            if of.person_id is not None
            else BrowserSessionRow.token_id == of.token_id
        )
    return [_view(session, keyring, row, asks) for row in session.exec(query)]


def view(
    session: Session, keyring: Keyring, session_id: int, now: datetime, *, of: Principal | None, asks: int | None
) -> SessionView:
    """One open session, as in `listing`. Raises `NotFound`, also where it is not to be seen, and `Undecryptable`."""
    found = listing(session, keyring, now, before_id=session_id + 1, limit=1, of=of, asks=asks)
    if not found or found[0].id != session_id:
        raise NotFound(f"no open session {session_id}", field="session_id")
    return found[0]


def number_open(session: Session, person_id: int, now: datetime) -> int:
    """How many sessions a person has open."""
    query = _open(select(BrowserSessionRow), now).where(BrowserSessionRow.person_id == person_id)
    return len(session.exec(query).all())


def forget_ended(session: Session, now: datetime) -> None:
    """Delete the rows of sessions whose time is over."""
    longest, idle = now - timedelta(seconds=LONGEST_S), now - timedelta(seconds=IDLE_S)
    ended = (col(BrowserSessionRow.started_at) <= longest) | (col(BrowserSessionRow.used_at) <= idle)
    session.execute(delete(BrowserSessionRow).where(ended))


def end(session: Session, session_id: int) -> None:
    """Sign out; a session that has ended stays so."""
    session.execute(delete(BrowserSessionRow).where(col(BrowserSessionRow.id) == session_id))


def end_all(session: Session) -> None:
    """End every session, and let every sign-in code be used up."""
    session.execute(delete(BrowserSessionRow))
    session.execute(delete(SignInCodeRow))


def _used(database: Database, secrets: Sequence[str], now: datetime) -> dict[str, Found]:
    """Those that are live, by secret; their use is noted. Raises `Unavailable`."""
    try:
        with database.read_session() as session:
            found = _live(session, secrets, now)
        noted_until = now - timedelta(seconds=NOTED_S)
        _note_use(database, [one.digest for one in found.values() if one.used_at <= noted_until], now)
    except SQLAlchemyError as error:
        raise Unavailable("the database does not answer; try again later") from error
    return found


def _live(session: Session, secrets: Sequence[str], now: datetime) -> dict[str, Found]:
    secret_of = {kept: secret for secret in secrets for kept in digests(secret)}
    rows = session.execute(_LIVE, {"digests": list(secret_of), "now": now})
    return {
        secret_of[row.digest]: Found(row.digest, row.used_at, _principal(row))
        for row in rows
        if is_live(row.started_at, row.used_at, now)
    }


def _principal(row: Row[Any]) -> Principal:
    """Whose session a row of `_LIVE` is: a person's, or a token's."""
    if row.person_id is not None:
        return Principal(row.person, SCOPE_OF[Role(row.role)], None, session_id=row.id, person_id=row.person_id)
    return Principal(row.token, Scope(row.scope), row.token_id, row.node, row.id)


def _note_use(database: Database, digests: Sequence[str], now: datetime) -> None:
    if not digests:
        return
    with database.session() as session:
        for row in session.exec(select(BrowserSessionRow).where(col(BrowserSessionRow.digest).in_(digests))):
            row.used_at = now


def _open(query: SelectOfScalar[BrowserSessionRow], now: datetime) -> SelectOfScalar[BrowserSessionRow]:
    """Those whose time is not over, and whose token lives."""
    longest, idle = now - timedelta(seconds=LONGEST_S), now - timedelta(seconds=IDLE_S)
    living = select(TokenRow.id).where(store.lives(now))
    return query.where(
        col(BrowserSessionRow.started_at) > longest,
        col(BrowserSessionRow.used_at) > idle,
        or_(col(BrowserSessionRow.person_id).is_not(None), col(BrowserSessionRow.token_id).in_(living)),
    )


def _holder(session: Session, row: BrowserSessionRow) -> tuple[str, str]:
    """The name and the number of the token or the person."""
    if row.person_id is not None:
        return session.get_one(PersonRow, row.person_id).name, f"person/{row.person_id}"
    return session.get_one(TokenRow, row.token_id).name, f"token/{row.token_id}"


def _view(session: Session, keyring: Keyring, row: BrowserSessionRow, asks: int | None) -> SessionView:
    assert row.id is not None
    if row.person_id is not None:
        person = session.get_one(PersonRow, row.person_id)
        name, scope = person.name, SCOPE_OF[Role(person.role)]
    else:
        token = session.get_one(TokenRow, row.token_id)
        name, scope = token.name, Scope(token.scope)
    return SessionView(
        id=row.id,
        name=name,
        person_id=row.person_id,
        token_id=row.token_id,
        scope=scope,
        address=None if row.address is None else keyring.decrypt(address_place(row.id), row.address),
        started_at=row.started_at,
        used_at=row.used_at,
        expires_at=row.started_at + timedelta(seconds=LONGEST_S),
        own=row.id == asks,
    )
