"""The rules a new installation starts with, so that it alerts before anybody has configured anything."""

from datetime import datetime

from sqlmodel import Session, select

from controlplane import ledger
from controlplane.alerts import store
from controlplane.alerts.tables import AlertRuleRow
from controlplane.contract.alerts import AlertRuleCreate, DriftCondition, RegressionCondition, Severity
from controlplane.ledger.tables import LedgerRow

LEDGER_KIND = "alert_rule.defaults"

DEFAULT_RULES: tuple[AlertRuleCreate, ...] = (
    AlertRuleCreate(name="Latency regression", condition=RegressionCondition(), severity=Severity.PAGE),
    AlertRuleCreate(name="Configuration drift", condition=DriftCondition(), severity=Severity.TICKET),
)


def ensure_default_rules(session: Session, now: datetime) -> int:
    """Create the default rules at the first start only: one that was deleted stays deleted. Returns how many."""
    done = session.exec(select(LedgerRow.id).where(LedgerRow.kind == LEDGER_KIND)).first() is not None
    if done or session.exec(select(AlertRuleRow.id)).first() is not None:
        return 0
    for wanted in DEFAULT_RULES:
        store.create_rule(session, wanted, now)
    names = ", ".join(repr(wanted.name) for wanted in DEFAULT_RULES)
    ledger.append(
        session, now=now, actor="trimtab", kind=LEDGER_KIND, subject="alert-rules", message=f"default rules {names}"
    )
    return len(DEFAULT_RULES)
