"""Alerts of others are members of incidents: grouped like our own, once each, until they are over, within limits."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlmodel import col, select

from controlplane import ledger
from controlplane.alerts import store as alerts
from controlplane.alerts.evaluator import read as evaluated
from controlplane.alerts.notify import outbox
from controlplane.alerts.rules.inhibition import held_now
from controlplane.alerts.tables import AlertRow, DeliveryRow, InhibitRuleRow
from controlplane.alerts.windows.watched_nodes import WatchedNodes
from controlplane.app.tables import all_tables
from controlplane.contract.channels.inbound import InboundTaken
from controlplane.contract.on_call.incidents import IncidentDetail, IncidentState, TimelineKind
from controlplane.db import Database
from controlplane.fleet.tables import NodeRow, PoolRow
from controlplane.inbound import room, taking_in
from controlplane.inbound.endings import SILENT, InboundKeeper
from controlplane.inbound.foreign_alerts import ForeignAlert
from controlplane.inbound.no_room import Refusals
from controlplane.inbound.room import Refusal
from controlplane.inbound.tables import InboundAlertRow
from controlplane.incidents import store as incidents
from controlplane.incidents.acknowledging import acknowledge
from controlplane.incidents.post_mortem import post_mortem
from controlplane.incidents.upkeep import IncidentKeeper
from tests.keyrings import add_destination
from tests.made_tables import create_tables

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path}/t.db")
    create_tables(made, all_tables())
    with made.session() as session:
        session.add(PoolRow(name="chat", created_at=NOW))
        session.flush()
        session.add(
            NodeRow(node="gpu-1", pool="chat", role="serving", backend="vllm", config_status="applied", created_at=NOW)
        )
    yield made
    made.close()


def down(name: str = "Down", **other: Any) -> ForeignAlert:
    said = {"instance": "gpu-1:9100", "severity": "critical", **other.pop("labels", {})}
    labels = {name_: text for name_, text in {"alertname": name, **said}.items() if text}
    fields: dict[str, Any] = {
        "fingerprint": name,
        "status": "firing",
        "labels": labels,
        "annotations": {"summary": f"{name} of {labels.get('instance', 'nothing')}"},
        "link": "https://prom.test/graph?g0",
        "starts_at": NOW - MINUTE,
        "ends_at": None,
    }
    return ForeignAlert(**{**fields, **other})


def post(
    database: Database, *told: ForeignAlert, at: datetime = NOW, source: str = "alertmanager", **more: Any
) -> InboundTaken:
    with database.session() as session:
        answer, _ = taking_in.take_in(session, source, told, actor="prometheus", now=at)
    return answer


def own_alert(database: Database, **other: Any) -> int:
    fields: dict[str, Any] = {
        "fingerprint": "own",
        "rule_id": 1,
        "rule": "Latency regression",
        "kind": "regression",
        "pool": "chat",
        "state": "firing",
        "severity": "page",
        "labels": {"kind": "regression", "pool": "chat", "metric": "ttft"},
        "summary": "TTFT rose",
        "started_at": NOW - 2 * MINUTE,
        "breach_since": NOW - 2 * MINUTE,
        "fired_at": NOW - MINUTE,
    }
    with database.session() as session:
        row = AlertRow(**{**fields, **other})
        session.add(row)
        session.flush()
        assert row.id is not None
        return row.id


def look(database: Database, at: datetime = NOW) -> list[IncidentDetail]:
    """The incidents after a tick, the oldest first."""
    IncidentKeeper(database).tick(at)
    with database.read_session() as session:
        found = incidents.incidents(session, before_id=None, limit=99, now=at)
        return [incidents.detail(session, one.id, at) for one in found][::-1]


def test_it_joins_the_incident_of_its_pool_and_tells_where_it_is_from(database: Database) -> None:
    own = own_alert(database)
    assert post(database, down()).changed == 1
    (found,) = look(database)
    assert [one.alert.source for one in found.members] == ["tailwright", "alertmanager"]
    assert found.title == "TTFT rose" and found.sources == ["tailwright", "alertmanager"]
    with database.read_session() as session:
        (listed,) = incidents.incidents(session, before_id=None, limit=9, now=NOW)
    assert listed.model_dump() == found.model_dump(include=set(type(listed).model_fields))
    joined = found.members[1]
    assert joined.why == f"it began with alert {own} in the same pool"
    assert joined.alert.link == "https://prom.test/graph?g0" and joined.alert.labels["node"] == "gpu-1"
    assert joined.alert.rule_id == 0 and joined.alert.severity.value == "page"
    words = [entry.text for entry in found.timeline]
    assert "Down (alertmanager) began on node gpu-1" in words and "Down of gpu-1:9100" in words
    assert "| Down (alertmanager, <https://prom.test/graph?g0>) |" in post_mortem(found, "http://t.test/incidents/1")


def test_without_a_pool_it_is_an_incident_of_its_own(database: Database) -> None:
    own_alert(database)
    post(database, down(labels={"instance": "switch-1"}), down("Loop", labels={"instance": "switch-2"}))
    found = look(database)
    assert [[one.alert.rule for one in incident.members] for incident in found] == [
        ["Latency regression"],
        ["Down"],
        ["Loop"],
    ]
    assert found[1].title == "Down of switch-1" and found[1].pool == "" and found[1].sources == ["alertmanager"]


def test_one_of_the_same_node_joins_however_long_after(database: Database) -> None:
    own = own_alert(database, labels={"kind": "telemetry_lost", "pool": "chat", "node": "gpu-1"})
    post(database, down(starts_at=NOW + 60 * MINUTE), at=NOW + 61 * MINUTE)
    (found,) = look(database, NOW + 61 * MINUTE)
    assert found.members[1].why == f"it is on node gpu-1, as alert {own}"


def test_it_ends_when_its_system_says_so_and_its_incident_after_it(database: Database) -> None:
    post(database, down())
    look(database)
    over = down(status="resolved", ends_at=NOW + 3 * MINUTE)
    assert post(database, over, at=NOW + 4 * MINUTE).changed == 1
    (found,) = look(database, NOW + 4 * MINUTE)
    assert found.members[0].alert.resolved_at == found.quiet_since == NOW + 3 * MINUTE
    (found,) = look(database, NOW + 9 * MINUTE)
    assert found.state is IncidentState.RESOLVED
    assert [entry.kind for entry in found.timeline][-2:] == [TimelineKind.OVER, TimelineKind.RESOLVED]
    post(database, down(starts_at=NOW + 10 * MINUTE), at=NOW + 10 * MINUTE)
    (found,) = look(database, NOW + 10 * MINUTE)
    assert found.reopened == 1 and found.alerts == 2 and found.state is IncidentState.OPEN


def test_repeats_are_one_also_where_its_system_was_started_again(database: Database) -> None:
    for minute in range(3):
        again = post(database, down(), at=NOW + minute * MINUTE)
    assert again.changed == 0 and again.taken == 1
    restarted = down(starts_at=NOW + MINUTE)
    assert post(database, restarted, at=NOW + 2 * MINUTE).changed == 0
    assert post(database, down(status="resolved", ends_at=NOW), at=NOW + 2 * MINUTE).changed == 0  # Of the first.
    (found,) = look(database, NOW + 2 * MINUTE)
    assert found.alerts == found.firing == 1 and found.onset_at == NOW - MINUTE
    over = down(status="resolved", starts_at=NOW + MINUTE, ends_at=NOW + 3 * MINUTE)
    assert post(database, over, at=NOW + 3 * MINUTE).changed == 1
    assert post(database, restarted, at=NOW + 4 * MINUTE).changed == 0  # It came late.
    (found,) = look(database, NOW + 4 * MINUTE)
    assert found.alerts == 1 and found.firing == 0


def test_what_was_over_before_it_was_heard_of_is_of_no_incident(database: Database) -> None:
    assert post(database, down(status="resolved", ends_at=NOW)).changed == 1
    assert post(database, down()).changed == 0
    assert look(database) == []


def test_it_ends_when_its_end_has_come_or_nothing_is_heard_of_it(database: Database) -> None:
    keeper = InboundKeeper(database, kept=timedelta(days=2))
    post(database, down(ends_at=NOW + 5 * MINUTE), down("Loop"))
    keeper.tick(NOW + 4 * MINUTE)
    post(database, down(ends_at=NOW + 9 * MINUTE), at=NOW + 5 * MINUTE)
    keeper.tick(NOW + 6 * MINUTE)
    assert states(database) == {"Down": "firing", "Loop": "firing"}
    keeper.tick(NOW + 9 * MINUTE)
    assert states(database) == {"Down": "resolved", "Loop": "firing"}
    keeper.tick(NOW + SILENT)
    assert states(database) == {"Down": "resolved", "Loop": "resolved"}
    with database.read_session() as session:
        told = [one.message for one in ledger.entries(session, before_id=None, limit=9, kind="inbound.resolved")]
    assert told[0].endswith("was not heard of for a day, and counts as over")
    keeper.expire(NOW + timedelta(days=2, minutes=10))
    assert states(database) == {"Loop": "resolved"}


def states(database: Database) -> dict[str, str]:
    with database.read_session() as session:
        return {row.rule: row.state for row in session.exec(select(AlertRow).order_by(col(AlertRow.id)))}


def test_nobody_is_told_of_it_and_nothing_is_done_about_it(database: Database) -> None:
    add_destination(database, "http://127.0.0.1:9/hook", NOW)
    post(database, down())
    (found,) = look(database)
    with database.session() as session:
        assert acknowledge(session, found.id, actor="ada", now=NOW, public_url="http://t.test")
        assert session.exec(select(DeliveryRow)).all() == []
        assert alerts.open_alerts(session) == [] and alerts.alerts(session, before_id=None, limit=9) == []
        assert evaluated(session, WatchedNodes()).alerts == []
        rule = {"name": "r", "equal": [], "created_at": NOW}
        every = {"matchers": {"severity": "page"}, "patterns": {}}
        session.add(InhibitRuleRow(**rule, source=every, target=every))
        session.flush()
        assert held_now(session) == []


def test_one_of_ours_that_comes_back_is_passed_over(database: Database) -> None:
    own_alert(database)
    back = down(labels={"tailwright_fingerprint": "own"})
    strange = down("Loop", labels={"tailwright_fingerprint": "nobody's"})
    told = post(database, back, strange)
    assert (told.ours, told.taken, told.changed) == (1, 1, 1)


def test_a_million_labels_do_not_fill_the_database(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_OPEN", 30)
    monkeypatch.setattr(room, "MOST_A_DAY", 50)
    monkeypatch.setattr(taking_in, "MOST_KEPT", 40)
    many = [down(f"a{number}") for number in range(100)]
    told = post(database, *many)
    assert (told.taken, told.refused) == (30, 70)
    assert post(database, *many[:30]).changed == 0  # Known ones are still taken.
    over = [down(f"a{number}", status="resolved", ends_at=NOW) for number in range(30)]
    assert post(database, *over).changed == 30
    assert post(database, *many[30:]).refused == 50  # Twenty more were new within a day.
    next_day = NOW + timedelta(days=1, minutes=1)
    assert post(database, *(down(f"b{number}") for number in range(9)), at=next_day).taken == 9
    assert post(database, at=next_day).taken == 0
    with database.read_session() as session:
        assert len(session.exec(select(InboundAlertRow)).all()) == len(session.exec(select(AlertRow)).all()) == 40


def test_what_is_refused_is_counted_by_its_reason() -> None:
    registry = CollectorRegistry()
    Refusals(registry).note("grafana", {Refusal.OPEN: 3})
    named = "tailwright_inbound_alerts_refused_total"
    assert registry.get_sample_value(named, {"reason": "too_many_open"}) == 3
    assert registry.get_sample_value(named, {"reason": "too_many_new"}) == 0


def test_our_own_is_told_as_ever_beside_it(database: Database) -> None:
    destination = add_destination(database, "http://127.0.0.1:9/hook", NOW)
    own = own_alert(database)
    post(database, down())
    (found,) = look(database)
    with database.session() as session:
        outbox.enqueue_firing(session, alerts.alert(session, own), NOW, "http://t.test")
        acknowledge(session, found.id, actor="ada", now=NOW, public_url="http://t.test")
        told = session.exec(select(DeliveryRow.alert_id, DeliveryRow.destination_id)).all()
    assert set(told) == {(own, destination)}
