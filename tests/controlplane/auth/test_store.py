"""The table of tokens: what is shown of them, in which order, and what a revocation leaves."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane import ledger
from controlplane.auth import enrolment_rules, revocations, store
from controlplane.auth.token import digest, new_token
from controlplane.contract.bodies.access import EXPIRES_IN_DAYS, EnrolmentRules, Scope, TokenCreate, TokenCreated
from controlplane.contract.errors import BadRequest
from controlplane.db.database import Database
from controlplane.ledger import Actor
from tests.keyrings import keyring_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
RULES = EnrolmentRules(uses=2, pools=["chat"])


def create(database: Database, actor: str = "admin", **wanted: object) -> TokenCreated:
    asked = TokenCreate.model_validate({"name": "ci", "scope": Scope.READ, **wanted})
    with database.session() as session:
        return store.create(session, asked, actor=actor, now=NOW)


def told(database: Database, number: int) -> list[tuple[str, str, str, dict[str, object]]]:
    """What the ledger says of a token, the newest first."""
    with database.session() as session:
        found = ledger.entries(session, before_id=None, limit=9, subject=f"token/{number}")
    return [(entry.kind, entry.actor, entry.message, entry.evidence) for entry in found]


def test_a_wanted_token_is_made_with_its_end_its_owner_and_a_line_in_the_ledger(database: Database) -> None:
    made, ends = create(database), NOW + timedelta(days=EXPIRES_IN_DAYS)
    assert (made.name, made.scope, made.owner, made.created_at, made.expires_at) == (
        *("ci", Scope.READ, "admin", NOW),
        ends,
    )
    assert told(database, made.id) == [
        ("token.created", "admin", "token 'ci' with scope read", {"owner": "admin", "expires_at": ends.isoformat()})
    ]
    with database.session() as session:
        assert store.find(session, made.token) == store.get(session, made.id) is not None
        assert enrolment_rules.of(session, made.id) is None


def test_an_end_that_is_wanted_lies_after_now(database: Database) -> None:
    assert create(database, expires_at=NOW + timedelta(seconds=1)).expires_at == NOW + timedelta(seconds=1)
    for late in (NOW, NOW - timedelta(seconds=1)):
        with pytest.raises(BadRequest, match="expires_at: lies in the past"):
            create(database, expires_at=late)


def test_rules_of_enrolment_are_kept_and_shown_and_are_for_tokens_that_enrol(database: Database) -> None:
    made = create(database, scope=Scope.ENROL, enrolment=RULES)
    free = create(database, scope=Scope.ENROL)
    assert made.enrolment == RULES and free.enrolment is None
    (_, _, _, evidence), *others = told(database, made.id)
    assert not others and evidence["enrolment"] == {"uses": 2, "pools": ["chat"]}
    with database.session() as session:
        known = store.get(session, made.id)
        listed = store.listing(session, before_id=None, limit=9)
    assert known is not None and known.enrolment == RULES
    assert [(view.id, view.enrolment) for view in listed] == [(free.id, None), (made.id, RULES)]
    with pytest.raises(BadRequest, match="enrolment: is for tokens of scope enrol, this is admin"):
        create(database, scope=Scope.ADMIN, enrolment=RULES)


@pytest.mark.parametrize("name", ["tailwright", "Agent  n1"])
def test_a_name_that_the_ledger_has_for_others_makes_no_token(database: Database, name: str) -> None:
    with pytest.raises(BadRequest, match="own in the ledger"):
        create(database, name=name)
    with database.session() as session:
        assert store.listing(session, before_id=None, limit=9) == []


def test_a_token_knows_by_which_it_was_made_and_that_by_which(database: Database) -> None:
    first = create(database)
    second = create(database, Actor("ci", first.id))
    third = create(database, Actor("ci", second.id))
    person = create(database, Actor("ann", None, 7))
    with database.session() as session:
        made_from = [store.made_from(session, one.id) for one in (first, second, third, person)]
        assert store.made_from(session, 4711) == []
    assert made_from == [[], [first.id], [second.id, first.id], []]


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


def test_a_revocation_is_written_down_with_who_made_it(database: Database) -> None:
    made = create(database)
    with database.session() as session:
        store.revoke(session, made.id, actor="eve", now=LATER)
    assert told(database, made.id)[0] == ("token.revoked", "eve", "token 'ci' revoked", {})


def test_a_secret_is_of_the_node_whose_live_token_it_is(database: Database) -> None:
    with database.session() as session:
        mine, theirs = (
            store.issue(session, name=node, scope=Scope.AGENT, now=NOW, node=node)[1] for node in ("n1", "n2")
        )
        assert store.is_of_node(session, "n1", mine) and not store.is_of_node(session, "n1", theirs)
        assert not store.is_of_node(session, "n3", mine)
        store.revoke_of_node(session, "n1", LATER)
        assert not store.is_of_node(session, "n1", mine) and store.is_of_node(session, "n2", theirs)


def test_tokens_that_a_restored_backup_has_alive_again_end_again(database: Database) -> None:
    ended, lives, gone = create(database, name="ended"), create(database, name="lives"), create(database, name="gone")
    with database.session() as session:
        store.revoke(session, gone.id, actor="admin", now=NOW)
    with database.session() as session:
        assert store.revoked(session) == {digest(gone.token): NOW}
    before = revocations.number(database.engine)
    elsewhere = {digest(one.token): NOW + timedelta(minutes=5) for one in (ended, gone)}
    with database.session() as session:
        assert store.revoke_again(session, elsewhere, LATER) == ["ended"]
        views = {view.name: view.revoked_at for view in store.listing(session, before_id=None, limit=9)}
    assert views == {"ended": NOW + timedelta(minutes=5), "lives": None, "gone": NOW}
    assert told(database, ended.id)[0][:3] == (
        *("token.revoked", ledger.SERVICE),
        "token 'ended' stays revoked after a backup was restored",
    )
    assert [len(told(database, one.id)) for one in (ended, lives, gone)] == [2, 1, 2]
    assert revocations.number(database.engine) > before, "whoever remembers tokens hears of it"


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


def test_the_key_of_people_is_256_bits_made_once_and_no_other_key(database: Database) -> None:
    keyring = keyring_of(database)
    with database.session() as session:
        key, other = store.person_key(session, keyring), store.workload_key(session, keyring)
    assert len(bytes.fromhex(key)) == 32 and not key.startswith(other)
    with database.session() as session:
        assert store.person_key(session, keyring) == key
