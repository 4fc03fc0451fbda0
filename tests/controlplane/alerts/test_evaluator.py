"""The evaluator end to end on synthetic windows: what fires, what must not, and what survives a restart."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlmodel import Session, select

from controlplane.alerts import store
from controlplane.alerts.conditions.regression import Regression
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.alerts.rules.defaults import ensure_default_rules
from controlplane.alerts.tables import AlertRow, DeliveryRow, DestinationRow, DetectorStateRow, SilenceRow
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.alerts import (
    AbsoluteCondition,
    Alert,
    AlertRule,
    AlertRuleCreate,
    DriftCondition,
    RegressionCondition,
)
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.remedies import RemedyAction, RemedyState, RemedyStep
from controlplane.contract.bodies.slo import Limit
from controlplane.db import Database
from controlplane.fleet import store as fleet
from controlplane.fleet.tables import NodeRow
from controlplane.ledger import entries
from controlplane.telemetry import Question

STEP = timedelta(seconds=5)


def add_rule(database: Database, condition: Any, now: datetime, **more: Any) -> AlertRule:
    with database.session() as session:
        return store.create_rule(session, AlertRuleCreate(name="rule", condition=condition, **more), now)


def add_destination(database: Database, now: datetime, name: str = "pager") -> int:
    with database.session() as session:
        row = DestinationRow(name=name, shown="http://127.0.0.1:9/x", created_at=now)
        session.add(row)
        session.flush()
        assert row.id is not None
        return row.id


def alerts(database: Database) -> list[Alert]:
    with database.session() as session:
        return store.alerts(session, before_id=None, limit=100)


def deliveries(database: Database) -> list[tuple[int, str]]:
    with database.session() as session:
        return [(row.alert_id, row.status) for row in session.exec(select(DeliveryRow))]


def run(evaluator: AlertEvaluator, plant: Any, seconds: float, **how: Any) -> None:
    """Serve and evaluate in step, as production does."""
    for _ in range(round(seconds / 5)):
        plant.serve(5, **how)
        evaluator.tick(plant.now)


@pytest.fixture
def evaluator(database: Database, telemetry: Any) -> AlertEvaluator:
    return AlertEvaluator(database, telemetry)


def knobs(database: Database, now: datetime, **values: Any) -> int:
    with database.session() as session:
        return fleet.create_revision(session, RevisionCreate(knobs=values), "test", now).number


@pytest.mark.slow
class TestRegression:
    condition = RegressionCondition()

    def test_short_history_slow_prefill_after_a_config_change(
        self, database: Database, plant: Any, evaluator: AlertEvaluator
    ) -> None:
        """The demo: 90 s of history at 6 requests a second, then a bad knob."""
        first = knobs(database, plant.now, max_num_batched_tokens=512)
        second = knobs(database, plant.now, max_num_batched_tokens=32)
        add_rule(database, self.condition, plant.now)
        add_destination(database, plant.now)
        run(evaluator, plant, 90, revision=first)
        assert alerts(database) == []
        changed = plant.now
        run(evaluator, plant, 35, revision=second, prefill=9.0)
        fired = alerts(database)
        assert [alert.labels["metric"] for alert in fired] == ["prefill"]
        alert = fired[0]
        assert alert.state == "firing" and abs((alert.started_at - changed).total_seconds()) <= 5
        assert alert.diagnosis is not None and alert.diagnosis.stage == "prefill"
        cause = alert.diagnosis.causes[0]
        assert cause["cause"] == "config_change"
        assert cause["changed"] == {"max_num_batched_tokens": [512, 32]}
        assert "max_num_batched_tokens 512 -> 32" in alert.summary and "Prefill p9" in alert.summary
        assert "with it TTFT p99 from" in alert.summary and "E2E p99 from" in alert.summary
        assert alert.evidence["judged_by"].startswith("stages, freed of waiting (100 % of requests tell them)")
        assert alert.value is not None and alert.threshold is not None and alert.value > 3 * alert.threshold
        assert alert.evidence["baseline"]["short"] and "short" in alert.evidence["error_rate"]["statement"]
        assert deliveries(database) == [(alert.id, "firing")]
        with database.session() as session:
            assert [entry.kind for entry in entries(session, before_id=None, limit=9, kind="alert")] == ["alert.fired"]

    def test_recovers_and_resolves_once(self, database: Database, plant: Any, evaluator: AlertEvaluator) -> None:
        add_rule(database, self.condition, plant.now)
        add_destination(database, plant.now)
        run(evaluator, plant, 120)
        run(evaluator, plant, 60, prefill=5.0)
        run(evaluator, plant, 90)
        found = alerts(database)
        assert [(alert.labels["metric"], alert.state) for alert in found] == [("prefill", "resolved")]
        assert found[0].diagnosis is not None and found[0].diagnosis.stage == "prefill"
        assert not found[0].updates, found[0].updates
        assert deliveries(database) == [(found[0].id, "firing"), (found[0].id, "resolved")]

    def test_what_comes_again_is_compared_with_the_calm_between(
        self, database: Database, plant: Any, evaluator: AlertEvaluator
    ) -> None:
        add_rule(database, self.condition, plant.now)
        run(evaluator, plant, 120)
        run(evaluator, plant, 300, prefill=5.0)
        run(evaluator, plant, 120)
        again = plant.now
        run(evaluator, plant, 60, prefill=5.0)
        newest, first = alerts(database)
        assert (newest.state, first.state, newest.fingerprint) == ("firing", "resolved", first.fingerprint)
        assert abs((newest.started_at - again).total_seconds()) <= 15
        assert newest.diagnosis is not None and newest.diagnosis.attribution is not None
        moved = newest.diagnosis.attribution
        assert moved.during_s > 3 * moved.before_s, (moved.before_s, moved.during_s)
        assert moved.since is not None and abs((moved.since.at - again).total_seconds()) <= 10  # Two windows.
        stages = {one.stage: one for one in newest.diagnosis.stages}
        assert stages["prefill"].share_of_increase > 0.9
        before, during = stages["prefill"].before_mean_s, stages["prefill"].during_mean_s
        assert before is not None and during is not None and during > 3 * before

    def test_waiting_is_no_regression_of_the_service(
        self, database: Database, plant: Any, evaluator: AlertEvaluator
    ) -> None:
        add_rule(database, self.condition, plant.now)
        run(evaluator, plant, 120)
        run(evaluator, plant, 120, queue=60.0)
        assert alerts(database) == []

    def test_decode_regression_is_told_as_decode(
        self, database: Database, plant: Any, evaluator: AlertEvaluator
    ) -> None:
        add_rule(database, self.condition, plant.now)
        run(evaluator, plant, 120)
        run(evaluator, plant, 40, itl=3.0)
        found = alerts(database)
        assert [alert.labels["metric"] for alert in found] == ["itl"]
        assert found[0].diagnosis is not None and found[0].diagnosis.stage == "decode"
        assert "forward pass" in found[0].summary

    def test_changed_prompt_mix_does_not_fire(self, database: Database, plant: Any, evaluator: AlertEvaluator) -> None:
        add_rule(database, self.condition, plant.now)
        plant.serve(180, mix={"<=128": 0.8, "<=512": 0.1, "<=2k": 0.1})
        run(evaluator, plant, 60, mix={"<=128": 0.8, "<=512": 0.1, "<=2k": 0.1})
        run(evaluator, plant, 120, mix={"<=128": 0.1, "<=512": 0.1, "<=2k": 0.8})
        assert alerts(database) == []

    def test_load_surge_within_what_was_seen_does_not_fire(
        self, database: Database, plant: Any, evaluator: AlertEvaluator
    ) -> None:
        """Three times the load makes everything slower, as it did before."""
        add_rule(database, self.condition, plant.now)
        # The past, busy hours and quiet ones, lies there when the service starts.
        for _ in range(3):
            plant.serve(300, rate=4.0)
            plant.serve(300, rate=12.0, queue=10.0, itl=1.3)
        run(evaluator, plant, 60, rate=4.0)
        run(evaluator, plant, 120, rate=12.0, queue=10.0, itl=1.3)
        assert [(alert.labels, alert.summary) for alert in alerts(database)] == []

    def test_load_beyond_what_was_seen_is_not_judged(
        self, database: Database, plant: Any, evaluator: AlertEvaluator
    ) -> None:
        add_rule(database, self.condition, plant.now)
        run(evaluator, plant, 180, rate=4.0, evenly=True)
        run(evaluator, plant, 60, rate=24.0, evenly=True)
        assert alerts(database) == []

    def test_null_stays_silent(self, database: Database, plant: Any, evaluator: AlertEvaluator) -> None:
        add_rule(database, self.condition, plant.now)
        plant.serve(300)
        run(evaluator, plant, 300)
        assert alerts(database) == []

    def test_restart_keeps_the_evidence_and_tells_nothing_twice(
        self, database: Database, telemetry: Any, plant: Any
    ) -> None:
        add_rule(database, self.condition, plant.now)
        add_destination(database, plant.now)
        for place in range(24 + 7):  # A new process for each tick.
            slow = 6.0 if place >= 24 else 1.0
            plant.serve(5, prefill=slow)
            AlertEvaluator(database, telemetry).tick(plant.now)
            AlertEvaluator(database, telemetry).tick(plant.now)
        assert len(alerts(database)) == 1
        assert deliveries(database) == [(alerts(database)[0].id, "firing")]

    def test_a_baseline_is_not_read_from_windows_that_telemetry_keeps_no_more(
        self, database: Database, telemetry: Any, plant: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is older is there in wider windows only, and would look like another load."""
        asked: list[datetime] = []
        histograms = telemetry.histograms

        def noted(question: Question) -> Any:
            if question.step_s is not None:
                asked.append(question.span.start)
            return histograms(question)

        monkeypatch.setattr(telemetry, "histograms", noted)
        add_rule(database, self.condition, plant.now)
        plant.serve(120)
        limited = AlertEvaluator(database, telemetry, finest_kept_s=62.0)
        run(limited, plant, 30)
        assert plant.now - timedelta(seconds=120) < min(asked) <= plant.now - timedelta(seconds=60)
        assert len(asked) < 42  # Nor is it read again at each tick.
        asked.clear()
        AlertEvaluator(database, telemetry).tick(plant.now)
        assert min(asked) < plant.now - timedelta(seconds=120)

    def test_missed_ticks_lose_no_window(self, database: Database, telemetry: Any, plant: Any) -> None:
        """One late tick over six windows comes to the same evidence as six ticks."""
        add_rule(database, RegressionCondition(metrics=["ttft"]), plant.now)
        evaluator = AlertEvaluator(database, telemetry)
        run(evaluator, plant, 120)
        plant.serve(40, prefill=5.0)
        evaluator.tick(plant.now)
        assert [alert.labels["metric"] for alert in alerts(database)] == ["ttft"]

    def test_no_traffic_ends_an_alert(self, database: Database, plant: Any, evaluator: AlertEvaluator) -> None:
        add_rule(database, RegressionCondition(metrics=["ttft"]), plant.now)
        run(evaluator, plant, 120)
        run(evaluator, plant, 40, prefill=8.0)
        assert [alert.state for alert in alerts(database)] == ["firing"]
        for minute in range(15):
            evaluator.tick(plant.now + timedelta(minutes=minute))
        assert [alert.state for alert in alerts(database)] == ["resolved"]

    def test_trial_pool_is_not_watched(
        self, database: Database, telemetry: Any, new_plant: Any, evaluator: AlertEvaluator
    ) -> None:
        plant = new_plant(telemetry, pool="main-trial", node="t")
        with database.session() as session:
            wanted = EnrolmentRequest(node="t", pool="main-trial", backend="embedded", role="trial")
            fleet.enrol(session, wanted, actor="x", now=plant.now)
        add_rule(database, self.condition, plant.now)
        run(evaluator, plant, 120)
        run(evaluator, plant, 40, prefill=9.0)
        assert alerts(database) == []


class TestAbsolute:
    condition = AbsoluteCondition(limits=[Limit(metric="ttft", q=0.95, limit_s=0.6)], window_s=30, for_s=15)

    def test_fires_after_for_s_and_resolves(self, database: Database, plant: Any, evaluator: AlertEvaluator) -> None:
        add_rule(database, self.condition, plant.now)
        add_destination(database, plant.now)
        run(evaluator, plant, 60)
        assert alerts(database) == []
        run(evaluator, plant, 15, queue=60.0)
        assert [alert.state for alert in alerts(database)] == ["pending"]
        assert deliveries(database) == []
        run(evaluator, plant, 20, queue=60.0)
        alert = alerts(database)[0]
        assert alert.state == "firing" and alert.labels["q"] == "0.95" and alert.threshold == 0.6
        assert alert.diagnosis is not None and alert.diagnosis.stage == "queue"
        assert "probability of at most" in alert.evidence["error_rate"]["statement"]
        run(evaluator, plant, 75)
        assert [alert.state for alert in alerts(database)] == ["resolved"]
        assert [status for _, status in deliveries(database)] == ["firing", "resolved"]

    def test_a_short_breach_is_dropped(self, database: Database, plant: Any, evaluator: AlertEvaluator) -> None:
        add_rule(database, self.condition.model_copy(update={"for_s": 120.0}), plant.now)
        run(evaluator, plant, 60)
        run(evaluator, plant, 20, queue=60.0)
        run(evaluator, plant, 60)
        assert alerts(database) == []

    def test_silence_holds_back_and_its_end_delivers(
        self, database: Database, plant: Any, evaluator: AlertEvaluator
    ) -> None:
        add_rule(database, self.condition, plant.now)
        add_destination(database, plant.now)
        with database.session() as session:
            session.add(
                SilenceRow(
                    matchers={"severity": "page"},
                    patterns={"pool": "ma.n"},
                    comment="known",
                    created_by="me",
                    starts_at=plant.now,
                    ends_at=plant.now + timedelta(seconds=150),
                )
            )
        run(evaluator, plant, 60)
        run(evaluator, plant, 60, queue=60.0)
        alert = alerts(database)[0]
        assert alert.silenced and alert.state == "firing" and deliveries(database) == []
        run(evaluator, plant, 60, queue=60.0)
        assert not alerts(database)[0].silenced
        assert deliveries(database) == [(alert.id, "firing")]

    def test_the_remedy_is_asked_of_every_alert(self, database: Database, telemetry: Any, plant: Any) -> None:
        asked: list[int] = []

        def on_fire(session: Session, alert: Alert, rule: AlertRule, now: datetime) -> list[RemedyStep]:
            asked.append(alert.id)
            step = RemedyStep(
                time=now, action=RemedyAction.STUDY, state=RemedyState.STARTED, cause="load", why="why", study_id=41
            )
            return [step] if len(asked) == 1 else []

        limits = [Limit(metric=metric, q=0.95, limit_s=0.6) for metric in ("ttft", "queue")]
        add_rule(database, self.condition.model_copy(update={"limits": limits}), plant.now)
        evaluator = AlertEvaluator(database, telemetry, on_fire)
        run(evaluator, plant, 60)
        run(evaluator, plant, 60, queue=60.0)
        assert len(asked) == 2
        assert sorted(str(alert.study_id) for alert in alerts(database)) == ["41", "None"]
        assert sorted(len(alert.remedies) for alert in alerts(database)) == [0, 1]
        assert any(alert.remedies and alert.remedies[0].why == "why" for alert in alerts(database))

    def test_a_rule_without_a_remedy_is_asked_too(self, database: Database, telemetry: Any, plant: Any) -> None:
        asked: list[int] = []

        def on_fire(session: Session, alert: Alert, rule: AlertRule, now: datetime) -> list[RemedyStep]:
            asked.append(alert.id)
            return []

        add_rule(database, self.condition, plant.now)
        evaluator = AlertEvaluator(database, telemetry, on_fire)
        run(evaluator, plant, 60)
        run(evaluator, plant, 60, queue=60.0)
        assert asked == [alerts(database)[0].id]

    def test_a_failing_remedy_does_not_stop_the_alert(self, database: Database, telemetry: Any, plant: Any) -> None:
        def on_fire(*_: Any) -> list[RemedyStep]:
            raise RuntimeError("no tuner")

        add_rule(database, self.condition, plant.now)
        evaluator = AlertEvaluator(database, telemetry, on_fire)
        run(evaluator, plant, 60)
        run(evaluator, plant, 60, queue=60.0)
        assert alerts(database)[0].state == "firing"
        assert "no tuner" in alerts(database)[0].evidence["remedy_error"]

    def test_deleting_the_rule_resolves_its_alert(
        self, database: Database, plant: Any, evaluator: AlertEvaluator
    ) -> None:
        rule = add_rule(database, self.condition, plant.now)
        add_destination(database, plant.now)
        run(evaluator, plant, 60)
        run(evaluator, plant, 60, queue=60.0)
        with database.session() as session:
            store.delete_rule(session, rule.id, plant.now)
        assert [alert.state for alert in alerts(database)] == ["resolved"]
        assert [status for _, status in deliveries(database)] == ["firing", "resolved"]
        with database.session() as session:
            assert session.exec(select(DetectorStateRow)).all() == []

    def test_the_same_condition_comes_back_with_the_same_fingerprint(
        self, database: Database, plant: Any, evaluator: AlertEvaluator
    ) -> None:
        add_rule(database, self.condition, plant.now)
        for _ in range(2):
            run(evaluator, plant, 90)
            run(evaluator, plant, 60, queue=60.0)
        run(evaluator, plant, 90)
        found = alerts(database)
        assert len(found) == 2 and len({alert.fingerprint for alert in found}) == 1


class TestDrift:
    def test_drift_for_long_fires_and_ends(self, database: Database, plant: Any, evaluator: AlertEvaluator) -> None:
        now = plant.now
        add_rule(database, DriftCondition(for_s=60), now)
        wanted = knobs(database, now, max_num_seqs=8)
        with database.session() as session:
            fleet.enrol(session, EnrolmentRequest(node="a", pool="main", backend="e"), actor="x", now=now)
            row = session.get(NodeRow, "a")
            assert row is not None
            row.effective = {"revision": 1, "knobs": {"max_num_seqs": 32}}
            session.add(row)
            fleet.set_pool_revision(session, "main", wanted, now)
        evaluator.tick(now + timedelta(seconds=30))
        assert [alert.state for alert in alerts(database)] == ["pending"]
        evaluator.tick(now + timedelta(seconds=61))
        alert = alerts(database)[0]
        assert alert.state == "firing" and alert.labels["node"] == "a"
        assert alert.evidence["differing"]["max_num_seqs"] == [8, 32]
        assert "max_num_seqs is 32, wanted 8" in alert.summary
        with database.session() as session:
            row = session.get(NodeRow, "a")
            assert row is not None
            row.drift_since = None
            session.add(row)
        evaluator.tick(now + timedelta(seconds=70))
        assert [alert.state for alert in alerts(database)] == ["resolved"]


def test_default_rules_come_once(database: Database, plant: Any) -> None:
    with database.session() as session:
        assert ensure_default_rules(session, plant.now) == 15
    with database.session() as session:
        for rule in store.rules(session):
            store.delete_rule(session, rule.id, plant.now)
    with database.session() as session:
        assert ensure_default_rules(session, plant.now) == 0


@pytest.mark.slow
def test_a_rule_that_fails_does_not_stop_the_others(
    database: Database, plant: Any, evaluator: AlertEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_rule(database, TestAbsolute.condition, plant.now)
    add_rule(database, RegressionCondition(), plant.now)
    monkeypatch.setattr(Regression, "judge", lambda *_: 1 / 0)
    run(evaluator, plant, 60)
    run(evaluator, plant, 60, queue=60.0)
    with database.session() as session:
        assert [row.kind for row in session.exec(select(AlertRow))] == ["absolute"]
    assert [name.partition(" on ")[2] for name in evaluator.failing] == ["main"]
    monkeypatch.undo()
    run(evaluator, plant, 5)
    assert not evaluator.failing
