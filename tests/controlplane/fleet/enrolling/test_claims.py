"""Who gets a node's name: what tokens may register, nodes that are heard from, claims and releases."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane import ledger
from controlplane.auth import Principal
from controlplane.auth import store as tokens
from controlplane.contract.bodies.access import EnrolmentRequest, EnrolmentRules, Scope, TokenCreate
from controlplane.contract.errors import BadRequest, Forbidden, NodeIsLive
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.fleet.enrolling import claims

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def wanted(node: str = "gpu-1", pool: str = "chat", **more: Any) -> EnrolmentRequest:
    return EnrolmentRequest(node=node, pool=pool, backend="embedded", **more)


def holder(database: Database, scope: Scope = Scope.ENROL, **more: Any) -> Principal:
    """Of a new token with this scope."""
    with database.session() as session:
        creation = TokenCreate(name="somebody", scope=scope, **more)
        made = tokens.create(session, creation, actor="me", now=NOW - timedelta(days=1))
    return Principal(made.name, made.scope, made.id)


def enrol(database: Database, principal: Principal, request: EnrolmentRequest, now: datetime = NOW) -> str:
    """As the endpoint does it: what was refused is raised once the transaction is committed."""
    with database.session() as session:
        outcome = claims.enrol(session, request, principal, origin="10.0.0.9", now=now)
    if outcome.refused is not None:
        raise outcome.refused
    return outcome.token


def heard(database: Database, node: str = "gpu-1", at: datetime = NOW, **values: Any) -> None:
    with database.session() as session:
        row = fleet.row_of(session, node)
        session.add(row.sqlmodel_update({"connected": True, "last_seen": at, **values}))


def is_live(database: Database, token: str) -> bool:
    with database.read_session() as session:
        return tokens.find(session, token) is not None


def test_rules_are_kept_with_the_token_and_only_with_one_that_enrols(database: Database) -> None:
    rules = EnrolmentRules(uses=2, pools=["chat"], roles=["serving"], nodes="gpu-*")
    principal = holder(database, enrolment=rules, expires_at=NOW + timedelta(days=1))
    with database.read_session() as session:
        found = tokens.get(session, principal.token_id)
        listed = tokens.listing(session, before_id=None, limit=1)
    assert found is not None and found.enrolment == rules and found.expires_at == NOW + timedelta(days=1)
    assert listed == [found]
    with pytest.raises(BadRequest, match="enrolment: is for tokens of scope enrol"):
        holder(database, Scope.READ, enrolment=rules)
    with pytest.raises(BadRequest, match="expires_at: lies in the past"):
        holder(database, expires_at=NOW - timedelta(days=2))


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (wanted(pool="other"), "pool: this token registers nodes in chat, not in 'other'"),
        (wanted(role="trial"), "role: this token registers serving nodes, not trial ones"),
        (wanted("cpu-1"), "node: this token registers nodes named like 'gpu-*', not 'cpu-1'"),
    ],
)
def test_what_the_rules_do_not_allow_is_refused_and_costs_no_use(
    database: Database, request_: EnrolmentRequest, why: str
) -> None:
    principal = holder(database, enrolment=EnrolmentRules(uses=1, pools=["chat"], roles=["serving"], nodes="gpu-*"))
    with pytest.raises(Forbidden, match=why.replace("*", r"\*")):
        enrol(database, principal, request_)
    assert enrol(database, principal, wanted())


def test_uses_come_to_an_end_also_for_those_who_come_at_once(database: Database) -> None:
    principal = holder(database, enrolment=EnrolmentRules(uses=3))

    def one(number: int) -> bool:
        try:
            return bool(enrol(database, principal, wanted(f"gpu-{number}")))
        except Forbidden as error:
            assert "used up" in error.message
            return False

    with ThreadPoolExecutor(6) as workers:
        assert sum(workers.map(one, range(8))) == 3
    with database.read_session() as session:
        assert len(fleet.nodes(session)) == 3
        found = tokens.get(session, principal.token_id)
    assert found is not None and found.enrolment is not None and found.enrolment.uses == 0


def test_a_node_that_is_heard_from_is_not_taken(database: Database) -> None:
    principal = holder(database)
    first = enrol(database, principal, wanted())
    heard(database)
    with pytest.raises(NodeIsLive, match="'gpu-1' is heard from") as refused:
        enrol(database, principal, wanted(), NOW + timedelta(seconds=1))
    assert refused.value.status == 409
    assert is_live(database, first), "the node keeps its token"
    with database.read_session() as session:
        view = fleet.node(session, "gpu-1")
        (entry,) = ledger.entries(session, before_id=None, limit=9, kind=claims.CLAIMED)
    assert view.claimed_at == NOW + timedelta(seconds=1)
    assert view.claimed_by == "an agent at 10.0.0.9, with token 'somebody'"
    assert entry.subject == "node/gpu-1" and "two agents claim node gpu-1" in entry.message


def test_a_claim_that_goes_on_is_one_entry_a_minute(database: Database) -> None:
    principal = holder(database)
    enrol(database, principal, wanted())
    for second in range(0, 180, 5):
        heard(database, at=NOW + timedelta(seconds=second))
        with pytest.raises(NodeIsLive):
            enrol(database, principal, wanted(), NOW + timedelta(seconds=second))
    with database.read_session() as session:
        told = ledger.entries(session, before_id=None, limit=99, kind=claims.CLAIMED)
    assert len(told) == 1, "it never ceased for a minute"


def test_the_own_token_an_administrator_and_a_release_open_a_live_node(database: Database) -> None:
    principal, admin = holder(database), holder(database, Scope.ADMIN)
    first = enrol(database, principal, wanted())
    heard(database)
    second = enrol(database, principal, wanted(old_token=first))
    assert not is_live(database, first) and is_live(database, second)
    with pytest.raises(NodeIsLive):
        enrol(database, principal, wanted(old_token=first))
    third = enrol(database, admin, wanted())
    assert not is_live(database, second)
    with database.session() as session:
        shown = claims.release(session, "gpu-1", actor=admin.actor, now=NOW)
    assert shown.released_until == NOW + timedelta(seconds=claims.RELEASED_FOR_S)
    with pytest.raises(NodeIsLive):
        late = NOW + timedelta(seconds=claims.RELEASED_FOR_S + 1)
        heard(database, at=late)
        enrol(database, principal, wanted(), late)
    assert enrol(database, principal, wanted())
    assert not is_live(database, third)
    heard(database)
    with pytest.raises(NodeIsLive):
        enrol(database, principal, wanted())  # A release is for one.


def test_anothers_token_is_not_the_nodes_own(database: Database) -> None:
    principal = holder(database)
    enrol(database, principal, wanted("gpu-1"))
    other = enrol(database, principal, wanted("gpu-2"))
    heard(database)
    with pytest.raises(NodeIsLive):
        enrol(database, principal, wanted("gpu-1", old_token=other))


@pytest.mark.parametrize(
    ("values", "after_s", "taken"),
    [
        ({"connected": False}, 29, False),
        ({"connected": False}, 30, True),
        ({"connected": True}, 80, False),
        ({"connected": False, "gone": True}, 0, True),
    ],
)
def test_silence_and_goodbye_free_the_name(
    database: Database, values: dict[str, Any], after_s: float, taken: bool
) -> None:
    principal = holder(database)
    enrol(database, principal, wanted())
    heard(database, **values)
    now = NOW + timedelta(seconds=after_s)
    if taken:
        assert enrol(database, principal, wanted(), now)
    else:
        with pytest.raises(NodeIsLive):
            enrol(database, principal, wanted(), now)


def test_the_old_token_is_in_no_entry(database: Database) -> None:
    principal = holder(database)
    first = enrol(database, principal, wanted())
    enrol(database, principal, wanted(old_token=first))
    with database.read_session() as session:
        told = ledger.entries(session, before_id=None, limit=99)
    assert first not in "".join(entry.model_dump_json() for entry in told)
