"""Telemetry that a node lost: each loss is told once, however late its report, and held until nothing more is lost."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts import store
from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.fleet_wide.telemetry_lost import (
    LOOK_BACK_S,
    STEP_S,
    Loss,
    judge_telemetry_lost,
    losses_of,
)
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.alerts import Alert, AlertRuleCreate, TelemetryLostCondition
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.metrics import EVENTS_MISSED, SPOOL_DROPPED
from controlplane.db import Database
from controlplane.fleet import store as fleet

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
CONDITION = TelemetryLostCondition()


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def node(name: str = "a", **more: Any) -> NodeView:
    given = {"node": name, "pool": "p", "role": "serving", "backend": "vllm", "connected": True, "healthy": True}
    return NodeView.model_validate(given | more)


class Rule:
    """One rule through its ticks."""

    def __init__(self, telemetry: Any) -> None:
        self.telemetry = telemetry
        self.state: dict[str, Any] = {}

    def tick(self, at: datetime, *nodes: NodeView) -> list[Finding]:
        losses = losses_of(self.telemetry, at)
        findings, self.state = judge_telemetry_lost(CONDITION, losses, self.state, nodes or (node(),), at)
        return findings

    def reading(self, at: datetime) -> Reading:
        (finding,) = self.tick(at)
        return finding.reading


@pytest.fixture
def lose(telemetry: Any) -> Callable[..., None]:
    """A report with counters of a node comes in, whose own time is `at`."""

    def report(at: datetime, reports: int = 0, events: int = 0, name: str = "a") -> None:
        for metric, count in ((SPOOL_DROPPED, reports), (EVENTS_MISSED, events)):
            if count:
                telemetry.add(metric.short, at, float(count), node=name, pool="p")

    return report


def test_a_loss_is_told_at_once_and_is_over_when_nothing_more_is_lost(
    telemetry: Any, lose: Callable[..., None]
) -> None:
    rule = Rule(telemetry)
    assert rule.reading(NOW) is Reading.CLEAR
    lose(NOW, reports=3)
    assert rule.reading(NOW + seconds(5)) is Reading.BREACH
    lose(NOW + seconds(100), events=7)
    assert rule.reading(NOW + seconds(105)) is Reading.BREACH
    (finding,) = rule.tick(NOW + seconds(404))
    assert finding.reading is Reading.BREACH
    assert finding.labels == {"kind": "telemetry_lost", "pool": "p", "node": "a"}
    assert "3 reports dropped unsent" in finding.summary and "7 engine events never seen" in finding.summary
    assert (finding.evidence["reports_dropped"], finding.evidence["events_missed"]) == (3, 7)
    assert rule.reading(NOW + seconds(405)) is Reading.CLEAR


def test_one_of_each_is_not_many(telemetry: Any, lose: Callable[..., None]) -> None:
    rule = Rule(telemetry)
    rule.tick(NOW)
    lose(NOW, events=1)
    assert rule.tick(NOW)[0].summary == "node a lost telemetry for good: 1 engine event never seen by its agent"


def test_a_report_that_comes_hours_late_is_told_of_all_the_same(telemetry: Any, lose: Callable[..., None]) -> None:
    rule = Rule(telemetry)
    rule.tick(NOW)
    lose(NOW - seconds(3 * 3600), reports=2)
    (finding,) = rule.tick(NOW + seconds(5))
    assert finding.reading is Reading.BREACH and finding.since is not None
    assert finding.since <= NOW - seconds(3 * 3600)
    assert rule.reading(NOW + seconds(306)) is Reading.CLEAR
    # Another report of the same minutes: what is new in them is news.
    lose(NOW - seconds(3 * 3600), reports=5)
    (finding,) = rule.tick(NOW + seconds(310))
    assert finding.evidence["reports_dropped"] == 5


def test_what_was_over_before_the_rule_does_not_alert_and_what_was_not_does(
    telemetry: Any, lose: Callable[..., None]
) -> None:
    lose(NOW - seconds(3600), reports=2)
    assert Rule(telemetry).reading(NOW) is Reading.CLEAR
    lose(NOW - seconds(10), reports=4)
    (finding,) = Rule(telemetry).tick(NOW)
    assert finding.evidence["reports_dropped"] == 4


def test_only_nodes_that_serve_alert_each_for_itself(telemetry: Any, lose: Callable[..., None]) -> None:
    for name in ("a", "b", "stranger"):
        lose(NOW, reports=1, name=name)
    findings = Rule(telemetry).tick(NOW, node("a", role="trial"), node("b", pool="q"), node("c"))
    assert [(one.labels["node"], one.labels["pool"], one.reading) for one in findings] == [
        ("b", "q", Reading.BREACH),
        ("c", "p", Reading.CLEAR),
    ]


def test_what_has_been_told_is_not_told_again_when_the_store_goes_back(
    telemetry: Any, lose: Callable[..., None]
) -> None:
    rule = Rule(telemetry)
    rule.tick(NOW)
    lose(NOW, reports=3)
    assert rule.reading(NOW) is Reading.BREACH
    points = dict(telemetry.points)
    telemetry.points.clear()
    assert rule.reading(NOW + seconds(300)) is Reading.CLEAR
    telemetry.points.update(points)
    assert rule.reading(NOW + seconds(305)) is Reading.CLEAR


@given(
    st.lists(
        st.tuples(st.integers(0, 4 * STEP_S), st.integers(0, 5), st.integers(0, int(LOOK_BACK_S) // 2)), max_size=20
    )
)
def test_every_loss_is_told_exactly_once_whenever_its_report_comes(steps: list[tuple[int, int, int]]) -> None:
    """The growth that the findings tell of adds up to all that was lost, as long as it is not ancient."""
    losses: dict[int, Loss] = {}
    state: dict[str, Any] = {}
    _, state = judge_telemetry_lost(CONDITION, {}, state, (node(),), NOW)
    at, told, lost, before = NOW, 0, 0, 0
    for wait_s, count, late_s in steps:
        at += seconds(wait_s)
        step = int((at.timestamp() - late_s) // STEP_S) * STEP_S
        losses[step] = losses.get(step, Loss()) + Loss(reports=count)
        lost += count
        (finding,), state = judge_telemetry_lost(CONDITION, {"a": losses}, state, (node(),), at)
        now_told = finding.evidence.get("reports_dropped", 0)
        # A life of the alert goes on adding; a new one begins at nothing.
        told += now_told - before if now_told >= before and finding.evidence else now_told
        before = now_told
        oldest = int((at.timestamp() - LOOK_BACK_S) // STEP_S) * STEP_S
        losses = {step: loss for step, loss in losses.items() if step >= oldest}
    assert told == lost


# -- in the service's own database -------------------------------------------------------------------------------------


def alerts(database: Database) -> list[Alert]:
    with database.read_session() as session:
        return store.alerts(session, before_id=None, limit=100)


def test_it_fires_outlives_a_restart_and_resolves(
    database: Database, telemetry: Any, lose: Callable[..., None]
) -> None:
    with database.session() as session:
        fleet.enrol(session, EnrolmentRequest(node="a", pool="p", backend="vllm"), actor="t", now=NOW)
        store.create_rule(session, AlertRuleCreate(name="lost", condition=CONDITION), NOW)
    AlertEvaluator(database, telemetry).tick(NOW)
    lose(NOW, reports=4)
    for second in (5, 10, 290):
        AlertEvaluator(database, telemetry).tick(NOW + seconds(second))
        (alert,) = alerts(database)
        assert (alert.state, alert.fired_at, alert.labels["node"]) == ("firing", NOW + seconds(5), "a")
        assert "4 reports" in alert.summary
    AlertEvaluator(database, telemetry).tick(NOW + seconds(305))
    assert [alert.state for alert in alerts(database)] == ["resolved"]
    lose(NOW + seconds(306), events=1)
    AlertEvaluator(database, telemetry).tick(NOW + seconds(310))
    assert [alert.state for alert in alerts(database)] == ["firing", "resolved"]


def test_a_node_that_is_removed_ends_its_alert(database: Database, telemetry: Any, lose: Callable[..., None]) -> None:
    with database.session() as session:
        fleet.enrol(session, EnrolmentRequest(node="a", pool="p", backend="vllm"), actor="t", now=NOW)
        store.create_rule(session, AlertRuleCreate(name="lost", condition=CONDITION, pool="p"), NOW)
    lose(NOW, reports=4)
    AlertEvaluator(database, telemetry).tick(NOW)
    assert [alert.state for alert in alerts(database)] == ["firing"]
    with database.session() as session:
        fleet.remove(session, "a", actor="t", now=NOW)
    AlertEvaluator(database, telemetry).tick(NOW + seconds(5))
    assert [alert.state for alert in alerts(database)] == ["resolved"]
