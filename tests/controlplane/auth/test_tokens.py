"""Tokens: hashed at rest, revocable, and scopes that imply only what they should."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.auth import Principal, revocations, store
from controlplane.auth.principal import authenticate, check_scope
from controlplane.auth.tables import TokenRow
from controlplane.auth.token import PREFIX, digest, new_token
from controlplane.contract.bodies.access import IMPLIED, Scope
from controlplane.contract.errors import Forbidden, NotFound, TokenExpired, Unauthenticated
from controlplane.db.database import Database
from tests.keyrings import keyring_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def issue(database: Database, scope: Scope = Scope.READ, node: str | None = None) -> tuple[int, str]:
    with database.session() as session:
        view, token = store.issue(session, name="t", scope=scope, now=NOW, node=node)
    return view.id, token


def test_a_token_is_long_and_its_hash_is_not_it() -> None:
    one, other = new_token(), new_token()
    assert one != other
    assert one.startswith(PREFIX)
    assert len(one) > 40
    assert one not in digest(one)


def test_a_live_token_authenticates_and_a_revoked_one_does_not(database: Database) -> None:
    number, token = issue(database, Scope.AGENT, "n1")
    assert authenticate(database, f"bearer {token} ", NOW) == Principal("t", Scope.AGENT, number, "n1")
    with database.session() as session:
        store.revoke(session, number, actor="t", now=NOW)
    with pytest.raises(Unauthenticated, match="unknown or revoked"):
        authenticate(database, f"Bearer {token}", NOW)


def test_a_token_ends_at_its_moment_and_not_before(database: Database) -> None:
    with database.session() as session:
        ends = NOW + timedelta(days=90)
        _, token = store.issue(session, name="t", scope=Scope.READ, now=NOW, expires_at=ends)
        _, lasting = store.issue(session, name="t", scope=Scope.READ, now=NOW)
    assert authenticate(database, f"Bearer {token}", ends - timedelta(microseconds=1)).expires_at == ends
    with pytest.raises(TokenExpired, match="has expired on 2026-04-01"):
        authenticate(database, f"Bearer {token}", ends)
    assert authenticate(database, f"Bearer {lasting}", NOW + timedelta(days=36500)).expires_at is None


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer  ", "Basic abc", "tailwright_abc", "Bearer wrong"])
def test_anything_else_is_refused(database: Database, header: str | None) -> None:
    with pytest.raises(Unauthenticated) as refused:
        authenticate(database, header, NOW)
    assert refused.value.detail["field"] == "Authorization"


def test_only_the_hash_is_stored(database: Database) -> None:
    number, token = issue(database)
    with database.read_session() as session:
        row = session.get_one(TokenRow, number)
        assert token not in str(row.model_dump())
        assert row.digest == digest(token)


def test_revoking_a_node_s_tokens_leaves_the_others(database: Database) -> None:
    _, mine = issue(database, Scope.AGENT, "n1")
    _, other = issue(database, Scope.AGENT, "n2")
    with database.session() as session:
        store.revoke_of_node(session, "n1", NOW)
        assert store.find(session, mine) is None
        assert store.was_issued(session, mine) and not store.was_issued(session, new_token())
        assert store.find(session, other) is not None


def test_whoever_remembers_tokens_hears_of_each_that_ended(database: Database) -> None:
    number, _ = issue(database)
    issue(database, Scope.AGENT, "n1")
    heard = [revocations.number(database.engine)]
    with database.session() as session:
        store.revoke(session, number, actor="t", now=NOW)
    heard.append(revocations.number(database.engine))
    with database.session() as session:
        store.revoke_of_node(session, "n1", NOW)
    heard.append(revocations.number(database.engine))
    with database.session() as session:
        store.revoke_of_node(session, "n1", NOW)
    heard.append(revocations.number(database.engine))
    assert heard[0] < heard[1] < heard[2] == heard[3]


def test_revoking_what_is_not_there_is_named(database: Database) -> None:
    with pytest.raises(NotFound, match="no token 7"), database.session() as session:
        store.revoke(session, 7, actor="t", now=NOW)


def test_the_workload_key_is_made_once(database: Database) -> None:
    keyring = keyring_of(database)
    with database.session() as session:
        first = store.workload_key(session, keyring)
    assert len(bytes.fromhex(first)) == 16 and any(bytes.fromhex(first))
    with database.session() as session:
        assert store.workload_key(session, keyring) == first


@given(st.sampled_from(Scope), st.sampled_from(Scope))
def test_scopes_allow_what_they_imply(held: Scope, wanted: Scope) -> None:
    principal = Principal("t", held, 1)
    if wanted in IMPLIED[held]:
        check_scope(principal, wanted)
    else:
        with pytest.raises(Forbidden, match=f"needs scope {wanted.value}"):
            check_scope(principal, wanted)
