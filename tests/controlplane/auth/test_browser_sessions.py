"""A browser's session: one per code, hashes at rest, both limits, and an end on the server."""

import logging
from datetime import UTC, datetime, timedelta

import pytest
from sqlmodel import select

from controlplane.auth import browser_sessions, store
from controlplane.auth.browser_address import SeenFrom
from controlplane.auth.browser_sessions import (
    CODE_S,
    IDLE_S,
    LONGEST_S,
    NOTED_S,
    authenticate_session,
    is_live,
    principals_of,
)
from controlplane.auth.principal import Principal
from controlplane.auth.tables import BrowserSessionRow, PersonRow, SignInCodeRow
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.people import Role, SessionView
from controlplane.contract.errors import NotFound, Unauthenticated, Unavailable
from controlplane.db.database import Database
from tests.keyrings import keyring_of

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


def person(database: Database, name: str = "ann", role: Role = Role.ADMIN) -> int:
    with database.session() as session:
        row = PersonRow(issuer="i", digest=name, name=name, role=role.value, first_seen_at=NOW, signed_in_at=NOW)
        session.add(row)
        session.flush()
        assert row.id is not None
        return row.id


def begun(database: Database, now: datetime = NOW, address: str | None = None, **holder: int) -> int:
    """The number of a new session."""
    seen = None if address is None else SeenFrom(keyring_of(database), address)
    with database.session() as session:
        secret = browser_sessions.begin(session, now, seen=seen, **holder).secret
    number = authenticate_session(database, secret, now).session_id
    assert number is not None
    return number


def listed(
    database: Database,
    now: datetime = NOW,
    *,
    limit: int = 99,
    before: int | None = None,
    asks: int | None = None,
    of: Principal | None = None,
) -> list[SessionView]:
    with database.read_session() as session:
        return browser_sessions.listing(
            session, keyring_of(database), now, before_id=before, limit=limit, of=of, asks=asks
        )


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
    person_id = person(database)
    with database.session() as session:
        anns = browser_sessions.begin(session, NOW, person_id=person_id).secret
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


def test_a_session_lasts_half_a_day_at_most_half_an_hour_unused_and_a_code_a_minute(database: Database) -> None:
    half_a_day, half_an_hour, moment = timedelta(hours=12), timedelta(minutes=30), timedelta(microseconds=1)
    assert is_live(NOW, NOW + half_a_day - moment, NOW + half_a_day - moment)
    assert not is_live(NOW, NOW + half_a_day, NOW + half_a_day)
    assert is_live(NOW, NOW, NOW + half_an_hour - moment) and not is_live(NOW, NOW, NOW + half_an_hour)
    number = issue(database)
    assert start(database, code_of(database, number), NOW + timedelta(minutes=1) - moment) is not None
    assert start(database, code_of(database, number), NOW + timedelta(minutes=1)) is None


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


def test_open_sessions_are_listed_newest_first_with_whose_they_are_and_where_from(database: Database) -> None:
    token_id, person_id = issue(database), person(database)
    first = begun(database, later(1), "10.0.0.9", token_id=token_id)
    second = begun(database, later(2), "10.0.0.8", person_id=person_id)
    third = begun(database, later(3), token_id=token_id)
    found = listed(database, later(4), asks=second)
    assert [(one.id, one.own, one.address) for one in found] == [
        (third, False, None),
        (second, True, "10.0.0.8"),
        (first, False, "10.0.0.9"),
    ]
    mine, anns = found[2], found[1]
    assert (mine.name, mine.token_id, mine.person_id, mine.scope) == ("t", token_id, None, Scope.OPERATE)
    assert (anns.name, anns.token_id, anns.person_id, anns.scope) == ("ann", None, person_id, Scope.ADMIN)
    assert (mine.started_at, mine.used_at, mine.expires_at) == (later(1), later(1), later(1 + LONGEST_S))
    assert [one.id for one in listed(database, limit=2)] == [third, second]
    assert [one.id for one in listed(database, before=second)] == [first]


def test_whoever_is_no_admin_sees_sessions_of_the_same_token_or_person(database: Database) -> None:
    token_id, other_id, person_id = issue(database), issue(database), person(database)
    mine = begun(database, token_id=token_id)
    others = [begun(database, token_id=other_id), begun(database, person_id=person(database, "bob"))]
    anns = begun(database, person_id=person_id)
    token = Principal("t", Scope.OPERATE, token_id)
    ann = Principal("ann", Scope.READ, None, session_id=anns, person_id=person_id)
    assert [one.id for one in listed(database, of=token)] == [mine]
    assert [one.id for one in listed(database, of=ann)] == [anns]
    with database.read_session() as session:
        seen = browser_sessions.view(session, keyring_of(database), mine, NOW, of=token, asks=mine)
        assert (seen.id, seen.own) == (mine, True)
        assert browser_sessions.view(session, keyring_of(database), mine, NOW, of=None, asks=anns).id == mine
        for number, of in ((others[0], token), (4711, None), (mine, ann)):
            with pytest.raises(NotFound, match=f"no open session {number}") as missing:
                browser_sessions.view(session, keyring_of(database), number, NOW, of=of, asks=None)
            assert missing.value.detail["field"] == "session_id"


def test_a_session_that_has_ended_is_not_listed_and_not_counted(database: Database) -> None:
    token_id, person_id = issue(database), person(database)
    begun(database, token_id=token_id)
    numbers = [begun(database, person_id=person_id) for _ in range(2)]

    def opened(seconds: float) -> tuple[int, int]:
        with database.read_session() as session:
            count = browser_sessions.number_open(session, person_id, later(seconds))
        return len(listed(database, later(seconds))), count

    assert opened(IDLE_S - 1) == (3, 2) and opened(IDLE_S) == (0, 0)
    with database.session() as session:
        for row in session.exec(select(BrowserSessionRow)):
            row.used_at = later(LONGEST_S)
    assert opened(LONGEST_S - 1) == (3, 2) and opened(LONGEST_S) == (0, 0)
    with database.session() as session:
        store.revoke(session, token_id, actor="t", now=NOW)
        browser_sessions.end(session, numbers[0])
    assert opened(LONGEST_S - 1) == (1, 1)


def test_ending_all_leaves_neither_sessions_nor_codes(database: Database) -> None:
    number = issue(database)
    secret, waiting = started(database, number), code_of(database, number)
    with database.session() as session:
        browser_sessions.end_all(session)
    assert scopes_of(database, [secret], NOW) == {secret: None}
    assert start(database, waiting) is None


def test_the_log_is_told_of_a_session_once_it_is_committed(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    token_id, person_id = issue(database), person(database)
    with database.session() as session:
        browser_sessions.begin(session, NOW, person_id=person_id, seen=SeenFrom(keyring_of(database), "10.0.0.9"))
        assert not [line for line in caplog.messages if "session begun" in line]
    begun(database, token_id=token_id)
    assert [line for line in caplog.messages if "session begun" in line] == [
        f"session begun: actor='ann' holder=person/{person_id} session=1 address=10.0.0.9",
        f"session begun: actor='t' holder=token/{token_id} session=2 address=unknown",
    ]


def test_a_use_is_written_down_once_a_minute(database: Database) -> None:
    secret = started(database, issue(database))
    noted = []
    for used_s in (NOTED_S - 1, NOTED_S, NOTED_S + 1, 2 * NOTED_S):
        authenticate_session(database, secret, later(used_s))
        noted.append(listed(database, later(used_s))[0].used_at)
    assert noted == [NOW, later(NOTED_S), later(NOTED_S), later(2 * NOTED_S)]


def test_a_database_that_does_not_answer_says_nothing_of_a_session(database: Database) -> None:
    secret = started(database, issue(database))
    with database.session() as session:
        session.connection().exec_driver_sql("DROP TABLE browser_session")
    with pytest.raises(Unavailable, match="does not answer"):
        authenticate_session(database, secret, NOW)


def test_a_code_has_its_end_and_its_form(database: Database) -> None:
    number = issue(database)
    with database.session() as session:
        made = browser_sessions.make_code(session, number, NOW)
    assert made.expires_at == later(CODE_S)
    assert browser_sessions.has_code_form(made.code) and not browser_sessions.has_code_form(made.code + "x")
    with database.session() as session:
        ends = browser_sessions.start(session, made.code, later(1))
    assert ends is not None and ends.expires_at == later(1 + LONGEST_S)
