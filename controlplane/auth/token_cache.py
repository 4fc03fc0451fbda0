"""Who a bearer token is, without a look into the database for each request.

Guarantee: a token that was revoked, on whichever replica, is refused at most `STALE_S` later: what is remembered is
used only while a look at the token table (its numbers of rows and of revoked ones), at most that old, has found no
change. One that this process itself revoked is refused from then on, one that expires from its last moment on. A
database that does not answer makes requests wait for it and fail (`Unavailable`), never pass unchecked.

For the event loop: nothing here takes a lock.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

from cachetools import FIFOCache, LRUCache
from sqlalchemy import func
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col, select

from controlplane.auth import revocations
from controlplane.auth.node_certificate import NodeCertificates
from controlplane.auth.principal import Principal, authenticate_all, check_time
from controlplane.auth.tables import TokenRow
from controlplane.auth.token_uses import TokenUses
from controlplane.auth.turned_away import TurnedAway
from controlplane.auth.watch.security_log import SecurityLog
from controlplane.contract.clock import Clock, utc_now
from controlplane.contract.errors import Unauthenticated, Unavailable
from controlplane.db.database import Database
from controlplane.db.request_parts import Parts
from controlplane.keys import Keyring
from controlplane.serving.joint_lookup import JointLookup

FRESH_S = 1.0
STALE_S = 2.0
"""Between the two, requests go on with what is remembered while one look is under way."""
LIMIT, REFUSED_LIMIT = 50_000, 4_096
"""Tokens that are remembered, and headers that are nobody's: those are for whoever asks to make up, and take no room
from the others."""
LONGEST = 512
"""Longer headers are nobody's token; they are asked for each time, so that what is remembered stays small."""


class Fingerprint(NamedTuple):
    """Of the token table. Rows are only ever added and revoked."""

    tokens: int
    newest: int
    revoked: int


class TokenCache:
    """`known` first; `find` where it does not know."""

    def __init__(
        self, database: Database, monotonic: Callable[[], float] = time.monotonic, clock: Clock = utc_now
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._clock = clock
        self._found: dict[str, Principal] = {}
        self._refused: FIFOCache[str, str] = FIFOCache(REFUSED_LIMIT)  # Why.
        self._fingerprint: Fingerprint | None = None
        self._looked_at = -STALE_S
        self._revocations = -1
        self._look: asyncio.Task[None] | None = None
        self._lookups: WeakKeyDictionary[asyncio.AbstractEventLoop, JointLookup[Principal | str]] = WeakKeyDictionary()

    def known(self, authorization: str) -> Principal | None:
        """The principal behind an Authorization header, if it is remembered and may be trusted. Raises if refused."""
        if self._revocations != revocations.number(self._database.engine):
            return None
        age = self._monotonic() - self._looked_at
        if age > FRESH_S:
            if age > STALE_S:
                return None
            self._start_look()
        found = self._found.get(authorization) or self._refused.get(authorization)
        return None if found is None else self._let_in(found)

    async def find(self, authorization: str) -> Principal:
        """As `known`, asking the database where needed. Raises `Unauthenticated`, `Unavailable`."""
        revoked = revocations.number(self._database.engine)
        if self._monotonic() - self._looked_at > FRESH_S or self._revocations != revoked:
            await asyncio.shield(self._start_look())
        found = self.known(authorization)
        if found is not None:
            return found
        before, revoked = self._fingerprint, revocations.number(self._database.engine)
        asked = await self._ask(authorization)
        unchanged = self._fingerprint == before and revocations.number(self._database.engine) == revoked
        if unchanged and len(authorization) <= LONGEST:
            self._remember(authorization, asked)
        return self._let_in(asked)

    def _remember(self, authorization: str, asked: Principal | str) -> None:
        if isinstance(asked, str):
            self._refused[authorization] = asked
            return
        if len(self._found) >= LIMIT:
            self._found.clear()
        self._found[authorization] = asked

    def _let_in(self, found: Principal | str) -> Principal:
        """Raises `Unauthenticated` for one that was refused, or whose time is over."""
        if isinstance(found, str):
            raise Unauthenticated(found, field="Authorization")
        if found.expires_at is not None:
            check_time(found.expires_at, self._clock())
        return found

    async def _ask(self, authorization: str) -> Principal | str:
        try:
            return await self._lookup().find(authorization)
        except SQLAlchemyError as error:
            raise Unavailable("the database does not answer; try again later") from error

    def _lookup(self) -> JointLookup[Principal | str]:
        """The running loop's own."""
        loop = asyncio.get_running_loop()
        if loop not in self._lookups:
            self._lookups[loop] = JointLookup(partial(authenticate_all, self._database))
        return self._lookups[loop]

    def _start_look(self) -> "asyncio.Task[None]":
        loop = asyncio.get_running_loop()
        # Another loop's task cannot be waited for: an application that is called from several has a look in each.
        if self._look is None or self._look.done() or self._look.get_loop() is not loop:
            self._look = loop.create_task(self._look_at_table(), name="token-table")
            self._look.add_done_callback(_retrieved)
        return self._look

    async def _look_at_table(self) -> None:
        began, revoked = self._monotonic(), revocations.number(self._database.engine)
        try:
            now = await asyncio.to_thread(_fingerprint, self._database)
        except SQLAlchemyError as error:
            raise Unavailable("the database does not answer; try again later") from error
        before = self._fingerprint
        if before is None or (now.tokens, now.revoked) != (before.tokens, before.revoked):
            added = 0 if before is None else now.newest - before.newest
            if before is None or now.revoked != before.revoked or now.tokens != before.tokens + added:
                self._found.clear()
            # New tokens change nothing for those that are known; one that was unknown may be known now.
            self._refused.clear()
        self._fingerprint = now
        self._looked_at = began
        self._revocations = revoked


class PageReaders:
    """Whose the sessions are that pages were last looked up for, by their secrets. Thread-safe."""

    def __init__(self) -> None:
        self._known: LRUCache[str, Principal] = LRUCache(REFUSED_LIMIT)
        self._lock = threading.Lock()

    def put(self, found: Mapping[str, Principal | None]) -> None:
        with self._lock:
            self._known.update({secret: principal for secret, principal in found.items() if principal is not None})

    def get(self, secret: str) -> Principal | None:
        with self._lock:
            return self._known.get(secret)


@dataclass(frozen=True, kw_only=True)
class AuthParts(Parts):
    """What a guarded route is served with."""

    tokens: TokenCache
    keyring: Keyring
    token_uses: TokenUses = field(default_factory=TokenUses)
    node_certificates: NodeCertificates = field(default_factory=NodeCertificates)
    page_readers: PageReaders = field(default_factory=PageReaders)
    security_log: SecurityLog = field(default_factory=SecurityLog)
    turned_away: TurnedAway = field(default_factory=TurnedAway)


def _fingerprint(database: Database) -> Fingerprint:
    with database.read_session() as session:
        row = session.exec(
            select(func.count(), func.max(TokenRow.id), func.count(col(TokenRow.revoked_at))).select_from(TokenRow)
        ).one()
    tokens, newest, revoked = row
    return Fingerprint(tokens, newest or 0, revoked)


def _retrieved(look: "asyncio.Task[None]") -> None:
    """Nobody may be waiting for it; those who come later look again."""
    if not look.cancelled():
        look.exception()
