"""A configuration that a node could not bring up: found once, told at once, held as long as it matters."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select

from controlplane import ledger
from controlplane.alerts import store
from controlplane.alerts.conditions.finding import Reading
from controlplane.alerts.conditions.fleet_wide.config_failed import ConfigHistory, attempt_of, judge_config_failed
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.alerts.rules.defaults import DEFAULT_RULES, LEDGER_KIND, ensure_default_rules
from controlplane.alerts.tables import DeliveryRow, DestinationRow
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.alerts import Alert, AlertRuleCreate, ConfigFailedCondition, DriftCondition
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig, NodeView
from controlplane.db import Database
from controlplane.fleet import store as fleet
from controlplane.fleet.opamp.session import CONFIG_APPLIED, CONFIG_FAILED
from controlplane.fleet.tables import NodeRow

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
CONDITION = ConfigFailedCondition()


def entry(number: int, kind: str, revision: int, at: datetime = NOW, node: str = "a", **evidence: Any) -> LedgerEntry:
    return LedgerEntry(
        id=number,
        time=at,
        actor=f"agent {node}",
        kind=kind,
        subject=f"node/{node}",
        message="x",
        evidence={"hash": f"{revision}:f00", "revision": revision, "production_revision": 1, **evidence},
    )


def failure(number: int, revision: int, at: datetime = NOW, **evidence: Any) -> LedgerEntry:
    return entry(number, CONFIG_FAILED, revision, at, **({"error": "out of memory", "role": "serving"} | evidence))


def node(status: ConfigStatus = ConfigStatus.APPLIED, **more: Any) -> NodeView:
    given = {"node": "a", "pool": "p", "role": "serving", "backend": "vllm", "connected": True, "healthy": True}
    return NodeView.model_validate(
        given
        | {"config_status": status, "desired_revision": 1, "effective": EffectiveConfig(revision=1, knobs={})}
        | more
    )


def history_of(failed: list[LedgerEntry], applied: list[LedgerEntry]) -> ConfigHistory:
    return ConfigHistory([*map(attempt_of, failed)], [*map(attempt_of, applied)])


class Rule:
    """One rule through its ticks: what it said last, and what it remembers."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"told": {}, "open": {}}
        self.firing = False

    def tick(
        self, failed: list[LedgerEntry], applied: list[LedgerEntry], at: datetime, *nodes: NodeView
    ) -> list[Reading]:
        findings, self.state = judge_config_failed(
            CONDITION, history_of(failed, applied), self.state, nodes or (node(),), at, lambda _: self.firing
        )
        if findings:
            self.firing = findings[-1].reading is Reading.BREACH
        return [finding.reading for finding in findings]


def test_a_failure_is_told_though_the_node_has_gone_back_already() -> None:
    rule = Rule()
    back = entry(2, CONFIG_APPLIED, 1)
    assert rule.tick([failure(1, 2)], [back], NOW + timedelta(seconds=4)) == [Reading.BREACH]
    assert rule.tick([failure(1, 2)], [back], NOW + timedelta(seconds=299)) == [Reading.BREACH]
    assert rule.tick([failure(1, 2)], [back], NOW + timedelta(seconds=300)) == [Reading.CLEAR]
    assert rule.tick([failure(1, 2)], [back], NOW + timedelta(seconds=301)) == [Reading.CLEAR]


def test_it_lasts_until_the_node_runs_what_it_should() -> None:
    rule = Rule()
    broken = node(ConfigStatus.FAILED, desired_revision=2)
    assert rule.tick([failure(1, 2)], [], NOW, broken) == [Reading.BREACH]
    # The ledger's entry is long out of sight by then.
    assert rule.tick([], [], NOW + timedelta(hours=5), broken) == [Reading.BREACH]
    assert rule.tick([], [], NOW + timedelta(hours=6), node(drift=True)) == [Reading.BREACH]
    assert rule.tick([], [], NOW + timedelta(hours=7), node(ConfigStatus.APPLYING)) == [Reading.BREACH]
    assert rule.tick([], [], NOW + timedelta(hours=8), node(ConfigStatus.UNSET)) == [Reading.CLEAR]


def test_another_configuration_ends_it_early_and_a_second_failure_is_an_alert_of_its_own() -> None:
    rule = Rule()
    assert rule.tick([failure(1, 2)], [entry(2, CONFIG_APPLIED, 1)], NOW) == [Reading.BREACH]
    later = NOW + timedelta(seconds=60)
    assert rule.tick([failure(1, 2), failure(3, 2, later)], [], later) == [Reading.BREACH]
    assert rule.tick([failure(4, 5, later)], [], later) == [Reading.CLEAR, Reading.BREACH]
    applied = entry(6, CONFIG_APPLIED, 7)
    assert rule.tick([failure(4, 5, later)], [applied], later, node(desired_revision=7)) == [Reading.CLEAR]


def test_trial_nodes_and_what_was_over_before_the_rule_do_not_alert() -> None:
    rule = Rule()
    assert rule.tick([failure(1, 2)], [], NOW, node(role="trial")) == []
    assert rule.tick([failure(2, 2, role="trial")], [], NOW) == [Reading.CLEAR]
    rule.state = {}
    assert rule.tick([failure(1, 2)], [], NOW + timedelta(seconds=320)) == []
    assert rule.tick([failure(1, 2)], [], NOW + timedelta(seconds=330)) == [Reading.CLEAR]


def test_the_summary_says_what_differed_and_ends_with_the_logs_end() -> None:
    error = "vLLM did not come up:\n" + "line\n" * 400 + "ValueError: no kernel for int4"
    said = failure(1, 2, error=error, differing={"quantization": ["none", "int4"]})
    findings, _ = judge_config_failed(CONDITION, history_of([said], []), {}, (node(),), NOW, lambda _: False)
    assert findings[0].labels == {"kind": "config_failed", "pool": "p", "node": "a"}
    assert "revision 2 (quantization none -> int4); it runs revision 1" in findings[0].summary
    assert findings[0].summary.endswith("no kernel for int4") and len(findings[0].summary) < 500
    assert findings[0].evidence["error"].endswith("no kernel for int4") and len(findings[0].evidence["error"]) < 1600
    assert findings[0].evidence["differing"] == {"quantization": ["none", "int4"]}


def test_an_entry_of_an_older_version_still_names_revision_and_error() -> None:
    old = LedgerEntry(
        id=1, time=NOW, actor="agent a", kind=CONFIG_FAILED, subject="node/a",
        message="revision 4 could not be applied: out of memory", evidence={"hash": "4:f00"},
    )  # fmt: skip
    findings, _ = judge_config_failed(CONDITION, history_of([old], []), {}, (node(),), NOW, lambda _: False)
    assert "could not bring up revision 4" in findings[0].summary and "out of memory" in findings[0].summary


@given(st.lists(st.tuples(st.integers(0, 10), st.sampled_from(["fail", "apply", "tick"])), max_size=30))
def test_every_failure_is_told_exactly_once_whenever_the_ticks_come(steps: list[tuple[int, str]]) -> None:
    """Each tick that finds failures since the one before begins one life, and no life begins without a failure."""
    rule, at = Rule(), NOW
    failed: list[LedgerEntry] = []
    applied: list[LedgerEntry] = []
    untold = 0
    for number, (wait_s, what) in enumerate([*steps, (0, "tick")], 1):
        at += timedelta(seconds=wait_s)
        if what == "fail":
            failed.append(failure(number, 100 + number, at))
            untold += 1
        elif what == "apply":
            applied.append(entry(number, CONFIG_APPLIED, 1, at))
        else:
            was = rule.firing
            readings = rule.tick(failed, applied, at)
            begins = readings[-1] is Reading.BREACH and (not was or readings == [Reading.CLEAR, Reading.BREACH])
            assert begins == bool(untold)
            untold = 0


# -- in the service's own database -------------------------------------------------------------------------------------


@pytest.fixture
def evaluator(database: Database, telemetry: Any) -> AlertEvaluator:
    return AlertEvaluator(database, telemetry)


def alerts(database: Database) -> list[Alert]:
    with database.read_session() as session:
        return store.alerts(session, before_id=None, limit=100)


@pytest.fixture
def report(database: Database) -> Callable[..., None]:
    """A serving node `a` that runs revision 1 and tells of others."""
    with database.session() as session:
        fleet.enrol(session, EnrolmentRequest(node="a", pool="p", backend="vllm"), actor="t", now=NOW)
        for seqs in (8, 16):
            fleet.create_revision(session, RevisionCreate(knobs={"max_num_seqs": seqs}), "t", NOW)
        fleet.set_pool_revision(session, "p", 1, NOW)
        row = session.get_one(NodeRow, "a")
        row.config_status, row.config_hash = "applied", f"1:{fleet.revision(session, 1).hash}"
        row.effective = {"revision": 1, "knobs": {"max_num_seqs": 8}}
        session.add(row)

    def say(kind: str, revision: int, at: datetime) -> None:
        with database.session() as session:
            said = failure(1, revision).evidence
            ledger.append(session, now=at, actor="agent a", kind=kind, subject="node/a", message="m", **said)

    return say


def test_an_alert_is_delivered_once_and_outlives_a_restart_of_the_service(
    database: Database, telemetry: Any, report: Callable[..., None]
) -> None:
    with database.session() as session:
        wanted = AlertRuleCreate(name="Configuration failed", condition=CONDITION)
        store.create_rule(session, wanted, NOW)
        session.add(DestinationRow(name="pager", shown="http://127.0.0.1:9/x", created_at=NOW))
    AlertEvaluator(database, telemetry).tick(NOW)
    report(CONFIG_FAILED, 2, NOW + timedelta(seconds=3))
    report(CONFIG_APPLIED, 1, NOW + timedelta(seconds=4))
    for second in (5, 10, 200):
        AlertEvaluator(database, telemetry).tick(NOW + timedelta(seconds=second))
        assert [(one.state, one.fired_at) for one in alerts(database)] == [("firing", NOW + timedelta(seconds=5))]
    assert alerts(database)[0].diagnosis is not None
    AlertEvaluator(database, telemetry).tick(NOW + timedelta(seconds=304))
    assert [one.state for one in alerts(database)] == ["resolved"]
    with database.read_session() as session:
        assert [row.status for row in session.exec(select(DeliveryRow))] == ["firing", "resolved"]


def test_a_node_that_is_removed_ends_its_alert(
    database: Database, evaluator: AlertEvaluator, report: Callable[..., None]
) -> None:
    with database.session() as session:
        store.create_rule(session, AlertRuleCreate(name="failed", condition=CONDITION, pool="p"), NOW)
    report(CONFIG_FAILED, 2, NOW)
    evaluator.tick(NOW)
    assert [one.state for one in alerts(database)] == ["firing"]
    with database.session() as session:
        fleet.remove(session, "a", actor="t", now=NOW)
    evaluator.tick(NOW + timedelta(seconds=5))
    assert [one.state for one in alerts(database)] == ["resolved"]


# -- the default rule --------------------------------------------------------------------------------------------------


SYMPTOMS = sum(rule.condition.kind == "symptom" for rule in DEFAULT_RULES)


def kinds(database: Database) -> list[str]:
    with database.read_session() as session:
        found = [rule.condition.kind for rule in store.rules(session)]
    assert found.count("symptom") in (0, SYMPTOMS)
    return sorted(kind for kind in found if kind != "symptom")


def ensure(database: Database) -> int:
    with database.session() as session:
        return ensure_default_rules(session, NOW)


def test_an_older_installation_gets_the_new_rule_once(database: Database) -> None:
    with database.session() as session:
        # What the first start of an older version left: its ledger entry named no kinds.
        store.create_rule(session, AlertRuleCreate(name="Configuration drift", condition=DriftCondition()), NOW)
        ledger.append(session, now=NOW, actor="tailwright", kind=LEDGER_KIND, subject="alert-rules", message="m")
    assert ensure(database) == 7 + SYMPTOMS
    # The regression rule had been deleted, and stays so.
    newer = ["node_claimed", "requests_failed", "rollout_waits", "saturation", "telemetry_lost", "traffic_changed"]
    assert kinds(database) == ["config_failed", "drift", *newer]
    with database.session() as session:
        for rule in store.rules(session):
            store.delete_rule(session, rule.id, NOW)
    assert ensure(database) == 0 and kinds(database) == []


def test_a_rule_of_its_kind_that_somebody_made_is_not_doubled(database: Database) -> None:
    with database.session() as session:
        store.create_rule(session, AlertRuleCreate(name="mine", condition=CONDITION), NOW)
    assert ensure(database) == 6 + SYMPTOMS
    newer = ["node_claimed", "requests_failed", "rollout_waits", "saturation", "telemetry_lost", "traffic_changed"]
    assert kinds(database) == ["config_failed", *newer]
    with database.session() as session:
        for rule in store.rules(session):
            store.delete_rule(session, rule.id, NOW)
    assert ensure(database) == 0
