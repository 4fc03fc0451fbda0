"""One node of several gets slower: the alert names it, and says what shows it. From telemetry to the row."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from controlplane.alerts import store
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.alerts import Alert, AlertRuleCreate, RegressionCondition
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.metrics import PREFILL, RUNNING
from controlplane.db import Database
from controlplane.fleet import store as fleet
from tests.controlplane.alerts.conftest import START, sketch_of
from tests.controlplane.telemetry.fake_reader import FakeReader

pytestmark = pytest.mark.slow

HARDWARE = {"a": 1.0, "b": 1.4, "c": 1.0, "d": 0.9}
PAST_S = 4500.0


class Nodes:
    """A pool whose nodes serve into a FakeReader; only prefill is told."""

    def __init__(self, database: Database) -> None:
        self.telemetry, self.now, self.random = FakeReader(), START, np.random.default_rng(5)
        with database.session() as session:
            for node in HARDWARE:
                wanted = EnrolmentRequest(node=node, pool="main", backend="vllm")
                fleet.enrol(session, wanted, actor="t", now=self.now)
            rule = AlertRuleCreate(name="rule", condition=RegressionCondition(metrics=[PREFILL.short]))
            store.create_rule(session, rule, self.now)

    def serve(self, seconds: float, evaluator: AlertEvaluator | None = None, **factors: float) -> None:
        for _ in range(round(seconds / 5)):
            common = self.random.lognormal(0.0, 0.1)
            for node, speed in HARDWARE.items():
                labels = {"pool": "main", "node": node}
                took = 0.1 * speed * common * factors.get(node, 1.0) * self.random.lognormal(0.0, 0.4, 6)
                self.telemetry.add(PREFILL.short, self.now, sketch_of(took), prompt_bucket="<=512", **labels)
                self.telemetry.add(RUNNING.short, self.now, 1.0, **labels)
            self.now += timedelta(seconds=5)
            if evaluator is not None:
                evaluator.tick(self.now)


def alerts(database: Database) -> list[Alert]:
    with database.session() as session:
        return store.alerts(session, before_id=None, limit=100)


@pytest.fixture
def nodes(database: Database) -> Nodes:
    made = Nodes(database)
    made.serve(PAST_S)
    return made


def test_the_alert_names_the_node_and_ends_with_it(database: Database, nodes: Nodes) -> None:
    evaluator = AlertEvaluator(database, nodes.telemetry)
    nodes.serve(60.0, evaluator)
    assert alerts(database) == []
    slow_since = nodes.now
    nodes.serve(90.0, evaluator, c=1.5)
    (alert,) = alerts(database)
    assert alert.state == "firing" and abs((alert.started_at - slow_since).total_seconds()) <= 10
    evidence: dict[str, Any] = alert.evidence
    assert evidence["node"] == "c" and evidence["nodes_apart"] == ["c"]
    assert evidence["compared_with"] == ["a", "b", "d"]
    assert evidence["effect"]["low"] < 1.5 < evidence["effect"]["high"]
    assert evidence["itself"]["factor"] == pytest.approx(1.5, abs=0.2)
    assert evidence["itself"]["load_factor"] == pytest.approx(1.0)
    assert evidence["error_rate"]["streams"] == 4 and "4 nodes share" in evidence["error_rate"]["statement"]
    assert alert.value is not None and alert.threshold is not None
    assert alert.value / alert.threshold == pytest.approx(1.5, abs=0.2)
    assert alert.diagnosis is not None and alert.diagnosis.causes[0]["cause"] == "one_node"
    assert alert.diagnosis.causes[0]["node"] == "c"
    # A service that starts anew knows it still, and sees it end.
    again = AlertEvaluator(database, nodes.telemetry)
    nodes.serve(30.0, again, c=1.5)
    assert [one.state for one in alerts(database)] == ["firing"]
    nodes.serve(400.0, again)
    assert [one.state for one in alerts(database)] == ["resolved"]


def test_another_slow_node_is_told(database: Database, nodes: Nodes) -> None:
    evaluator = AlertEvaluator(database, nodes.telemetry)
    nodes.serve(60.0, evaluator)
    nodes.serve(60.0, evaluator, c=1.6)
    nodes.serve(180.0, evaluator, c=1.6, a=1.6)
    (alert,) = alerts(database)
    assert any("node a" in update.summary for update in alert.updates), alert.updates


def test_a_node_that_is_to_run_another_revision_is_not_compared(database: Database, nodes: Nodes) -> None:
    with database.session() as session:
        first, second = (
            fleet.create_revision(session, RevisionCreate(knobs={"max_num_seqs": size}), "t", nodes.now).number
            for size in (8, 16)
        )
        for node in HARDWARE:
            fleet.set_override(session, [node], second if node == "c" else first, nodes.now)
    evaluator = AlertEvaluator(database, nodes.telemetry)
    nodes.serve(60.0, evaluator)
    nodes.serve(90.0, evaluator, c=1.5)
    assert alerts(database) == []
