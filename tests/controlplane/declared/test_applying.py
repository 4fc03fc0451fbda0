"""Whatever set is applied, and whatever was there: afterwards there is nothing to do, and what others made is there."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select

from controlplane.alerts import store
from controlplane.alerts.tables import AlertRuleRow, DeliveryRow, DestinationRow, place_of
from controlplane.app.remedies import check_remedy
from controlplane.auth.principal import Principal
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.alerts import AlertRuleCreate, DriftCondition, SilenceCreate
from controlplane.contract.errors import BadRequest, Forbidden
from controlplane.contract.on_call.declared_alerting import AlertingSet
from controlplane.db import Database
from controlplane.declared.applying import apply
from controlplane.declared.declarable import Hand
from controlplane.incidents import store as incidents
from controlplane.incidents.routes import route_of
from controlplane.keys import Keyring
from controlplane.keys.encryption import Key
from controlplane.ledger.tables import LedgerRow
from tests.controlplane.declared.conftest import NOW, Undone
from tests.controlplane.declared.declared_sets import SETS
from tests.keyrings import keyring_of
from tests.made_tables import migrate


@pytest.mark.slow
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
    assert over.changed and not store.silences_now(applies.session, NOW), "it has ended now"
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
    assert store.silences_now(applies.session, NOW) == [by_hand]
    same = {**longer.model_dump(mode="json"), "origin": "a.toml"}
    assert not applies(silences=[same]).changed, "it is there as it is wanted"


def test_the_order_of_routes_is_theirs_to_say(applies: Undone) -> None:
    rest = {"name": "rest", "owner": "platform", "origin": "a.toml"}
    chat = {"name": "chat", "owner": "team-chat", "matchers": {"pool": "chat"}, "position": 10, "origin": "a.toml"}
    applies(routes=[rest])
    applies(routes=[rest, chat])
    found = route_of(incidents.routes(applies.session), {"pool": "chat"})
    assert found is not None and found.owner == "team-chat", "although the other one is older"


PAGER = {"name": "pager", "origin": "a.toml", "url": "https://a.example/x"}


def test_what_waits_for_another_kind_is_given_up(applies: Undone) -> None:
    number = applies(destinations=[PAGER]).steps[0].id
    told: dict[str, Any] = {"alert_id": 1, "destination_id": number, "status": "firing", "idempotency_key": "k"}
    letter = DeliveryRow(**told, body="{}", state="waiting", created_at=NOW)
    applies.session.add(letter)
    applies(destinations=[{**PAGER, "enabled": False}])
    assert letter.state == "waiting"
    applies(destinations=[{**PAGER, "kind": "slack"}])
    applies.session.refresh(letter)
    assert (letter.state, letter.last_error) == ("given_up", "the destination's kind was changed")


def test_a_secret_that_nobody_can_read_any_more_is_declared_anew(applies: Undone) -> None:
    number = applies(destinations=[{**PAGER, "secret": "a-secret"}]).steps[0].id
    row = applies.session.get_one(DestinationRow, number)
    row.secret = Key(b"k" * 32).encrypt(place_of(row.id or 0, "secret"), "a-secret", b"n" * 12)
    with pytest.raises(
        BadRequest, match=r"destinations.0.secret_kept: the secret that is there cannot be read any more"
    ):
        applies(destinations=[{**PAGER, "secret_kept": True}])
    done = applies(destinations=[{**PAGER, "secret": "a-secret"}])
    assert [one.field for one in done.steps[0].changes] == ["secret"]
    assert not applies(destinations=[{**PAGER, "secret": "a-secret"}]).changed


def test_two_who_apply_at_once_make_a_thing_once(postgres_schema_url: str) -> None:
    databases = [Database(postgres_schema_url) for _ in range(3)]
    migrate(databases[0])
    rule = {"name": "rule", "origin": "a.toml", "condition": {"kind": "drift"}}
    hands, start = [keyring_of(database) for database in databases], threading.Barrier(len(databases))

    def run(database: Database, keyring: Keyring) -> bool:
        start.wait(30)
        principal = Principal("ada", Scope.ADMIN, 1)
        with database.session() as session:
            hand = Hand(session, keyring, principal.actor, NOW, "https://tailwright.example", check_remedy)
            return apply(AlertingSet.model_validate({"alert_rules": [rule]}), hand, principal).changed

    try:
        with ThreadPoolExecutor(len(databases)) as pool:
            changed = list(pool.map(run, databases, hands))
        assert sorted(changed) == [False, False, True]
        with databases[0].read_session() as session:
            assert [one.name for one in store.rules(session)] == ["rule"]
    finally:
        for database in databases:
            database.close()


def test_a_symptom_that_no_file_calls_urgent_is_as_urgent_as_its_runbook_says(applies: Undone) -> None:
    wanted = {"name": "KV", "origin": "a.toml", "condition": {"kind": "symptom", "symptom": "kv_near_full"}}
    assert applies(alert_rules=[wanted]).changed
    assert [row.severity for row in applies.session.exec(select(AlertRuleRow))] == ["ticket"]
    assert not applies(alert_rules=[wanted], dry_run=True).changed
    assert applies(alert_rules=[{**wanted, "severity": "page"}], dry_run=True).changed
