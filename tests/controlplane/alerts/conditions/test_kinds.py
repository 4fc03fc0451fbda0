"""What the seam promises of each kind of rule, over a world in which all is well and the same with one thing amiss.

A further kind needs a `World` here: without one the first test fails.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, get_args

import pytest

from controlplane import ledger
from controlplane.alerts.conditions import KINDS
from controlplane.alerts.conditions.finding import Reading
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Scope, Snapshot, Sources
from controlplane.alerts.evaluator import FOR_EVER_S
from controlplane.contract.bodies import alerts as bodies
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase
from controlplane.contract.bodies.slo import Limit, UseCase
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import E2E, REQUESTS, RUNNING, SPOOL_DROPPED, WAITING
from controlplane.db import Database
from controlplane.fleet import store as fleet
from controlplane.fleet.opamp.session import CONFIG_FAILED
from controlplane.fleet.tables import NodeRow

STEP = timedelta(seconds=5)


class World:
    """Pool `main` with node `a`, and one rule that is judged as the evaluator does it, but that nothing is written."""

    condition: Any

    def __init__(self, database: Database, telemetry: Any, plant: Any) -> None:
        self.database, self.telemetry, self.plant = database, telemetry, plant
        self.rule = bodies.AlertRule(id=1, name="rule", condition=self.condition, created_at=plant.now)
        self.kind = self.anew()
        self.position: datetime | None = None
        self.state: dict[str, Any] = {}
        with database.session() as session:
            fleet.enrol(session, EnrolmentRequest(node="a", pool="main", backend="vllm"), actor="t", now=plant.now)
            row = session.get(NodeRow, "a")
            assert row is not None
            row.effective = {"revision": 1, "knobs": {"max_num_seqs": 8}}
            session.add(row)

    def calm(self) -> None:
        """Five seconds in which all is well."""
        self.plant.serve(5, evenly=True)

    def broken(self) -> None:
        """Five seconds in which the condition holds."""
        raise NotImplementedError

    def anew(self) -> Kind[Any]:
        return KINDS[type(self.condition)](Sources(self.database, self.telemetry, FOR_EVER_S))

    def judge(self, kind: Kind[Any]) -> tuple[Job[Any], Findings]:
        end = self.plant.now
        with self.database.read_session() as session:
            seen = Snapshot([(self.rule, 1)], fleet.nodes(session), {}, [], {"main"})
            kind.read(session, [self.condition], end)
        pool = "main" if kind.scope is Scope.POOL else ""
        job = Job(kind, self.rule, 1, pool, 1, self.position, json.loads(json.dumps(self.state)), {})
        kind.prepare([job], seen, end)
        found = kind.judge(job, seen, end)
        assert found is not None
        return job, found

    def tick(self) -> Findings:
        _, found = self.judge(self.kind)
        self.position, self.state = self.plant.now, json.loads(json.dumps(found.state))
        return found

    def after(self, act: Callable[[], None], ticks: int) -> list[Findings]:
        said = []
        for _ in range(ticks):
            act()
            said.append(self.tick())
        return said

    def change_node(self, **values: Any) -> None:
        with self.database.session() as session:
            row = session.get(NodeRow, "a")
            assert row is not None
            session.add(row.sqlmodel_update(values))


class AbsoluteWorld(World):
    condition = bodies.AbsoluteCondition(limits=[Limit(metric="ttft", q=0.9, limit_s=1.0)])

    def broken(self) -> None:
        self.plant.serve(5, evenly=True, queue=100.0)


class RegressionWorld(World):
    condition = bodies.RegressionCondition(metrics=["ttft"], q=[0.95])

    def broken(self) -> None:
        self.plant.serve(5, evenly=True, prefill=9.0)


class NodeClaimedWorld(World):
    condition = bodies.NodeClaimedCondition()

    def calm(self) -> None:
        super().calm()
        self.change_node(last_seen=self.plant.now)

    def broken(self) -> None:
        self.calm()
        self.change_node(claimed_at=self.plant.now, claimed_by="an agent at 10.0.0.9")


class RolloutWaitsWorld(World):
    condition = bodies.RolloutWaitsCondition()
    waiting: tuple[Rollout, ...] = ()

    def anew(self) -> Kind[Any]:
        return KINDS[type(self.condition)](
            Sources(self.database, self.telemetry, FOR_EVER_S, rollouts=lambda _: self.waiting)
        )

    def broken(self) -> None:
        if not self.waiting:
            self.waiting = (
                Rollout(
                    id=3,
                    phase=RolloutPhase.PAUSED,
                    spec=RolloutCreate(pool="main", revision=2),
                    held="inconclusive, and no harm",
                    held_since=self.plant.now - timedelta(minutes=2),
                    created_by="ann",
                    created_at=self.plant.now - timedelta(hours=1),
                ),
            )
        self.plant.serve(5)


class RequestsFailedWorld(World):
    condition = bodies.RequestsFailedCondition()

    def end(self, **reasons: int) -> None:
        for reason, count in reasons.items():
            labels = {"pool": "main", "node": "a", "finish_reason": reason}
            self.telemetry.add(REQUESTS.short, self.plant.now, float(count), **labels)
        self.plant.serve(5, evenly=True)

    def calm(self) -> None:
        self.end(stop=15)

    def broken(self) -> None:
        self.end(stop=8, shed=7)


class DriftWorld(World):
    condition = bodies.DriftCondition()

    def broken(self) -> None:
        self.change_node(drift_since=self.plant.now)
        self.plant.serve(5)


class ConfigFailedWorld(World):
    condition = bodies.ConfigFailedCondition()

    def broken(self) -> None:
        told = {"now": self.plant.now, "actor": "agent a", "subject": "node/a", "message": "out of memory"}
        with self.database.session() as session:
            ledger.append(session, kind=CONFIG_FAILED, **told, revision=2, error="out of memory", role="serving")
        self.plant.serve(5)


class TelemetryLostWorld(World):
    condition = bodies.TelemetryLostCondition()

    def broken(self) -> None:
        self.telemetry.add(SPOOL_DROPPED.short, self.plant.now, 4.0, node="a", pool="main")
        self.plant.serve(5)


class BurnRateWorld(World):
    condition = bodies.BurnRateCondition(objectives=[Limit(metric="ttft", q=0.99, limit_s=1.0)])

    def broken(self) -> None:
        self.plant.serve(5, evenly=True, queue=100.0)


class SaturationWorld(World):
    condition = bodies.SaturationCondition(profile=UseCase.CHAT)
    waiting = 0.0

    def report(self, more: float) -> None:
        self.waiting += more
        for metric, value in ((RUNNING, 6.0), (WAITING, self.waiting)):
            self.telemetry.add(metric.short, self.plant.now, value, node="a", pool="main")
        self.plant.serve(5, evenly=True)

    def calm(self) -> None:
        self.report(0.0)

    def broken(self) -> None:
        self.report(10.0)


class TrafficChangedWorld(World):
    condition = bodies.TrafficChangedCondition()

    def __init__(self, database: Database, telemetry: Any, plant: Any) -> None:
        super().__init__(database, telemetry, plant)
        for tick in range(-900, 0):  # Of an hour or less nothing is judged.
            for bucket in ("<=128", "<=512"):
                labels = {"pool": "main", "node": "a", "prompt_bucket": bucket}
                telemetry.add(E2E.short, plant.now + tick * STEP, [0.6] * 15, **labels)

    def broken(self) -> None:
        self.plant.serve(5, evenly=True, rate=18.0, queue=20.0)


class SymptomWorld(World):
    condition = bodies.SymptomCondition(symptom="idle_with_queue")

    def report(self, running: float) -> None:
        for metric, value in ((RUNNING, running), (WAITING, 2.0)):
            self.telemetry.add(metric.short, self.plant.now, value, node="a", pool="main")
        self.plant.serve(5, evenly=True)

    def calm(self) -> None:
        self.report(4.0)

    def broken(self) -> None:
        self.report(0.0)


WORLDS = {world.condition.__class__: world for world in World.__subclasses__()}


@pytest.fixture(params=list(KINDS), ids=lambda condition: KINDS[condition].__name__)
def world(request: pytest.FixtureRequest, database: Database, telemetry: Any, plant: Any) -> World:
    return WORLDS[request.param](database, telemetry, plant)


def test_each_condition_of_the_contract_has_one_kind_and_each_kind_a_world() -> None:
    assert set(KINDS) == set(get_args(bodies.Condition)) == set(WORLDS)
    assert all(kind.condition is condition for condition, kind in KINDS.items())


def test_nothing_is_in_breach_where_nothing_is_amiss_and_what_is_amiss_is_found(world: World) -> None:
    for findings in world.after(world.calm, 24):
        assert all(finding.reading is not Reading.BREACH for finding in findings.found)
    (*_, last) = world.after(world.broken, 12)
    assert any(finding.reading is Reading.BREACH for finding in last.found)


def test_a_finding_names_its_kind_and_pool_and_a_breach_says_how_sure_it_is(world: World) -> None:
    world.after(world.calm, 24)
    said = [finding for findings in world.after(world.broken, 12) for finding in findings.found]
    breaches = [finding for finding in said if finding.reading is Reading.BREACH]
    for finding in said:
        assert (finding.labels["kind"], finding.labels["pool"]) == (world.condition.kind, "main")
    assert breaches[0].summary and breaches[0].evidence["error_rate"]["statement"]
    assert json.loads(json.dumps(breaches[0].evidence)) == breaches[0].evidence


def test_findings_are_in_the_order_of_time_also_after_an_absence(world: World) -> None:
    world.after(world.calm, 24)
    for _ in range(12):
        world.broken()
    times = [finding.at for finding in world.tick().found]
    assert times == sorted(times) and times[-1] == world.plant.now


def told(findings: Findings) -> list[Any]:
    """All but the figures: a baseline that is kept may be a little older than one that is built anew."""
    return [(one.labels, one.at, one.reading, one.since, one.metric, one.q, one.summary) for one in findings.found]


def test_judging_again_or_after_a_restart_finds_the_same_and_leaves_the_job_as_it_was(world: World) -> None:
    world.after(world.calm, 24)
    for _ in range(8):
        world.broken()
        _, again = world.judge(world.kind)
        job, first = world.judge(world.kind)
        before = replace(job, state=json.loads(json.dumps(world.state)))
        _, restarted = world.judge(world.anew())
        assert told(first) == told(again) == told(restarted)
        assert job == before
        world.kind.forget(job)
        assert told(world.tick()) == told(first)


def test_a_default_condition_passes_and_no_rules_want_nothing(world: World) -> None:
    world.kind.check(world.condition)
    with world.database.read_session() as session:
        world.kind.read(session, [], world.plant.now)
    world.kind.prepare([], Snapshot([], [], {}, []), world.plant.now)


@pytest.mark.parametrize(
    ("condition", "field"),
    [
        (bodies.AbsoluteCondition(), "condition.limits"),
        (bodies.AbsoluteCondition(limits=[Limit(metric="x", q=0.9, limit_s=1.0)]), "condition.limits[0].metric"),
        (bodies.BurnRateCondition(), "condition.objectives"),
        (
            bodies.BurnRateCondition(objectives=[Limit(metric="x", q=0.9, limit_s=1.0)]),
            "condition.objectives[0].metric",
        ),
        (bodies.SymptomCondition(symptom="kv_near_ful"), "condition.symptom"),
        (bodies.SymptomCondition(symptom="drift"), "condition.symptom"),
        (bodies.RegressionCondition(metrics=["ttft", "ttft"]), "condition.metrics"),
        (bodies.RegressionCondition(q=[0.95, 0.4]), "condition.q[1]"),
    ],
)
def test_a_condition_that_cannot_be_judged_is_refused_by_its_field(condition: Any, field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        KINDS[type(condition)].check(condition)
    assert refused.value.detail["field"] == field
