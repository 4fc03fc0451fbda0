"""What arrives against what is served, through the evaluator: bad changes that only queue, surges, mixes, upgrades."""

from datetime import timedelta
from typing import Any

import pytest

from controlplane import ledger
from controlplane.alerts import store
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.alerts import (
    Alert,
    AlertRuleCreate,
    BurnRateCondition,
    RegressionCondition,
    SaturationCondition,
    Severity,
    TrafficChangedCondition,
)
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.slo import Limit, UseCase
from controlplane.contract.metrics import OUTPUT_TOKENS, PROMPT_TOKENS, RUNNING, WAITING
from controlplane.db import Database
from controlplane.fleet import store as fleet
from controlplane.fleet.tables import NodeRow

USUAL_S = 600


class Pool:
    """A pool that tells what waits in it, and an evaluator beside it."""

    def __init__(self, database: Database, telemetry: Any, plant: Any, *conditions: Any) -> None:
        self.database, self.telemetry, self.plant = database, telemetry, plant
        self.waiting = 0.0
        self.evaluator = AlertEvaluator(database, telemetry)
        with database.session() as session:
            for condition in conditions:
                store.create_rule(session, AlertRuleCreate(name=condition.kind, condition=condition), plant.now)

    def serve(self, seconds: float, *, arrives: float = 6.0, serves: float = 20.0, **how: Any) -> None:
        """arrives, serves: requests a second; what is not served waits, and waiting shows in the queue stage."""
        for _ in range(round(seconds / 5)):
            come = int(self.plant.random.poisson(5 * arrives))
            done = min(self.waiting + come, 5 * serves)
            wait_s = self.waiting / serves
            self.waiting += come - done
            for metric, value in ((RUNNING, 8.0), (WAITING, self.waiting)):
                self.telemetry.add(metric.short, self.plant.now, value, node="a", pool="main")
            for metric, each in ((PROMPT_TOKENS, 200.0), (OUTPUT_TOKENS, 50.0)):
                self.telemetry.add(metric.short, self.plant.now, each * done, node="a", pool="main")
            self.plant.serve(5, rate=done / 5, queue=1.0 + 50.0 * wait_s, **how)
            self.evaluator.tick(self.plant.now)

    @property
    def alerts(self) -> list[Alert]:
        """Oldest first."""
        with self.database.read_session() as session:
            return store.alerts(session, before_id=None, limit=100)[::-1]


@pytest.fixture
def new_pool(database: Database, telemetry: Any, plant: Any) -> Any:
    return lambda *conditions: Pool(database, telemetry, plant, *conditions)


def revisions(database: Database, now: Any) -> tuple[int, int]:
    with database.session() as session:
        made = [fleet.create_revision(session, RevisionCreate(knobs={"max_num_seqs": n}), "me", now) for n in (16, 1)]
    return made[0].number, made[1].number


@pytest.mark.slow
def test_a_change_that_only_makes_requests_wait_is_told_within_a_minute_with_its_cause(
    database: Database, new_pool: Any
) -> None:
    pool = new_pool(SaturationCondition(profile=UseCase.CHAT), RegressionCondition())
    good, bad = revisions(database, pool.plant.now)
    pool.serve(USUAL_S, revision=good)
    assert pool.alerts == []
    changed = pool.plant.now
    pool.serve(60, serves=2.0, revision=bad)
    (alert,) = pool.alerts
    assert alert.labels == {"kind": "saturation", "pool": "main", "sign": "objective"}
    assert alert.severity is Severity.PAGE and abs((alert.started_at - changed).total_seconds()) <= 15
    assert alert.diagnosis is not None and alert.diagnosis.stage == "queue"
    assert (alert.diagnosis.causes[0]["cause"], alert.diagnosis.causes[0]["revision"]) == ("config_change", bad)
    assert "max_num_seqs 16 -> 1" in alert.summary and "tokens/s arrive" in alert.summary
    load = alert.evidence["load"]
    assert load["arrived"] > 1.2 * load["served"] and load["served"] < load["knee"]
    assert max(load["shares"], key=load["shares"].get) == "capacity_each"
    assert str(bad) in alert.evidence["about"]["revisions"]
    assert "one false alarm in 28 days over 1 pool" in alert.evidence["error_rate"]["statement"]


@pytest.mark.slow
def test_it_ends_once_nobody_waits(new_pool: Any) -> None:
    pool = new_pool(SaturationCondition(profile=UseCase.CHAT))
    pool.serve(USUAL_S)
    pool.serve(90, serves=2.0)
    pool.serve(200, serves=40.0)
    assert [alert.state for alert in pool.alerts] == ["resolved"]
    assert len(pool.alerts[0].updates) == 0


@pytest.mark.slow
def test_bursts_that_the_pool_makes_by_itself_are_nothing(new_pool: Any) -> None:
    pool = new_pool(SaturationCondition(profile=UseCase.CHAT))
    pool.serve(1200, arrives=6.0, serves=8.0)
    assert pool.alerts == []


@pytest.mark.slow
def test_without_an_objective_it_is_a_ticket(new_pool: Any) -> None:
    pool = new_pool(SaturationCondition())
    pool.serve(USUAL_S)
    pool.serve(90, serves=2.0)
    (alert,) = pool.alerts
    assert (alert.labels["sign"], alert.severity) == ("backlog", Severity.TICKET)
    assert "no objective is known for the pool" in alert.summary


@pytest.mark.slow
def test_it_pages_once_an_objective_of_another_rule_is_near_and_not_before(new_pool: Any) -> None:
    promise = BurnRateCondition(objectives=[Limit(metric="ttft", q=0.95, limit_s=60.0)])
    pool = new_pool(SaturationCondition(horizon_s=0), promise)
    pool.serve(USUAL_S)
    pool.serve(60, serves=4.0)
    assert [(alert.labels["sign"], alert.severity) for alert in pool.alerts] == [("backlog", Severity.TICKET)]
    assert "TTFT p95 passes its limit of 60.0 s in" in pool.alerts[0].summary
    pool.serve(90, serves=2.0)
    signs = [(alert.labels["sign"], alert.severity, alert.state) for alert in pool.alerts if "sign" in alert.labels]
    assert signs == [("backlog", Severity.TICKET, "firing"), ("objective", Severity.PAGE, "firing")]


@pytest.mark.slow
def test_more_load_is_what_explains_an_overload(new_pool: Any) -> None:
    pool = new_pool(SaturationCondition(profile=UseCase.CHAT))
    pool.serve(USUAL_S, serves=8.0)
    pool.serve(60, arrives=20.0, serves=8.0)
    (alert,) = pool.alerts
    assert max(alert.evidence["load"]["shares"], key=alert.evidence["load"]["shares"].get) == "requests"
    assert alert.diagnosis is not None and alert.diagnosis.causes[0]["cause"] == "load"


@pytest.mark.slow
def test_a_pool_that_does_not_tell_what_waits_is_not_judged(
    database: Database, telemetry: Any, new_pool: Any, plant: Any
) -> None:
    pool = new_pool(SaturationCondition(profile=UseCase.CHAT))
    for _ in range(150):
        plant.serve(5, queue=1.0 if plant.now.minute < 10 else 90.0)
        pool.evaluator.tick(plant.now)
    assert pool.alerts == []


class Traffic:
    """A pool of which only requests and first tokens are told, and a rule on its traffic."""

    def __init__(self, database: Database, telemetry: Any, plant: Any, sketch: Any) -> None:
        self.database, self.telemetry, self.plant, self.sketch = database, telemetry, plant, sketch
        self.evaluator = AlertEvaluator(database, telemetry)
        with database.session() as session:
            store.create_rule(session, AlertRuleCreate(name="t", condition=TrafficChangedCondition()), plant.now)

    def serve(
        self, seconds: float, rate: float = 6.0, long: float = 0.02, slow: float = 1.0, judged: bool = True
    ) -> None:
        random = self.plant.random
        for _ in range(round(seconds / 5)):
            for bucket, share, usual_s in (("<=512", 1.0 - long, 0.5), ("<=2k", long, 2.0)):
                if count := int(random.poisson(5 * rate * share)):
                    values = usual_s * slow * random.lognormal(0.0, 0.4, count)
                    for metric, part in (("e2e", 1.0), ("ttft", 0.4)):
                        labels = {"pool": "main", "node": "a", "prompt_bucket": bucket}
                        self.telemetry.add(metric, self.plant.now, self.sketch(part * values), **labels)
            self.plant.now += timedelta(seconds=5)
            if judged:
                self.evaluator.tick(self.plant.now)

    @property
    def alerts(self) -> list[Alert]:
        with self.database.read_session() as session:
            return store.alerts(session, before_id=None, limit=9)[::-1]


@pytest.fixture
def traffic(database: Database, telemetry: Any, plant: Any, sketch: Any) -> Traffic:
    made = Traffic(database, telemetry, plant, sketch)
    made.serve(4800, judged=False)
    made.serve(60)
    assert made.alerts == []
    return made


@pytest.mark.slow
def test_a_surge_that_users_feel_is_told_as_a_surge(traffic: Traffic) -> None:
    began = traffic.plant.now
    traffic.serve(90, rate=15.0, slow=1.4)
    (alert,) = traffic.alerts
    assert alert.labels == {"kind": "traffic_changed", "pool": "main", "sign": "surge"}
    assert "Load rose from 6" in alert.summary and "TTFT p95 went from" in alert.summary
    assert abs((alert.started_at - began).total_seconds()) <= 10
    traffic.serve(120)
    assert [alert.state for alert in traffic.alerts] == ["resolved"]


@pytest.mark.slow
def test_more_load_that_nobody_feels_is_not_told(traffic: Traffic) -> None:
    traffic.serve(90, rate=15.0)
    assert traffic.alerts == []


@pytest.mark.slow
def test_longer_prompts_are_told_as_a_mix_with_what_they_do_by_themselves(traffic: Traffic) -> None:
    traffic.serve(300, long=0.25)
    (alert,) = traffic.alerts
    assert alert.labels == {"kind": "traffic_changed", "pool": "main", "sign": "mix"}
    assert "those over 512 tokens were 2 % of requests, now" in alert.summary
    assert alert.evidence["e2e_by_mix_alone_s"] > 1.1 * alert.evidence["e2e_before_s"]


@pytest.mark.slow
def test_a_new_engine_version_begins_baselines_anew_and_alerts_name_it(
    database: Database, telemetry: Any, plant: Any
) -> None:
    with database.session() as session:
        fleet.enrol(session, EnrolmentRequest(node="a", pool="main", backend="vllm"), actor="t", now=plant.now)
        row = session.get(NodeRow, "a")
        assert row is not None
        row.engine_version = "vllm 0.32.0"
        store.create_rule(session, AlertRuleCreate(name="r", condition=RegressionCondition()), plant.now)
    evaluator = AlertEvaluator(database, telemetry)

    def run(seconds: float, **how: Any) -> None:
        for _ in range(round(seconds / 5)):
            plant.serve(5, **how)
            evaluator.tick(plant.now)

    run(600)
    with database.session() as session:
        told = {"pool": "main", "version": "vllm 0.33.0"}
        subject, message = "node/a", "the engine of node a is vllm 0.33.0, was vllm 0.32.0"
        ledger.append(session, plant.now, "agent a", "node.engine_version", subject, message, **told)
        row = session.get(NodeRow, "a")
        assert row is not None
        row.engine_version = "vllm 0.33.0"
    run(300, prefill=2.0)
    with database.read_session() as session:
        assert store.alerts(session, before_id=None, limit=9) == []
        moved = ledger.since(session, "alert", plant.now - timedelta(hours=1))
        assert {entry.evidence["metric"] for entry in moved if entry.kind == "alert.baseline_moved"} >= {
            "prefill",
            "itl",
        }
        assert all(entry.evidence["engine_version"] == "vllm 0.33.0" for entry in moved)
    run(90, prefill=9.0)
    with database.read_session() as session:
        (alert,) = store.alerts(session, before_id=None, limit=9)
    assert alert.labels["metric"] == "prefill" and "under revision 1 on vllm 0.33.0" in alert.summary
    assert alert.evidence["about"] == {"revisions": {"1": 1.0}, "engines": {"vllm 0.33.0": 1}}
    assert alert.evidence["baseline"]["moved"][0]["engine_version"] == "vllm 0.33.0"
