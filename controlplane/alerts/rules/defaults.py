"""The rules a new installation starts with, so that it alerts before anybody has configured anything."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlmodel import Session, select

from controlplane import ledger
from controlplane.alerts import store
from controlplane.alerts.symptoms.symptom_catalogue import catalogue
from controlplane.alerts.tables import AlertRuleRow
from controlplane.contract.bodies.alerts import (
    AlertRuleCreate,
    ConfigFailedCondition,
    DriftCondition,
    NodeClaimedCondition,
    RegressionCondition,
    RequestsFailedCondition,
    RolloutWaitsCondition,
    SaturationCondition,
    Severity,
    SymptomCondition,
    TelemetryLostCondition,
    TrafficChangedCondition,
)
from controlplane.ledger.tables import LedgerRow

LEDGER_KIND = "alert_rule.defaults"

DEFAULT_RULES: tuple[AlertRuleCreate, ...] = (
    AlertRuleCreate(name="Latency regression", condition=RegressionCondition(), severity=Severity.PAGE),
    AlertRuleCreate(name="Saturation", condition=SaturationCondition(), severity=Severity.PAGE),
    AlertRuleCreate(name="Traffic changed", condition=TrafficChangedCondition(), severity=Severity.TICKET),
    AlertRuleCreate(name="Requests lost", condition=RequestsFailedCondition(), severity=Severity.PAGE),
    AlertRuleCreate(name="Configuration drift", condition=DriftCondition(), severity=Severity.TICKET),
    AlertRuleCreate(name="Configuration failed", condition=ConfigFailedCondition(), severity=Severity.PAGE),
    AlertRuleCreate(name="Two agents, one node", condition=NodeClaimedCondition(), severity=Severity.TICKET),
    AlertRuleCreate(name="A rollout waits", condition=RolloutWaitsCondition(), severity=Severity.TICKET),
    AlertRuleCreate(name="Telemetry lost", condition=TelemetryLostCondition(), severity=Severity.TICKET),
    *(
        AlertRuleCreate(name=one.title, condition=SymptomCondition(symptom=one.id), severity=one.severity)
        for one in catalogue().values()
        if one.default and one.limit is not None
    ),
)
FIRST_RULES = frozenset({"regression", "drift"})
"""The kinds of default rules that there were before the ledger entry named them."""


def watched_for(condition: Mapping[str, Any]) -> str:
    """What tells default rules apart: the kind, and of the catalogue's symptoms which."""
    kind = str(condition["kind"])
    return f"{kind}:{condition['symptom']}" if "symptom" in condition else kind


def ensure_default_rules(session: Session, now: datetime) -> int:
    """Create each default rule once in an installation's life; returns how many.

    One that was deleted stays deleted. One that is new in this version comes to older installations too, unless they
    have made a rule of its kind themselves.
    """
    entries = session.exec(select(LedgerRow).where(LedgerRow.kind == LEDGER_KIND)).all()
    made = {watched_for(row.condition) for row in session.exec(select(AlertRuleRow))}
    given: set[str] = {kind for entry in entries for kind in entry.evidence.get("kinds", FIRST_RULES)}
    if made and not entries:
        given = set(FIRST_RULES)  # Somebody's own rules are older than any default.
    missing = [wanted for wanted in DEFAULT_RULES if _name(wanted) not in given]
    if not missing:
        return 0
    created = [wanted for wanted in missing if _name(wanted) not in made]
    for wanted in created:
        store.add_rule(session, wanted, now)
    names = ", ".join(repr(wanted.name) for wanted in created) or "none: rules of these kinds are there already"
    kinds = sorted(given | {_name(wanted) for wanted in missing})
    ledger.append(session, now, ledger.SERVICE, LEDGER_KIND, "alert-rules", f"default rules {names}", kinds=kinds)
    return len(created)


def _name(wanted: AlertRuleCreate) -> str:
    return watched_for(wanted.condition.model_dump(mode="json"))
