"""Inhibit rules in the database, inside the caller's transaction: each change and its ledger entry are in one."""

from datetime import datetime
from typing import Any

from sqlmodel import Session

from controlplane import ledger
from controlplane.alerts.tables import InhibitRuleRow
from controlplane.alerts.view import inhibit_rule_view
from controlplane.contract.bodies.alerts import InhibitRule, InhibitRuleCreate
from controlplane.db.rows import existing, moved, newest


def inhibit_rules(session: Session, *, before_id: int | None = None, limit: int = 10_000) -> list[InhibitRule]:
    """Newest first."""
    return [inhibit_rule_view(row) for row in session.exec(newest(InhibitRuleRow, before_id, limit))]


def create_inhibit_rule(
    session: Session, wanted: InhibitRuleCreate, *, actor: str, now: datetime, origin: str | None = None
) -> InhibitRule:
    """origin: the file that makes it."""
    row = InhibitRuleRow(**_fields(wanted), created_at=now, origin=origin)
    session.add(row)
    session.flush()
    _tell(session, now, actor, "created", row, f"inhibit rule {row.name!r}", wanted)
    return inhibit_rule_view(row)


def update_inhibit_rule(
    session: Session,
    rule_id: int,
    wanted: InhibitRuleCreate,
    *,
    actor: str,
    now: datetime,
    origin: str | None = None,
) -> InhibitRule:
    """Replace a rule; what it holds back from now on is what the new one says."""
    row = existing(session, InhibitRuleRow, rule_id, "inhibit rule", field="rule_id", lock=True)
    row.sqlmodel_update({**_fields(wanted), "origin": moved(row.origin, origin)})
    session.add(row)
    _tell(session, now, actor, "updated", row, f"inhibit rule {row.name!r} changed", wanted)
    return inhibit_rule_view(row)


def delete_inhibit_rule(session: Session, rule_id: int, *, actor: str, now: datetime) -> None:
    row = existing(session, InhibitRuleRow, rule_id, "inhibit rule", field="rule_id")
    session.delete(row)
    _tell(session, now, actor, "deleted", row, f"inhibit rule {row.name!r} deleted", None)


def _fields(wanted: InhibitRuleCreate) -> dict[str, Any]:
    return wanted.model_dump(mode="json", include=set(InhibitRuleCreate.model_fields))


def _tell(
    session: Session,
    now: datetime,
    actor: str,
    deed: str,
    row: InhibitRuleRow,
    message: str,
    wanted: InhibitRuleCreate | None,
) -> None:
    said = {} if wanted is None else {"rule": wanted.model_dump(mode="json")}
    ledger.append(session, now, actor, f"inhibit_rule.{deed}", f"inhibit-rule/{row.id}", message, **said)
