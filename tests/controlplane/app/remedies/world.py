"""A pool in a real database, with real rollouts and studies; alerts and rules as values."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlmodel import Session

from controlplane import ledger
from controlplane.alerts import store as alerts
from controlplane.alerts.tables import AlertRow
from controlplane.app.remedies import Remedies, try_again
from controlplane.contract.bodies.alerts import (
    Alert,
    AlertRule,
    AlertRuleCreate,
    AlertState,
    Diagnosis,
    DriftCondition,
    Remedy,
    Severity,
)
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.remedies import RemedyAction, RemedyPolicy, RemedyState, RemedyStep
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.bodies.studies import Study, StudyCreate
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.rollouts import store as rollouts
from controlplane.rollouts.decision import Decision, SetPoolRevision
from controlplane.rollouts.policies import store as policies
from controlplane.studies import store as studies

NOW = datetime(2026, 5, 1, tzinfo=UTC)
GOOD, BAD, OTHER = 1, 2, 3


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def rule(remedy: Remedy | None, number: int = 4) -> AlertRule:
    return AlertRule(id=number, name="slow", condition=DriftCondition(), remedy=remedy, created_at=NOW)


def cause(kind: str, **more: Any) -> dict[str, Any]:
    return {"cause": kind, "score": 0.95, "message": f"it is {kind}", **more}


def alert(number: int, first: dict[str, Any] | None = None, **more: Any) -> Alert:
    fields: dict[str, Any] = {
        "id": number,
        "fingerprint": "f",
        "rule_id": 4,
        "rule": "slow",
        "state": AlertState.FIRING,
        "severity": Severity.PAGE,
        "labels": {"pool": "p"},
        "summary": "ttft p99 doubled",
        "started_at": NOW,
        "value": 1.0,
        "threshold": 0.5,
    }
    if first is not None:
        fields["diagnosis"] = Diagnosis(stage="prefill", summary="ttft p99 doubled", causes=[first])
    return Alert.model_validate({**fields, **more})


class World:
    """What happens around the remedies, each in the same transaction here."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.remedies = Remedies()

    def fires(self, told: Alert, by: AlertRule, seconds: float) -> list[RemedyStep]:
        return list(self.remedies(self.session, told, by, at(seconds)))

    def reaches(self, revision: int, seconds: float, **more: Any) -> Rollout:
        """An emergency rollout that every node has confirmed."""
        wanted = RolloutCreate(pool="p", revision=revision, emergency=True, reason="now", **more)
        made = rollouts.create(self.session, wanted, actor="me", now=at(seconds))
        self.ends(made.id, RolloutPhase.PROMOTED, seconds + 2)
        return rollouts.get(self.session, made.id)

    def ends(self, rollout_id: int, phase: RolloutPhase, seconds: float) -> None:
        """A rollout that is under way comes to its end, as the controller would bring it there."""
        row = rollouts.row_of(self.session, rollout_id)
        promoted = phase is RolloutPhase.PROMOTED
        row.phase = (RolloutPhase.PROMOTING if promoted else RolloutPhase.ROLLING_BACK).value
        actions = (SetPoolRevision(row.spec["revision"]),) if promoted else ()
        verdict = Verdict.UNJUDGED if row.spec["emergency"] else Verdict.NOT_WORSE if promoted else Verdict.WORSE
        decision = Decision(phase, "ended", verdict=verdict, actions=actions)
        views = policies.tellable(self.session, row.pool)
        rollouts.carry_out(self.session, row, decision, views, actor="tailwright", now=at(seconds))

    def claims(self, seconds: float) -> Study:
        found = studies.claim(self.session, "worker", at(seconds))
        assert found is not None
        return found

    def told(self) -> list[LedgerEntry]:
        """What the ledger says of remedies, oldest first."""
        self.session.flush()
        found = ledger.entries(self.session, before_id=None, limit=100, subject="alert-rule/4")
        return [entry for entry in reversed(found) if entry.kind.startswith("alert.remedy")]

    def production(self) -> int | None:
        return fleet.pool_revision(self.session, "p")


REMEDY = Remedy(study=StudyCreate(pool="p"), policy=RemedyPolicy.AUTOMATIC, cooldown_s=600)


class Open:
    """A firing alert in the database, with the steps that were chosen as it fired."""

    def __init__(self, world: World, told: Alert, seconds: float) -> None:
        self.world = world
        wanted = AlertRuleCreate(name="slow", condition=DriftCondition(), remedy=REMEDY)
        rule = alerts.create_rule(world.session, wanted, NOW)
        steps = world.fires(told.model_copy(update={"rule_id": rule.id}), rule, seconds)
        fields = told.model_dump(mode="json", exclude={"started_at", "fired_at", "resolved_at", "rule_id", "remedies"})
        row = AlertRow(**fields, rule_id=rule.id, kind="drift", pool="p", started_at=NOW, breach_since=NOW)
        row.remedies = [step.model_dump(mode="json") for step in steps]
        world.session.add(row)
        world.session.commit()
        self.id = row.id

    def steps(self, database: Database, now: datetime) -> list[tuple[RemedyAction, RemedyState]]:
        """What stands on the alert after a tick."""
        self.world.session.commit()
        try_again(database, self.world.remedies, now)
        with Session(database.engine) as session:
            found = alerts.alert(session, self.id or 0)
        self.world.session.expire_all()
        return [(step.action, step.state) for step in found.remedies]
