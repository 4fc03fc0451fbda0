"""A browser's session: one per code, hashes at rest, both limits, and an end on the server."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlmodel import select

from controlplane.auth import browser_sessions, store
from controlplane.auth.browser_sessions import (
    CODE_S,
    IDLE_S,
    LONGEST_S,
    NOTED_S,
    authenticate_session,
    is_live,
    principals_of,
)
from controlplane.auth.tables import BrowserSessionRow, PersonRow, SignInCodeRow
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.people import Role
from controlplane.contract.errors import Unauthenticated
from controlplane.db.database import Database

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def issue(database: Database) -> int:
    with database.session() as session:
        return store.issue(session, name="t", scope=Scope.OPERATE, now=NOW)[0].id


def code_of(database: Database, token_id: int) -> str:
    with database.session() as session:
        return browser_sessions.make_code(session, token_id, NOW).code


def start(database: Database, code: str, now: datetime = NOW) -> str | None:
    with database.session() as session:
        started = browser_sessions.start(session, code, now)
    return None if started is None else started.secret


def scopes_of(database: Database, secrets: list[str], now: datetime) -> dict[str, Scope | None]:
    found = principals_of(database, secrets, now)
    return {secret: None if principal is None else principal.scope for secret, principal in found.items()}


def started(database: Database, token_id: int) -> str:
    secret = start(database, code_of(database, token_id))
    assert secret is not None
    return secret


def test_a_code_starts_one_session_within_its_time(database: Database) -> None:
    number = issue(database)
    code, late, last = code_of(database, number), code_of(database, number), code_of(database, number)
    assert start(database, code) is not None
    assert start(database, code) is None
    assert start(database, late, later(CODE_S)) is None
    assert start(database, last, later(CODE_S - 1)) is not None
    assert start(database, "unknown") is None


def test_a_session_and_a_code_end_with_their_token_s_time(database: Database) -> None:
    with database.session() as session:
        ends = later(30)
        number = store.issue(session, name="t", scope=Scope.READ, now=NOW, expires_at=ends)[0].id
    secret, waiting = started(database, number), code_of(database, number)
    assert authenticate_session(database, secret, later(29)).token_id == number
    with pytest.raises(Unauthenticated, match="has ended"):
        authenticate_session(database, secret, later(30))
    assert start(database, waiting, later(30)) is None


def test_a_session_speaks_as_its_token_until_that_is_revoked(database: Database) -> None:
    number = issue(database)
    secret, waiting = started(database, number), code_of(database, number)
    principal = authenticate_session(database, secret, NOW)
    assert (principal.name, principal.scope, principal.token_id) == ("t", Scope.OPERATE, number)
    assert principal.session_id is not None
    with database.session() as session:
        store.revoke(session, number, actor="t", now=NOW)
    assert start(database, waiting) is None
    with pytest.raises(Unauthenticated, match="has ended"):
        authenticate_session(database, secret, NOW)


def test_signing_out_ends_it_and_no_other(database: Database) -> None:
    number = issue(database)
    mine, other = started(database, number), started(database, number)
    session_id = authenticate_session(database, mine, NOW).session_id
    assert session_id is not None
    with database.session() as session:
        browser_sessions.end(session, session_id)
    with pytest.raises(Unauthenticated):
        authenticate_session(database, mine, NOW)
    assert authenticate_session(database, other, NOW).session_id != session_id


def test_use_puts_the_idle_end_off_but_not_the_last_one(database: Database) -> None:
    secret = started(database, issue(database))
    for used_s in range(0, LONGEST_S, IDLE_S - NOTED_S):
        authenticate_session(database, secret, later(used_s))
    with pytest.raises(Unauthenticated):
        authenticate_session(database, secret, later(LONGEST_S))
    idle = started(database, issue(database))
    with pytest.raises(Unauthenticated):
        authenticate_session(database, idle, later(IDLE_S))


def test_many_sessions_are_looked_up_at_once_each_with_what_it_may_do_now(database: Database) -> None:
    operates, revoked, idle = issue(database), issue(database), issue(database)
    mine, ended, left = started(database, operates), started(database, revoked), started(database, idle)
    with database.session() as session:
        person = PersonRow(
            issuer="i", digest="d", name="ann", role=Role.ADMIN.value, first_seen_at=NOW, signed_in_at=NOW
        )
        session.add(person)
        session.flush()
        anns = browser_sessions.begin(session, NOW, person_id=person.id).secret
        person_id = person.id
        store.revoke(session, revoked, actor="t", now=NOW)
    asked = [mine, ended, anns, "tailwright_session_" + "x" * 43]
    assert scopes_of(database, asked, NOW) == dict(zip(asked, [Scope.OPERATE, None, Scope.ADMIN, None], strict=True))
    with database.session() as session:
        session.get_one(PersonRow, person_id).role = Role.VIEWER.value
    for used_s in range(0, 2 * IDLE_S, IDLE_S // 2):  # To be looked up is to be used.
        assert scopes_of(database, [mine, anns], later(used_s)) == {mine: Scope.OPERATE, anns: Scope.READ}
    assert scopes_of(database, [left, mine], later(2 * IDLE_S)) == {left: None, mine: Scope.OPERATE}
    assert scopes_of(database, [], NOW) == {}


@pytest.mark.parametrize(
    ("started_s", "used_s", "lives"),
    [
        (0, 0, True),
        (1 - LONGEST_S, 0, True),
        (-LONGEST_S, 0, False),
        (1 - IDLE_S, 1 - IDLE_S, True),
        (-IDLE_S, -IDLE_S, False),
    ],
)
def test_each_limit_is_one_of_its_own(started_s: float, used_s: float, lives: bool) -> None:
    assert is_live(later(started_s), later(used_s), NOW) is lives


def test_at_rest_there_are_hashes_only_and_what_has_ended_goes(database: Database) -> None:
    number = issue(database)
    secret, code = started(database, number), code_of(database, number)
    with database.read_session() as session:
        kept = [*session.exec(select(BrowserSessionRow)), *session.exec(select(SignInCodeRow))]
    assert len(kept) == 2
    assert all(text not in str(row.model_dump()) for row in kept for text in (secret, code))
    with database.session() as session:
        fresh = browser_sessions.make_code(session, number, later(LONGEST_S)).code
    assert start(database, fresh, later(LONGEST_S)) is not None
    with database.read_session() as session:
        kept = [*session.exec(select(BrowserSessionRow)), *session.exec(select(SignInCodeRow))]
    assert len(kept) == 1


@pytest.mark.parametrize(
    ("header", "is_one"),
    [
        ("Bearer tailwright_session_" + "a" * 43, True),
        ("bearer  tailwright_session_" + "a" * 43, True),
        ("Bearer tailwright_session_" + "a" * 44, False),
        ("Bearer tailwright_" + "a" * 43, False),
        ("", False),
    ],
)
def test_a_session_and_a_token_are_told_apart_by_form(header: str, is_one: bool) -> None:
    assert (browser_sessions.secret_in(header) is not None) is is_one
