"""What is told of an alert while it is open: growth, a wider reach, another cause; once a minute; silences hold it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlmodel import Session, select

from controlplane import ledger
from controlplane.alerts import store
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.alerts.tables import AlertRow, DeliveryRow, DestinationRow, SilenceRow
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.alerts import (
    AbsoluteCondition,
    Alert,
    AlertRule,
    AlertRuleCreate,
    RegressionCondition,
    RequestsFailedCondition,
    UpdateKind,
)
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.remedies import RemedyAction, RemedyState, RemedyStep
from controlplane.contract.bodies.slo import Limit
from controlplane.db import Database
from controlplane.fleet import store as fleet
from controlplane.ledger import entries

pytestmark = pytest.mark.slow

TTFT_ONLY = RegressionCondition(metrics=["ttft"])


def add_rule(database: Database, condition: Any, now: datetime) -> None:
    with database.session() as session:
        store.create_rule(session, AlertRuleCreate(name="rule", condition=condition), now)
        session.add(DestinationRow(name="pager", shown="http://127.0.0.1:9/x", created_at=now))


def alerts(database: Database) -> list[Alert]:
    with database.session() as session:
        return store.alerts(session, before_id=None, limit=100)


def deliveries(database: Database) -> list[DeliveryRow]:
    with database.session() as session:
        return list(session.exec(select(DeliveryRow).order_by(DeliveryRow.id)))  # type: ignore[arg-type]


def run(evaluator: AlertEvaluator, seconds: float, *plants: Any, **how: Any) -> None:
    for _ in range(round(seconds / 5)):
        for plant in plants:
            plant.serve(5, **how)
        evaluator.tick(plants[0].now)


@pytest.fixture
def evaluator(database: Database, telemetry: Any) -> AlertEvaluator:
    return AlertEvaluator(database, telemetry)


def test_growth_is_told_with_a_delivery_of_its_own(database: Database, plant: Any, evaluator: AlertEvaluator) -> None:
    add_rule(database, TTFT_ONLY, plant.now)
    run(evaluator, 180, plant)
    run(evaluator, 90, plant, prefill=3.0)
    first = alerts(database)[0]
    assert first.updates == []  # Nothing new of the same: an open alert does not chatter.
    grown = plant.now
    run(evaluator, 90, plant, prefill=20.0)
    alert = alerts(database)[0]
    assert alert.id == first.id and alert.state == "firing" and len(alert.updates) == 1
    update = alert.updates[0]
    assert update.kinds == [UpdateKind.GREW] and (update.time - grown).total_seconds() <= 60
    assert first.value is not None and update.value is not None and update.value > 3 * first.value
    # The alert says what is the case now; what it said before is not lost.
    assert alert.value == update.value and alert.summary != first.summary and first.summary in update.summary
    told = deliveries(database)
    assert [row.status for row in told] == ["firing", "firing"]
    assert told[0].idempotency_key != told[1].idempotency_key and ":updated:" in told[1].idempotency_key
    assert '"update":"TTFT p9' in told[1].body and '"status":"firing"' in told[1].body
    with database.session() as session:
        found = [entry.kind for entry in entries(session, before_id=None, limit=9, kind="alert")]
    assert found == ["alert.updated", "alert.fired"]


def test_at_most_one_update_a_minute_and_none_lost(database: Database, plant: Any, evaluator: AlertEvaluator) -> None:
    add_rule(database, TTFT_ONLY, plant.now)
    run(evaluator, 180, plant)
    run(evaluator, 20, plant, prefill=3.0)
    fired = alerts(database)[0].fired_at
    assert fired is not None
    run(evaluator, 10, plant, prefill=3.0)
    run(evaluator, 20, plant, prefill=30.0)  # Within the minute, and over before its end.
    run(evaluator, 40, plant, prefill=3.0)
    alert = alerts(database)[0]
    assert [update.kinds[0] for update in alert.updates] == [UpdateKind.GREW]
    assert 60 <= (alert.updates[0].time - fired).total_seconds() <= 65
    assert alert.updates[0].value is not None and alert.value is not None
    for factor in (9.0, 27.0, 81.0, 250.0):
        run(evaluator, 45, plant, prefill=factor)
    times = [update.time for update in alerts(database)[0].updates]
    assert len(times) >= 3
    assert all(later - earlier >= timedelta(seconds=60) for earlier, later in pairwise(times))


def test_another_node_is_told(database: Database, telemetry: Any, new_plant: Any, evaluator: AlertEvaluator) -> None:
    one, other = new_plant(telemetry, node="a"), new_plant(telemetry, node="b", seed=8)
    add_rule(database, TTFT_ONLY, one.now)
    run(evaluator, 180, one, other)
    for _ in range(18):
        one.serve(5, prefill=4.0)
        other.serve(5)
        evaluator.tick(one.now)
    assert [alert.state for alert in alerts(database)] == ["firing"] and alerts(database)[0].updates == []
    run(evaluator, 130, one, other, prefill=4.0)
    updates = alerts(database)[0].updates
    assert updates and UpdateKind.SPREAD in updates[0].kinds and "node b" in updates[0].summary


def test_what_a_young_slowdown_had_too_few_requests_for_is_corrected_without_a_word(
    database: Database, telemetry: Any, new_plant: Any, evaluator: AlertEvaluator
) -> None:
    one, other = new_plant(telemetry, node="a"), new_plant(telemetry, node="b", seed=8)
    limits = [Limit(metric="ttft", q=0.95, limit_s=0.8)]
    add_rule(database, AbsoluteCondition(limits=limits, window_s=60, for_s=5, min_count=10), one.now)
    run(evaluator, 300, one, other, rate=0.6)
    for _ in range(20):
        one.serve(5, rate=0.6, prefill=12.0)
        other.serve(5, rate=0.6)
        evaluator.tick(one.now)
        if any(alert.state == "firing" for alert in alerts(database)):
            break
    (young,) = alerts(database)
    assert young.diagnosis is not None and young.diagnosis.attribution is not None
    assert young.diagnosis.attribution.place is None
    for _ in range(9):
        one.serve(5, rate=0.6, prefill=12.0)
        other.serve(5, rate=0.6)
        evaluator.tick(one.now)
    (alert,) = alerts(database)
    assert alert.diagnosis is not None and alert.diagnosis.attribution is not None
    place = alert.diagnosis.attribution.place
    assert place is not None and (place.label, place.value) == ("node", "a")
    assert alert.summary == alert.diagnosis.summary and "node a alone" in alert.summary
    assert alert.updates == [] and len(deliveries(database)) == 1
    with database.session() as session:
        found = [entry.kind for entry in entries(session, before_id=None, limit=9, kind="alert")]
    assert found == ["alert.corrected", "alert.fired"]


def test_another_cause_is_told_and_the_remedy_asked_again(database: Database, telemetry: Any, plant: Any) -> None:
    asked: list[str] = []

    def on_fire(session: Session, alert: Alert, rule: AlertRule, now: datetime) -> Sequence[RemedyStep]:
        assert alert.diagnosis is not None
        cause = str(alert.diagnosis.causes[0]["cause"])
        asked.append(cause)
        action = RemedyAction.ROLL_BACK if cause == "config_change" else RemedyAction.ADMISSION
        return [RemedyStep(time=now, action=action, state=RemedyState.OFFERED, cause=cause, why="it fits")]

    with database.session() as session:
        for size in (512, 64):
            fleet.create_revision(session, RevisionCreate(knobs={"max_num_seqs": size}), "test", plant.now)
    add_rule(database, TTFT_ONLY, plant.now)
    evaluator = AlertEvaluator(database, telemetry, on_fire)
    run(evaluator, 180, plant)
    run(evaluator, 60, plant, prefill=4.0)
    run(evaluator, 130, plant, prefill=4.0, revision=2)
    alert = alerts(database)[0]
    assert [UpdateKind.CAUSE in update.kinds for update in alert.updates] == [True]
    assert asked == ["unknown", "config_change"]
    assert [step.action for step in alert.remedies] == [RemedyAction.ADMISSION, RemedyAction.ROLL_BACK]
    assert alert.diagnosis is not None and alert.diagnosis.causes[0]["cause"] == "config_change"
    # What goes out says what is done about it.
    assert '"action":"roll_back"' in deliveries(database)[-1].body


def test_a_silence_holds_updates_back_until_it_ends(database: Database, plant: Any, evaluator: AlertEvaluator) -> None:
    add_rule(database, TTFT_ONLY, plant.now)
    run(evaluator, 180, plant)
    run(evaluator, 60, plant, prefill=3.0)
    assert len(deliveries(database)) == 1
    with database.session() as session:
        ends = plant.now + timedelta(seconds=120)
        told = {"created_by": "me", "comment": "known"}
        session.add(SilenceRow(matchers={"pool": "main"}, starts_at=plant.now, ends_at=ends, **told))
    run(evaluator, 115, plant, prefill=20.0)
    alert = alerts(database)[0]
    assert len(alert.updates) == 1 and alert.silenced and len(deliveries(database)) == 1
    run(evaluator, 10, plant, prefill=20.0)
    told = deliveries(database)
    assert [row.status for row in told] == ["firing", "firing"] and not alerts(database)[0].silenced
    assert told[1].idempotency_key != told[0].idempotency_key and "grew from" in told[1].body


def test_an_absolute_limit_grows_too(database: Database, plant: Any, evaluator: AlertEvaluator) -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=0.6)]
    add_rule(database, AbsoluteCondition(limits=limits, window_s=30, for_s=15), plant.now)
    run(evaluator, 60, plant)
    run(evaluator, 120, plant, queue=60.0)
    assert alerts(database)[0].updates == []
    run(evaluator, 90, plant, queue=400.0)
    updates = alerts(database)[0].updates
    assert updates and updates[-1].kinds == [UpdateKind.GREW] and updates[-1].value == pytest.approx(15.0, rel=0.5)


def test_a_restart_neither_forgets_nor_repeats_what_was_told(database: Database, telemetry: Any, plant: Any) -> None:
    add_rule(database, TTFT_ONLY, plant.now)
    run(AlertEvaluator(database, telemetry), 180, plant)
    for place in range(30):
        run(AlertEvaluator(database, telemetry), 5, plant, prefill=3.0 if place < 10 else 20.0)
    assert [update.kinds for update in alerts(database)[0].updates] == [[UpdateKind.GREW]]


class TestRollouts:
    """As the rollouts' store writes them down."""

    condition = RegressionCondition(metrics=["ttft", "itl"], baseline_s=1800)

    def note(self, database: Database, now: datetime, verb: str, **more: Any) -> None:
        pair = {"revision": 2, "previous_revision": 1, "canary_nodes": ["b"], "verdict": None, "judging": {}}
        with database.session() as session:
            kind, subject = f"rollout.{verb}", "rollout/1"
            evidence = {"pool": "main", **pair, **more}
            ledger.append(session, now=now, actor="tailwright", kind=kind, subject=subject, message="", **evidence)

    def arms(self, **factors: float) -> dict[str, Any]:
        def quantiles(factor: float) -> dict[str, float]:
            return {"count": 900, "p50": 0.2 * factor, "p95": 0.5 * factor, "p99": 0.7 * factor}

        return {"metrics": {name: {"control": quantiles(1.0), "canary": quantiles(f)} for name, f in factors.items()}}

    def pool(self, database: Database, telemetry: Any, new_plant: Any) -> list[Any]:
        plants = [new_plant(telemetry, node=name, seed=place) for place, name in enumerate("abc")]
        with database.session() as session:
            for plant in plants:
                wanted = EnrolmentRequest(node=plant.node, pool="main", backend="embedded")
                fleet.enrol(session, wanted, actor="x", now=plant.now)
        for plant in plants:
            plant.serve(600)
        return plants

    def test_a_trade_never_pages_from_canary_to_promotion_and_a_fault_after_it_does(
        self, database: Database, telemetry: Any, new_plant: Any, evaluator: AlertEvaluator
    ) -> None:
        plants = self.pool(database, telemetry, new_plant)
        add_rule(database, self.condition, plants[0].now)
        run(evaluator, 30, *plants)
        traded = {"prefill": 1.4, "itl": 0.7, "revision": 2}
        self.note(database, plants[0].now, "canary")
        for place in range(36):
            if place == 2:
                self.note(database, plants[0].now, "judging")
            for plant in plants:
                plant.serve(5, **(traded if plant.node == "b" else {}))
            evaluator.tick(plants[0].now)
        verdict = {"verdict": "better", "judging": self.arms(ttft=1.35, itl=0.7)}
        self.note(database, plants[0].now, "promoting", **verdict)
        run(evaluator, 10, *plants, **traded)
        self.note(database, plants[0].now, "promoted", **verdict)
        run(evaluator, 240, *plants, **traded)
        assert alerts(database) == []
        with database.session() as session:
            found = entries(session, before_id=None, limit=9, kind="alert.baseline_moved")
        assert sorted(entry.evidence["metric"] for entry in found) == ["itl", "ttft"]
        run(evaluator, 60, *plants, **{**traded, "prefill": 4.2})
        assert [alert.labels["metric"] for alert in alerts(database)] == ["ttft"]
        assert alerts(database)[0].evidence["baseline"]["moved"][0]["rollout_id"] == 1

    def test_an_alert_about_what_is_accepted_is_closed_with_the_reason(
        self, database: Database, telemetry: Any, new_plant: Any, evaluator: AlertEvaluator
    ) -> None:
        plants = self.pool(database, telemetry, new_plant)
        add_rule(database, self.condition, plants[0].now)
        run(evaluator, 30, *plants)
        run(evaluator, 60, *plants, prefill=2.0)
        assert [alert.state for alert in alerts(database)] == ["firing"]
        verdict = {"verdict": "not_worse", "judging": self.arms(ttft=2.0, itl=1.0)}
        self.note(database, plants[0].now, "promoting", **verdict)
        self.note(database, plants[0].now, "promoted", **verdict)
        run(evaluator, 120, *plants, prefill=2.0)
        alert = alerts(database)[0]
        assert alert.state == "resolved" and "rollout 1" in alert.evidence["resolved_because"]
        with database.session() as session:
            resolved = entries(session, before_id=None, limit=1, kind="alert.resolved")
        assert "new normal" in resolved[0].message

    def test_an_emergency_change_is_no_new_normal(
        self, database: Database, telemetry: Any, new_plant: Any, evaluator: AlertEvaluator
    ) -> None:
        plants = self.pool(database, telemetry, new_plant)
        add_rule(database, self.condition, plants[0].now)
        run(evaluator, 30, *plants)
        for verb in ("promoting", "promoted"):
            self.note(database, plants[0].now, verb, verdict="unjudged", canary_nodes=[])
        run(evaluator, 60, *plants, prefill=3.0, revision=2)
        assert [(alert.state, alert.labels["metric"]) for alert in alerts(database)] == [("firing", "ttft")]


def test_lost_requests_page_and_name_their_reasons(database: Database, telemetry: Any, plant: Any) -> None:
    """The slowest third is shed: what is left looks fast, and somebody is told all the same."""
    add_rule(database, RequestsFailedCondition(), plant.now)
    evaluator = AlertEvaluator(database, telemetry)

    def serve(seconds: float, shed: int) -> None:
        for _ in range(round(seconds / 5)):
            for reason, number in (("stop", 20 - shed), ("shed", shed), ("abort", 3)):
                labels = {"pool": "main", "node": "a", "finish_reason": reason}
                telemetry.add("requests", plant.now, float(number), **labels)
            plant.serve(5)
            evaluator.tick(plant.now)

    serve(120, 0)
    assert alerts(database) == []
    begun = plant.now
    serve(60, 6)
    (alert,) = alerts(database)
    assert alert.state == "firing" and alert.labels == {"kind": "requests_failed", "pool": "main"}
    assert alert.fired_at is not None and (alert.fired_at - begun).total_seconds() <= 60
    assert "shed" in alert.summary and set(alert.evidence["lost"]) == {"shed"}
    assert alert.diagnosis is not None and alert.diagnosis.causes
    serve(180, 0)
    with database.session() as session:
        assert [row.state for row in session.exec(select(AlertRow))] == ["resolved"]
