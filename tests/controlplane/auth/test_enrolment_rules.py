"""What a token of scope enrol may register: each rule by itself, and uses that come to an end."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.auth import enrolment_rules, store
from controlplane.contract.bodies.access import EnrolmentRequest, EnrolmentRules, Scope
from controlplane.contract.errors import Forbidden
from controlplane.db.database import Database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = st.text("abcdef-1", min_size=1, max_size=5)


def wanted(node: str = "gpu-1", pool: str = "chat", **more: Any) -> EnrolmentRequest:
    return EnrolmentRequest(node=node, pool=pool, backend="embedded", **more)


def token_with(database: Database, rules: EnrolmentRules | None) -> int:
    with database.session() as session:
        number = store.issue(session, name="t", scope=Scope.ENROL, now=NOW)[0].id
        if rules is not None:
            enrolment_rules.keep(session, number, rules)
    return number


def use(database: Database, number: int, request: EnrolmentRequest) -> str:
    """Why it was refused; empty where it was not."""
    try:
        with database.session() as session:
            enrolment_rules.use(session, number, request)
    except Forbidden as error:
        return f"{error.detail['field']}: {error.message}"
    return ""


def uses_left(database: Database, number: int) -> int | None:
    with database.read_session() as session:
        found = enrolment_rules.of(session, number)
    assert found is not None
    return found.uses


@given(
    pools=st.none() | st.lists(NAMES, min_size=1, max_size=3),
    roles=st.none() | st.lists(st.sampled_from(["serving", "trial"]), min_size=1, max_size=2),
    node=NAMES,
    pool=NAMES,
    role=st.sampled_from(["serving", "trial"]),
)
def test_rules_allow_what_each_of_them_allows(
    pools: list[str] | None, roles: Any, node: str, pool: str, role: Any
) -> None:
    rules = EnrolmentRules(pools=pools, roles=roles, nodes=f"{node[0]}*")
    problem = enrolment_rules.problem_of(rules, wanted(node, pool, role=role))
    allowed = (pools is None or pool in pools) and (roles is None or role in roles)
    assert (problem is None) == allowed
    other = enrolment_rules.problem_of(EnrolmentRules(nodes="x-?"), wanted(node, pool, role=role))
    assert other is not None and other[0] == "node"


@pytest.mark.parametrize(
    ("request_", "field", "why"),
    [
        (wanted(pool="other"), "pool", "registers nodes in chat, code, not in 'other'"),
        (wanted(role="trial"), "role", "registers serving nodes, not trial ones"),
        (wanted("cpu-1"), "node", "registers nodes named like 'gpu-*', not 'cpu-1'"),
        (wanted("GPU-1"), "node", "registers nodes named like 'gpu-*', not 'GPU-1'"),
    ],
)
def test_what_is_not_allowed_is_named_and_costs_no_use(
    database: Database, request_: EnrolmentRequest, field: str, why: str
) -> None:
    number = token_with(database, EnrolmentRules(uses=1, pools=["chat", "code"], roles=["serving"], nodes="gpu-*"))
    refused = use(database, number, request_)
    assert refused.startswith(f"{field}: {field}: this token {why}")
    assert (uses_left(database, number), use(database, number, wanted())) == (1, "")


def test_uses_are_counted_down_and_then_it_is_used_up(database: Database) -> None:
    one, other = (token_with(database, EnrolmentRules(uses=2)) for _ in range(2))
    for left in (1, 0):
        assert use(database, one, wanted()) == ""
        assert uses_left(database, one) == left
    assert use(database, one, wanted()).startswith("Authorization: this enrolment token is used up")
    assert (uses_left(database, one), uses_left(database, other)) == (0, 2)


def test_within_one_transaction_each_use_is_seen(database: Database) -> None:
    number = token_with(database, EnrolmentRules(uses=1))
    with database.session() as session:
        assert enrolment_rules.of(session, number) == EnrolmentRules(uses=1)
        enrolment_rules.use(session, number, wanted())
        left = enrolment_rules.of(session, number)
    assert left is not None and left.uses == 0


def test_what_is_not_limited_has_no_end(database: Database) -> None:
    for rules in (None, EnrolmentRules(pools=["chat"])):
        number = token_with(database, rules)
        assert [use(database, number, wanted()) for _ in range(3)] == [""] * 3
    assert uses_left(database, number) is None


def test_rules_are_found_by_their_token(database: Database) -> None:
    rules = [EnrolmentRules(uses=1, nodes="a*"), None, EnrolmentRules(roles=["trial"])]
    numbers = [token_with(database, one) for one in rules]
    with database.read_session() as session:
        found = enrolment_rules.of_all(session, numbers)
        assert enrolment_rules.of(session, numbers[1]) is None
        assert enrolment_rules.of(session, numbers[2]) == rules[2]
    assert found == {numbers[0]: rules[0], numbers[2]: rules[2]}
