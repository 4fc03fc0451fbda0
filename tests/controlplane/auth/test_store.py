"""The table of tokens: what is shown of them, in which order, and what a revocation leaves."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.auth import store
from controlplane.auth.token import new_token
from controlplane.contract.bodies.access import Scope
from controlplane.db.database import Database
from tests.keyrings import keyring_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def test_a_given_token_is_registered_and_a_missing_one_made(database: Database) -> None:
    given = new_token()
    with database.session() as session:
        view, token = store.issue(session, name="a", scope=Scope.READ, now=NOW, token=given)
        other, made = store.issue(session, name="b", scope=Scope.AGENT, now=NOW, node="n1")
    assert token == given != made
    assert (view.name, view.scope, view.node, view.created_at, view.revoked_at) == ("a", Scope.READ, None, NOW, None)
    assert (other.scope, other.node) == (Scope.AGENT, "n1")
    with database.read_session() as session:
        assert store.find(session, given) == view
        assert store.find_all(session, [given, made, new_token()]) == {given: view, made: other}


@pytest.mark.slow
def test_more_tokens_are_found_at_once_than_one_statement_may_ask_for(database: Database) -> None:
    with database.session() as session:
        issued = [store.issue(session, name=f"{n}", scope=Scope.READ, now=NOW) for n in range(2 * store.CHUNK + 1)]
        store.revoke(session, issued[0][0].id, actor="admin", now=NOW)
    with database.read_session() as session:
        found = store.find_all(session, [token for _, token in issued])
    assert found == {token: view for view, token in issued[1:]}


def test_the_listing_is_newest_first_a_page_at_a_time_with_the_revoked(database: Database) -> None:
    with database.session() as session:
        numbers = [store.issue(session, name=f"t{n}", scope=Scope.READ, now=NOW)[0].id for n in range(5)]
        store.revoke(session, numbers[3], actor="admin", now=LATER)
        first = store.listing(session, before_id=None, limit=2)
        rest = store.listing(session, before_id=first[-1].id, limit=9)
    assert [view.name for view in first] == ["t4", "t3"]
    assert [view.revoked_at for view in first] == [None, LATER]
    assert [view.name for view in rest] == ["t2", "t1", "t0"]


def test_a_second_revocation_keeps_the_time_of_the_first(database: Database) -> None:
    with database.session() as session:
        number = store.issue(session, name="t", scope=Scope.READ, now=NOW)[0].id
        store.revoke(session, number, actor="admin", now=NOW)
        ended = store.get(session, number)
        store.revoke(session, number, actor="admin", now=LATER)
        assert store.get(session, number) == ended
    assert ended is not None and (ended.id, ended.name, ended.revoked_at) == (number, "t", NOW)


def test_a_node_s_revoked_tokens_stay_so_in_the_next_transaction(database: Database) -> None:
    with database.session() as session:
        _, token = store.issue(session, name="n1", scope=Scope.AGENT, now=NOW, node="n1")
    with database.session() as session:
        store.revoke_of_node(session, "n1", NOW)
    with database.session() as session:
        store.revoke_of_node(session, "n1", LATER)
        assert store.find(session, token) is None
        assert [view.revoked_at for view in store.listing(session, before_id=None, limit=9)] == [NOW]


def test_whether_a_scope_has_a_live_token(database: Database) -> None:
    with database.session() as session:
        number = store.issue(session, name="t", scope=Scope.OPERATE, now=NOW)[0].id
        assert store.any_of_scope(session, Scope.OPERATE, NOW) is True
        assert store.any_of_scope(session, Scope.ADMIN, NOW) is False
        store.revoke(session, number, actor="admin", now=NOW)
        assert store.any_of_scope(session, Scope.OPERATE, NOW) is False


def test_a_token_that_has_expired_is_no_live_one(database: Database) -> None:
    with database.session() as session:
        store.issue(session, name="t", scope=Scope.ADMIN, now=NOW, expires_at=LATER)
        assert store.any_of_scope(session, Scope.ADMIN, NOW) is True
        assert store.any_of_scope(session, Scope.ADMIN, LATER) is False


def test_uses_are_written_to_the_tokens_that_were_used(database: Database) -> None:
    with database.session() as session:
        numbers = [store.issue(session, name=f"t{n}", scope=Scope.READ, now=NOW)[0].id for n in range(store.CHUNK + 2)]
        store.note_uses(session, numbers[1:], LATER)
    with database.read_session() as session:
        used = [view.last_used_at for view in store.listing(session, before_id=None, limit=len(numbers))]
    assert used == [LATER] * (len(numbers) - 1) + [None]


def test_the_workload_key_is_128_bits_in_hexadecimal(database: Database) -> None:
    keyring = keyring_of(database)
    with database.session() as session:
        key = store.workload_key(session, keyring)
    assert len(bytes.fromhex(key)) == 16
