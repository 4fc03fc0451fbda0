"""Whatever set is applied, and whatever was there: afterwards there is nothing to do, and what others made is there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select

from controlplane.alerts import store
from controlplane.alerts.tables import AlertRuleRow, DestinationRow
from controlplane.auth.principal import Principal
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.alerts import AlertRuleCreate, DriftCondition
from controlplane.contract.errors import BadRequest, Forbidden
from controlplane.db import Database
from controlplane.ledger.tables import LedgerRow
from tests.controlplane.declared.conftest import NOW, Undone

NAMES, ORIGINS = st.sampled_from("abcd"), st.sampled_from(["one.toml", "two.toml"])
CONDITIONS = st.one_of(
    st.builds(lambda s: {"kind": "drift", "for_s": s}, st.integers(0, 3)),
    st.builds(lambda q: {"kind": "regression", "q": [q]}, st.sampled_from([0.5, 0.99])),
)
RULES = st.fixed_dictionaries(
    {"name": NAMES, "origin": ORIGINS, "condition": CONDITIONS},
    optional={
        "pool": st.sampled_from(["chat", None]),
        "severity": st.sampled_from(["page", "ticket"]),
        "remedy": st.just({"cooldown_s": 60}),
        "enabled": st.booleans(),
    },
)
DESTINATIONS = st.fixed_dictionaries(
    {"name": NAMES, "origin": ORIGINS, "url": st.sampled_from(["https://a.example/x", "https://a.example/y"])},
    optional={
        "kind": st.sampled_from(["webhook", "slack"]),
        "per_minute": st.sampled_from([None, 5]),
        "enabled": st.booleans(),
        "title_template": st.just("{{ pool }}"),
    },
)


def of_each_name(one: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(one, max_size=4, unique_by=lambda thing: str(thing["name"]))


SETS = st.fixed_dictionaries(
    {"alert_rules": of_each_name(RULES), "destinations": of_each_name(DESTINATIONS), "prune": st.booleans()}
)


@given(sets=st.lists(SETS, min_size=1, max_size=3))
def test_after_any_set_there_is_nothing_to_do(database: Database, sets: list[dict[str, Any]]) -> None:
    with Undone(database) as applies:
        by_hand = AlertRuleCreate(name="a", condition=DriftCondition(for_s=17))
        number = store.create_rule(applies.session, by_hand, NOW, actor="ada").id
        for wanted in sets:
            planned, done = applies(**wanted, dry_run=True), applies(**wanted)
            without_numbers = [step.model_dump(exclude={"id"}) for step in done.steps]
            assert without_numbers == [step.model_dump(exclude={"id"}) for step in planned.steps]
            again = applies(**wanted, dry_run=True)
            assert not again.changed, again.steps
            left = applies.session.get(AlertRuleRow, number)
            assert left is not None and left.origin is None, "what a person made is never removed"


def test_nothing_is_touched_where_anything_is_wrong(applies: Undone) -> None:
    good = {"name": "good", "origin": "a.toml", "condition": {"kind": "drift"}}
    bad = {"name": "pager", "origin": "a.toml", "url": "https://a.example/x", "secret": "short"}
    worse = {"name": "mail", "origin": "b.toml", "kind": "email"}
    with pytest.raises(BadRequest) as refused:
        applies(alert_rules=[good], destinations=[bad, worse])
    assert [one["field"] for one in refused.value.detail["errors"]] == [
        "body.destinations.0.secret",
        "body.destinations.1.url",
    ]
    assert not applies.session.exec(select(AlertRuleRow)).all()
    assert not applies.session.exec(select(LedgerRow)).all()


def test_destinations_are_for_an_admin(applies: Undone) -> None:
    pager = {"name": "pager", "origin": "a.toml", "url": "https://a.example/x"}
    rule = {"name": "rule", "origin": "a.toml", "condition": {"kind": "drift"}}
    assert applies(destinations=[pager], alert_rules=[rule]).changed
    applies.principal = Principal("ada", Scope.OPERATE, 1)
    for dry_run in (True, False):
        with pytest.raises(Forbidden):
            applies(destinations=[pager], dry_run=dry_run)
        with pytest.raises(Forbidden):
            applies(origins=["a.toml"], prune=True, dry_run=dry_run)
    assert applies.session.exec(select(DestinationRow)).all()
    assert not applies(alert_rules=[rule]).changed, "rules alone are an operator's"


def test_another_url_is_tried_at_once(applies: Undone) -> None:
    pager = {"name": "pager", "origin": "a.toml", "url": "https://a.example/x"}
    number = applies(destinations=[pager]).steps[0].id
    row = applies.session.get_one(DestinationRow, number)
    row.failures = 3
    before = row.url
    assert applies(destinations=[{**pager, "url": "https://b.example/x"}]).changed
    assert (row.shown, row.failures) == ("https://b.example/***", 0) and row.url != before
