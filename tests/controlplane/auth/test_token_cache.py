"""Remembered tokens: no look into the database for each request, and never one that was revoked long ago."""

import asyncio
import gc
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from controlplane.auth import store as tokens
from controlplane.auth import token_cache
from controlplane.auth.token_cache import FRESH_S, STALE_S, TokenCache
from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import TokenExpired, Unauthenticated, Unavailable
from controlplane.db.database import Database
from tests.made_tables import create_tables

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(f"sqlite:///{tmp_path / 'tokens.db'}")
    create_tables(found)
    yield found
    found.close()


@pytest.fixture
def replica(database: Database) -> Iterator[Database]:
    """The same database as another replica has it open."""
    found = Database(database.url)
    yield found
    found.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(database: Database, clock: Clock) -> TokenCache:
    return TokenCache(database, clock)


def issue(database: Database, name: str) -> tuple[int, str]:
    with database.session() as session:
        view, token = tokens.issue(session, name=name, scope=Scope.AGENT, now=NOW, node=name)
    return view.id, f"Bearer {token}"


def revoke(database: Database, number: int) -> None:
    with database.session() as session:
        tokens.revoke(session, number, actor="t", now=NOW)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens that the database was asked for."""
    found: list[str] = []
    original = token_cache.authenticate_all

    def authenticate_all(database: Database, authorizations: Sequence[str]) -> object:
        found.extend(authorizations)
        return original(database, authorizations)

    monkeypatch.setattr(token_cache, "authenticate_all", authenticate_all)
    return found


def test_a_token_is_asked_for_once(database: Database, cache: TokenCache, clock: Clock, asked: list[str]) -> None:
    _, token = issue(database, "a")

    async def requests() -> None:
        for _ in range(5):
            principal = cache.known(token) or await cache.find(token)
            assert principal.node == "a" and principal.scope is Scope.AGENT
            clock.now += FRESH_S + 0.1

    asyncio.run(requests())
    assert asked == [token]


def test_a_token_that_another_replica_revoked_is_refused(
    database: Database, replica: Database, cache: TokenCache, clock: Clock
) -> None:
    number, token = issue(database, "a")

    async def requests() -> None:
        assert (await cache.find(token)).node == "a"
        revoke(replica, number)
        clock.now += 2.0 + 0.1  # Two seconds are promised.
        assert cache.known(token) is None
        with pytest.raises(Unauthenticated):
            await cache.find(token)

    asyncio.run(requests())


def test_a_token_that_ends_while_it_is_asked_for_is_not_remembered(
    database: Database, replica: Database, cache: TokenCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was good when it was read; another replica has revoked it since, and a look has seen that already."""
    number, token = issue(database, "a")
    original = token_cache.authenticate_all

    async def requests() -> None:
        loop = asyncio.get_running_loop()

        def read_then_revoke(database: Database, authorizations: Sequence[str]) -> object:
            found = original(database, authorizations)
            revoke(replica, number)
            asyncio.run_coroutine_threadsafe(cache._look_at_table(), loop).result(30)
            return found

        monkeypatch.setattr(token_cache, "authenticate_all", read_then_revoke)
        assert (await cache.find(token)).node == "a"
        monkeypatch.setattr(token_cache, "authenticate_all", original)
        cache._lookups.clear()
        with pytest.raises(Unauthenticated):
            await cache.find(token)

    asyncio.run(requests())


def test_a_remembered_token_ends_at_its_moment(database: Database, clock: Clock) -> None:
    ends, now = NOW + timedelta(days=1), [NOW]
    cache = TokenCache(database, clock, lambda: now[0])
    with database.session() as session:
        _, secret = tokens.issue(session, name="t", scope=Scope.READ, now=NOW, expires_at=ends)
    token = f"Bearer {secret}"

    async def requests() -> None:
        assert (await cache.find(token)).expires_at == ends and cache.known(token) is not None
        now[0] = ends
        with pytest.raises(TokenExpired):
            cache.known(token)
        with pytest.raises(TokenExpired):
            await cache.find(token)

    asyncio.run(requests())


def test_a_token_that_this_process_revoked_is_refused_at_once(database: Database, cache: TokenCache) -> None:
    number, token = issue(database, "a")
    _, other = issue(database, "b")

    async def requests() -> None:
        assert (await cache.find(token)).node == "a" and (await cache.find(other)).node == "b"
        with database.session() as session:
            tokens.revoke(session, number, actor="t", now=NOW)
            assert cache.known(token) is not None  # Not committed yet.
        assert cache.known(token) is None
        with pytest.raises(Unauthenticated):
            await cache.find(token)
        assert (await cache.find(other)).node == "b" and cache.known(other) is not None

    asyncio.run(requests())


def test_a_look_from_before_a_revocation_tells_nothing(
    database: Database, cache: TokenCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, token = issue(database, "a")
    original = token_cache._fingerprint

    def look_then_revoke(database: Database) -> token_cache.Fingerprint:
        found = original(database)
        revoke(database, number)
        return found

    async def requests() -> None:
        monkeypatch.setattr(token_cache, "_fingerprint", look_then_revoke)
        with pytest.raises(Unauthenticated):
            await cache.find(token)
        assert cache.known(token) is None

    asyncio.run(requests())


def test_a_revocation_that_is_rolled_back_was_none(database: Database, cache: TokenCache) -> None:
    number, token = issue(database, "a")

    async def requests() -> None:
        await cache.find(token)
        with pytest.raises(RuntimeError), database.session() as session:
            tokens.revoke(session, number, actor="t", now=NOW)
            raise RuntimeError
        assert cache.known(token) is not None

    asyncio.run(requests())


def test_between_fresh_and_stale_nobody_waits(
    database: Database, replica: Database, cache: TokenCache, clock: Clock
) -> None:
    number, token = issue(database, "a")

    async def requests() -> None:
        await cache.find(token)
        revoke(replica, number)
        clock.now += FRESH_S + 0.1
        assert cache.known(token) is not None  # It starts the look, and goes on with what is remembered.
        assert cache._look is not None
        await cache._look
        assert cache.known(token) is None

    asyncio.run(requests())


def test_a_new_token_leaves_the_others_known(
    database: Database, cache: TokenCache, clock: Clock, asked: list[str]
) -> None:
    _, first = issue(database, "a")

    async def requests() -> None:
        await cache.find(first)
        with pytest.raises(Unauthenticated):
            await cache.find("Bearer not-yet")
        with database.session() as session:
            tokens.issue(session, name="b", scope=Scope.AGENT, now=NOW, node="b", token="not-yet")
        with pytest.raises(Unauthenticated):
            cache.known("Bearer not-yet")  # Remembered as unknown, until the next look.
        clock.now += STALE_S + 0.1
        assert (await cache.find("Bearer not-yet")).node == "b"
        assert cache.known(first) is not None

    asyncio.run(requests())
    assert asked.count(first) == 1


def test_a_database_that_does_not_answer_lets_nobody_in(
    database: Database, cache: TokenCache, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = issue(database, "a")

    def fail(_: Database) -> token_cache.Fingerprint:
        raise OperationalError("SELECT", {}, Exception("gone"))

    async def requests() -> None:
        await cache.find(token)
        monkeypatch.setattr(token_cache, "_fingerprint", fail)
        clock.now += STALE_S + 0.1
        with pytest.raises(Unavailable):
            await cache.find(token)

    asyncio.run(requests())


def test_a_look_that_fails_with_nobody_waiting_is_no_error_of_the_loop(
    database: Database, cache: TokenCache, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = issue(database, "a")
    unheard: list[str] = []

    def fail(_: Database) -> token_cache.Fingerprint:
        raise OperationalError("SELECT", {}, Exception("gone"))

    async def requests() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unheard.append(told["message"]))
        await cache.find(token)
        monkeypatch.setattr(token_cache, "_fingerprint", fail)
        clock.now += FRESH_S + 0.1
        assert cache.known(token) is not None
        assert cache._look is not None
        await asyncio.wait([cache._look])
        cache._look = None
        gc.collect()

    asyncio.run(requests())
    assert unheard == []


def test_one_look_serves_all_who_wait(database: Database, cache: TokenCache, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [issue(database, name)[1] for name in "abc"]
    looks: list[int] = []
    original: Callable[[Database], token_cache.Fingerprint] = token_cache._fingerprint

    def look(database: Database) -> token_cache.Fingerprint:
        looks.append(1)
        return original(database)

    monkeypatch.setattr(token_cache, "_fingerprint", look)

    async def requests() -> list[str | None]:
        return [one.node for one in await asyncio.gather(*(cache.find(token) for token in found))]

    assert asyncio.run(requests()) == ["a", "b", "c"] and len(looks) == 1


def test_what_is_remembered_is_bounded(database: Database, cache: TokenCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "LIMIT", 3)
    issued = [issue(database, f"n{number}")[1] for number in range(10)]

    async def requests() -> None:
        for token in issued:
            await cache.find(token)
            assert 1 <= len(cache._found) <= 3

    asyncio.run(requests())


def test_made_up_tokens_take_no_room_from_those_that_are_known(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_cache, "REFUSED_LIMIT", 4)
    monkeypatch.setattr(token_cache, "LIMIT", 4)
    cache = TokenCache(database, clock)
    _, token = issue(database, "n1")

    async def ask() -> None:
        await cache.find(token)
        for number in range(20):
            with pytest.raises(Unauthenticated):
                await cache.find(f"Bearer made-up-{number}")
            assert len(cache._refused) <= 4
        assert cache.known(token) is not None
        with pytest.raises(Unauthenticated):
            cache.known("Bearer made-up-19")

    asyncio.run(ask())


def test_a_header_that_is_too_long_for_a_token_is_not_remembered(cache: TokenCache) -> None:
    with pytest.raises(Unauthenticated):
        asyncio.run(cache.find("Bearer " + "x" * token_cache.LONGEST))
    assert not cache._found and not cache._refused


def test_each_event_loop_has_looks_of_its_own(database: Database, cache: TokenCache, clock: Clock) -> None:
    _, token = issue(database, "a")
    other = asyncio.new_event_loop()
    try:
        cache._look = other.create_task(asyncio.sleep(3600))
        assert asyncio.run(cache.find(token)).node == "a"
        cache._look = None
        for task in asyncio.all_tasks(other):
            task.cancel()
        other.run_until_complete(asyncio.sleep(0))
    finally:
        other.close()


def test_no_token_is_named(cache: TokenCache) -> None:
    with pytest.raises(Unauthenticated, match="send 'Authorization"):
        asyncio.run(cache.find(""))
