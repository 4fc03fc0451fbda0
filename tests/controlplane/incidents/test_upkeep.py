"""From alerts that fire to incidents that are resolved, on a database."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from controlplane.alerts import store as alerts
from controlplane.contract.bodies.alerts import Alert, Severity, SilenceCreate
from controlplane.contract.on_call.incidents import Incident, IncidentDetail, IncidentState, RouteCreate
from controlplane.db import Database
from controlplane.incidents import machine, store
from controlplane.incidents.upkeep import IncidentKeeper
from controlplane.ledger import entries
from tests.controlplane.incidents.conftest import START

Make = Callable[..., Alert]
Put = Callable[[Alert], None]


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture
def keeper(database: Database) -> IncidentKeeper:
    return IncidentKeeper(database, timedelta(days=1))


def all_of(database: Database) -> list[Incident]:
    with database.read_session() as session:
        return store.incidents(session, before_id=None, limit=100, now=START)


def detail(database: Database, number: int = 1) -> IncidentDetail:
    with database.read_session() as session:
        return store.detail(session, number, START)


def test_alerts_of_one_cause_are_one_incident(
    database: Database, keeper: IncidentKeeper, alert: Make, put: Put
) -> None:
    put(alert(1, labels={"metric": "prefill"}, severity=Severity.TICKET))
    keeper.tick(at(20))
    put(alert(2, began_s=30, stage="prefill", summary="TTFT p99 rose"))
    put(alert(3, labels={"pool": "batch"}))
    keeper.tick(at(60))
    keeper.tick(at(65))
    chat, batch = sorted(all_of(database), key=lambda one: one.pool != "chat")
    assert (chat.alerts, chat.firing, chat.severity, chat.state) == (2, 2, Severity.PAGE, IncidentState.OPEN)
    assert chat.title == "TTFT p99 rose", "the sum tells more than its stage"
    assert chat.onset_at == START and (batch.pool, batch.alerts) == ("batch", 1)
    shown = detail(database, chat.id)
    assert [one.alert.id for one in shown.members] == [2, 1] and "prefill explains it" in shown.members[0].why
    assert shown.stage == "prefill"


def test_an_incident_that_stays_as_it_is_takes_no_lock(
    database: Database, keeper: IncidentKeeper, alert: Make, put: Put
) -> None:
    put(alert(1))
    keeper.tick(at(20))
    with database.session() as writer:
        writer.connection()  # Holds SQLite's write lock from here on.
        keeper.tick(at(25))
    (one,) = all_of(database)
    assert (one.state, one.firing) == (IncidentState.OPEN, 1)


def test_it_is_resolved_when_it_has_been_quiet_and_a_flap_is_the_same_one(
    database: Database, keeper: IncidentKeeper, alert: Make, put: Put
) -> None:
    put(alert(1, fingerprint="f"))
    keeper.tick(at(20))
    put(alert(1, fingerprint="f", ended_s=100))
    keeper.tick(at(110))
    (one,) = all_of(database)
    assert (one.state, one.quiet_since, one.firing) == (IncidentState.OPEN, at(100), 0)
    put(alert(2, fingerprint="f", began_s=150))
    keeper.tick(at(170))
    put(alert(2, fingerprint="f", began_s=150, ended_s=200))
    keeper.tick(at(399))
    (one,) = all_of(database)
    assert (one.state, one.quiet_since, one.alerts) == (IncidentState.OPEN, at(200), 2), "five minutes begin afresh"
    settled = 200 + machine.SETTLE.total_seconds()
    keeper.tick(at(settled))
    (one,) = all_of(database)
    assert (one.state, one.resolved_by, one.resolved_at) == (IncidentState.RESOLVED, "tailwright", at(settled))
    put(alert(3, fingerprint="f", began_s=settled + 60))
    keeper.tick(at(settled + 80))
    (one,) = all_of(database)
    assert (one.state, one.reopened, one.resolved_at, one.alerts) == (IncidentState.OPEN, 1, None, 3)
    told = [entry.kind.value for entry in detail(database).timeline]
    assert "resolved" in told and "reopened" in told and told.index("resolved") < told.index("reopened")


def test_long_after_the_end_the_same_alert_is_another_incident(
    database: Database, keeper: IncidentKeeper, alert: Make, put: Put
) -> None:
    put(alert(1, fingerprint="f", ended_s=15))
    keeper.tick(at(20))
    keeper.tick(at(400))
    late = 400 + machine.REOPEN.total_seconds() + 1
    put(alert(2, fingerprint="f", began_s=late))
    keeper.tick(at(late))
    assert [one.state for one in all_of(database)] == [IncidentState.OPEN, IncidentState.RESOLVED]


def test_an_acknowledged_one_stays_so_while_it_flaps(
    database: Database, keeper: IncidentKeeper, alert: Make, put: Put
) -> None:
    put(alert(1, fingerprint="f", ended_s=40))
    keeper.tick(at(50))
    with database.session() as session:
        store.acknowledge(session, 1, actor="ada", now=at(60))
        store.acknowledge(session, 1, actor="bob", now=at(61))
    put(alert(2, fingerprint="f", began_s=70))
    keeper.tick(at(90))
    (one,) = all_of(database)
    assert (one.state, one.acknowledged_by) == (IncidentState.ACKNOWLEDGED, "ada")
    with database.read_session() as session:
        told = entries(session, before_id=None, limit=99, kind="incident.acknowledged")
    assert [(entry.actor, entry.subject) for entry in told] == [("ada", "incident/1")]


def test_an_alert_that_was_over_before_anybody_looked_is_taken_in(
    database: Database, keeper: IncidentKeeper, alert: Make, put: Put
) -> None:
    put(alert(1, ended_s=15))
    keeper.tick(at(5000))
    assert all_of(database) == [], "one of long ago is history, not an incident"
    put(alert(2, began_s=4900, ended_s=4990))
    keeper.tick(at(5000))
    assert [one.alerts for one in all_of(database)] == [1]


def test_the_route_names_the_owner_and_what_may_be_one(
    database: Database, keeper: IncidentKeeper, alert: Make, put: Put
) -> None:
    with database.session() as session:
        wanted = RouteCreate(name="pages", matchers={"severity": "page"}, owner="night", group_by=[])
        store.create_route(session, wanted, actor="ada", now=START)
    put(alert(1, labels={"pool": "", "metric": ""}))
    put(alert(2, labels={"pool": "", "metric": ""}, began_s=60))
    put(alert(3, severity=Severity.TICKET))
    keeper.tick(at(90))
    found = {one.owner: one.alerts for one in all_of(database)}
    assert found == {"night": 2, None: 1}


def test_it_is_shown_as_silenced_where_all_that_fires_is(
    database: Database, keeper: IncidentKeeper, alert: Make, put: Put
) -> None:
    put(alert(1))
    keeper.tick(at(20))
    with database.session() as session:
        told = {"matchers": {"metric": "ttft"}, "ends_at": at(3600), "comment": "known"}
        alerts.create_silence(session, SilenceCreate.model_validate(told), actor="ada", now=START)
    assert [one.silenced for one in all_of(database)] == [True], "also one that was told before it was silenced"
    assert [one.alert.silenced for one in detail(database).members] == [True]
    put(alert(2, began_s=20, labels={"metric": "itl"}))
    keeper.tick(at(40))
    assert [(one.silenced, one.alerts) for one in all_of(database)] == [(False, 2)]


def test_what_is_over_for_long_is_forgotten_and_the_ledger_is_not(
    database: Database, keeper: IncidentKeeper, alert: Make, put: Put
) -> None:
    put(alert(1, ended_s=15))
    put(alert(2, labels={"pool": "batch"}))
    keeper.tick(at(20))
    keeper.tick(at(400))
    keeper.expire(at(400 + 86_399))
    assert len(all_of(database)) == 2
    keeper.expire(at(400 + 86_401))
    assert [one.pool for one in all_of(database)] == ["batch"], "one that is open is kept however old it is"
    with database.read_session() as session:
        assert entries(session, before_id=None, limit=9, subject="incident/1")
