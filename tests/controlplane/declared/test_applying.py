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
from controlplane.contract.bodies.alerts import AlertRuleCreate, DriftCondition, SilenceCreate
from controlplane.contract.errors import BadRequest, Forbidden
from controlplane.db import Database
from controlplane.incidents import store as incidents
from controlplane.incidents.routes import route_of
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

ROUTES = st.fixed_dictionaries(
    {"name": NAMES, "origin": ORIGINS, "owner": st.sampled_from(["ada", "bo"])},
    optional={
        "matchers": st.sampled_from([{}, {"pool": "chat"}, {"pool": "chat", "severity": "page"}]),
        "group_by": st.sampled_from([[], ["pool"], ["pool", "node"]]),
        "position": st.integers(0, 2),
    },
)
LABELS = st.sampled_from([{"matchers": {"pool": "chat"}}, {"patterns": {"pool": "c.*"}}, {"matchers": {"pool": "b"}}])
INHIBIT_RULES = st.fixed_dictionaries(
    {"name": NAMES, "origin": ORIGINS, "source": LABELS, "target": LABELS},
    optional={"equal": st.sampled_from([[], ["pool"]])},
)
ENDS = st.sampled_from(["2029-12-31T00:00:00Z", "2030-01-02T00:00:00Z", "2030-01-02T03:00:00+01:00"])
SILENCES = st.builds(
    lambda labels, rest: {**labels, **rest},
    LABELS,
    st.fixed_dictionaries({"origin": ORIGINS, "ends_at": ENDS, "comment": st.sampled_from(["known", "moved"])}),
)


def of_each_name(one: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(one, max_size=4, unique_by=lambda thing: str(thing.get("name", [thing.get("matchers", 0)])))


SETS = st.fixed_dictionaries(
    {
        "alert_rules": of_each_name(RULES),
        "routes": of_each_name(ROUTES),
        "inhibit_rules": of_each_name(INHIBIT_RULES),
        "silences": of_each_name(SILENCES),
        "destinations": of_each_name(DESTINATIONS),
        "prune": st.booleans(),
    }
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


SILENCE = {"matchers": {"pool": "chat"}, "ends_at": "2030-01-02T00:00:00Z", "comment": "a move", "origin": "a.toml"}


def test_a_silence_is_known_by_what_it_matches(applies: Undone) -> None:
    applies(silences=[SILENCE])
    later = applies(silences=[{**SILENCE, "ends_at": "2030-01-03T00:00:00Z"}])
    assert [(step.action, step.name, [one.field for one in step.changes]) for step in later.steps] == [
        ("change", "pool=chat", ["ends_at"])
    ]
    over = applies(silences=[{**SILENCE, "ends_at": "2030-01-01T00:00:00Z"}])
    assert over.changed and not store.silences_now(applies.session), "it has ended now"
    assert [step.action for step in applies(silences=[{**SILENCE, "ends_at": "2030-01-01T00:00:00Z"}]).steps] == [
        "over"
    ]
    with pytest.raises(BadRequest, match=r"silences.1.matchers: 'pool=chat' is declared twice"):
        applies(silences=[SILENCE, {**SILENCE, "comment": "another"}])


def test_a_persons_silence_is_left_alone(applies: Undone) -> None:
    longer = SilenceCreate.model_validate({**SILENCE, "ends_at": "2030-01-09T00:00:00Z", "comment": "an incident"})
    by_hand = store.create_silence(applies.session, longer, actor="bo", now=NOW)
    for prune in (False, True):
        done = applies(silences=[SILENCE], prune=prune)
        assert done.others == 1
    applies(silences=[{**SILENCE, "ends_at": "2030-01-01T00:00:00Z"}], prune=True)
    assert store.silences_now(applies.session) == [by_hand]
    same = {**longer.model_dump(mode="json"), "origin": "a.toml"}
    assert not applies(silences=[same]).changed, "it is there as it is wanted"


def test_the_order_of_routes_is_theirs_to_say(applies: Undone) -> None:
    rest = {"name": "rest", "owner": "platform", "origin": "a.toml"}
    chat = {"name": "chat", "owner": "team-chat", "matchers": {"pool": "chat"}, "position": 10, "origin": "a.toml"}
    applies(routes=[rest])
    applies(routes=[rest, chat])
    found = route_of(incidents.routes(applies.session), {"pool": "chat"})
    assert found is not None and found.owner == "team-chat", "although the other one is older"
