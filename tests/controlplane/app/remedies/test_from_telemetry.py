"""From latencies to remedies: the evaluator with its hook, real rollouts, real studies, and the webhook's body."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlmodel import Session, select

from controlplane.alerts import store as alerts
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.alerts.tables import DeliveryRow, DestinationRow
from controlplane.app.remedies import Remedies
from controlplane.contract.bodies.alerts import Alert, AlertRuleCreate, RegressionCondition, Remedy
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.remedies import RemedyAction, RemedyPolicy, RemedyState
from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.rollouts import store as rollouts
from controlplane.studies import store as studies
from tests.controlplane.alerts.conftest import Plant
from tests.controlplane.app.remedies.world import NOW, World
from tests.controlplane.telemetry.fake_reader import FakeReader

AUTOMATIC = Remedy(study=StudyCreate(pool="main"), policy=RemedyPolicy.AUTOMATIC)


class Service:
    """Two nodes that serve, and what the service makes of it, a window at a time."""

    def __init__(self, database: Database, remedy: Remedy | None) -> None:
        self.database = database
        telemetry = FakeReader()
        self.nodes = [Plant(telemetry, node=name, seed=seed) for seed, name in enumerate("ab")]
        self.remedies = Remedies()
        self.evaluator = AlertEvaluator(database, telemetry, self.remedies, external_url="https://t")
        with database.session() as session:
            for node in "ab":
                row = fleet.place(session, node, pool="main", role="serving", backend="e", now=self.now)
                row.connected = row.healthy = True
            made = [
                fleet.create_revision(session, RevisionCreate(knobs={"max_num_batched_tokens": n}), "me", self.now)
                for n in (512, 4)
            ]
            self.good, self.bad = (revision.number for revision in made)
            fleet.set_pool_revision(session, "main", self.good, self.now)
            wanted = AlertRuleCreate(name="slow", condition=RegressionCondition(), remedy=remedy)
            alerts.create_rule(session, wanted, self.now)
            session.add(DestinationRow(name="pager", shown="http://127.0.0.1:9/x", created_at=self.now))

    @property
    def now(self) -> datetime:
        return self.nodes[0].now

    def serve(self, seconds: float, *revisions: int, **how: Any) -> None:
        """Node a runs the first revision, node b the last; `how` says how slow those with the bad one are."""
        for _ in range(round(seconds / 5)):
            for plant, revision in zip(self.nodes, (revisions[0], revisions[-1]), strict=True):
                plant.serve(5, rate=3.0, revision=revision, **how)
            self.evaluator.tick(self.now)

    def emergency(self) -> int:
        with self.database.session() as session:
            wanted = RolloutCreate(pool="main", revision=self.bad, emergency=True, reason="more")
            made = rollouts.create(session, wanted, actor="me", now=self.now)
        with self.database.session() as session:
            world = World(session)
            world.ends(made.id, RolloutPhase.PROMOTED, world_s(self.now + timedelta(seconds=2)))
        return made.id

    def alerts(self) -> list[Alert]:
        """Oldest first."""
        with self.database.read_session() as session:
            return alerts.alerts(session, before_id=None, limit=99)[::-1]


def world_s(moment: datetime) -> float:
    return (moment - NOW).total_seconds()


@pytest.fixture
def service(database: Database) -> Service:
    return Service(database, AUTOMATIC)


@pytest.mark.slow
def test_the_emergency_is_named_and_taken_back_not_the_canary_before_it(service: Service, database: Database) -> None:
    service.serve(150, service.good)
    with database.session() as session:
        wanted = RolloutCreate(pool="main", revision=service.bad)
        canary = rollouts.create(session, wanted, actor="me", now=service.now)
    service.serve(40, service.bad, service.good)
    with database.session() as session:
        World(session).ends(canary.id, RolloutPhase.ROLLED_BACK, world_s(service.now))
    service.serve(80, service.good)
    changed = service.now
    emergency = service.emergency()
    service.serve(40, service.bad, prefill=9.0)

    (alert, *_) = service.alerts()
    assert alert.diagnosis is not None
    cause = alert.diagnosis.causes[0]
    assert (cause["cause"], cause["rollout_id"], cause["emergency"]) == ("config_change", emergency, True)
    assert cause["reached_all_at"] == changed.isoformat() and cause["verdict"] == "unjudged"
    assert f"brought by emergency rollout {emergency}, reached all of the pool at {changed:%H:%M:%S}" in alert.summary
    back, study = alert.remedies
    assert (back.action, back.state, back.revision, back.back_to) == (
        RemedyAction.ROLL_BACK,
        RemedyState.STARTED,
        service.bad,
        service.good,
    )
    assert (study.state, study.study_id) == (RemedyState.STARTED, alert.study_id)
    with Session(database.engine) as session:
        made = rollouts.get(session, back.rollout_id or 0)
        assert (made.spec.takes_back, made.phase) == (service.bad, RolloutPhase.CANARY)
        body = json.loads(session.exec(select(DeliveryRow).where(DeliveryRow.alert_id == alert.id)).one().body)
    said = body["alerts"][0]["annotations"]["remedy"]
    assert f"roll back revision {service.bad} to {service.good}: started (rollout {made.id})" in said
    assert body["tailwright"]["remedies"][0]["why"] in said and body["tailwright"]["study_id"] == study.study_id
    assert service.remedies.take_news()


@pytest.mark.slow
def test_a_first_alarm_on_noise_does_not_use_up_the_remedy_of_the_real_thing(
    service: Service, database: Database
) -> None:
    service.serve(150, service.good)
    service.serve(35, service.good, itl=3.0)
    (noise,) = service.alerts()
    assert [(step.action, step.state) for step in noise.remedies] == [(RemedyAction.STUDY, RemedyState.STARTED)]
    with database.session() as session:
        # Its worker finds that there is nothing to find.
        studies.cancel(session, noise.study_id or 0, actor="me", now=service.now)
    service.serve(70, service.good)
    service.emergency()
    service.serve(60, service.bad, prefill=9.0)

    real = next(alert for alert in service.alerts() if alert.labels["metric"] == "prefill")
    assert real.diagnosis is not None and real.diagnosis.causes[0]["cause"] == "config_change"
    assert [(step.action, step.state) for step in real.remedies] == [
        (RemedyAction.ROLL_BACK, RemedyState.STARTED),
        (RemedyAction.STUDY, RemedyState.STARTED),
    ]
    assert real.study_id not in (None, noise.study_id)


@pytest.mark.slow
def test_a_rule_without_a_remedy_says_how_to_take_it_back(database: Database) -> None:
    service = Service(database, None)
    service.serve(120, service.good)
    service.emergency()
    service.serve(40, service.bad, prefill=9.0)
    (alert, *_) = service.alerts()
    (back,) = alert.remedies
    assert back.state is RemedyState.OFFERED and back.rollout_id is None
    assert f"tailwright rollout start --pool main --revision {service.good} --takes-back {service.bad}" in back.why
